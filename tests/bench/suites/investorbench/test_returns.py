"""What positions earn: by hand, by an independent computation, and as properties."""

import json
import random
from collections.abc import Sequence
from fractions import Fraction
from math import exp, isclose, log, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.market.prices import POSITIONS, Position, read_markets
from bench.suites.investorbench import returns
from bench.suites.investorbench.returns import day_returns
from tests.support.checkout import INVESTORBENCH

PRICES = st.integers(1, 10**7).map(lambda thousandths: thousandths / 1000)
DAYS = st.lists(st.tuples(PRICES, st.sampled_from(POSITIONS)), min_size=1)
NAMES = ("CR", "SR", "MDD", "AV")

BUY_AND_HOLD: dict[str, tuple[float, ...]] = {
    # CR, SR, MDD, AV, then the same without the last day
    "BTC": (0.2182, 0.9898, 0.2080, 0.3743, 0.2192, 0.9964, 0.2080, 0.3751),
    "ETH": (0.0453, 0.2114, 0.2989, 0.4182, 0.0124, 0.0582, 0.2989, 0.4168),
    "HON": (0.3434, 2.4127, 0.0919, 0.2391, 0.3326, 2.3467, 0.0919, 0.2397),
    "JNJ": (0.1429, 1.3766, 0.0985, 0.1745, 0.1389, 1.3429, 0.0985, 0.1750),
    "MSFT": (0.1665, 1.1216, 0.0943, 0.2495, 0.1534, 1.0386, 0.0943, 0.2498),
    "NFLX": (-0.0545, -0.2653, 0.1644, 0.4106, -0.0614, -0.3005, 0.1644, 0.4121),
    "UVV": (0.3823, 2.1955, 0.1541, 0.2926, 0.3658, 2.1117, 0.1541, 0.2930),
}


def of_logs(*logs: float) -> list[float]:
    """Prices from 100 with these daily logarithmic returns."""
    prices = [100.0]
    for one in logs:
        prices.append(prices[-1] * exp(one))
    return prices


def values(found: dict[str, Any]) -> tuple[float | None, ...]:
    return tuple(found[name] for name in NAMES)


def agree(found: tuple[float | None, ...], expected: tuple[float | None, ...]) -> bool:
    """Whether figures are equal but for rounding, and undefined at the same places."""
    return all(
        one is other
        if one is None or other is None
        else isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
        for one, other in zip(found, expected, strict=True)
    )


def figures(
    prices: list[float], positions: Sequence[Any], *, year_days: int, cost_bp: float = 0.0
) -> dict[str, Any]:
    return returns.figures(day_returns(prices, positions, cost_bp=cost_bp), year_days=year_days)


def buy_and_hold(prices: list[float], **options: Any) -> dict[str, Any]:
    return figures(prices, [1] * len(prices), **options)


def test_figures_by_hand() -> None:
    # long +0.10, short of a fall -0.20 earns 0.20, nothing, long -0.30
    found = figures(of_logs(0.1, -0.2, 0.5, -0.3), [1, -1, 0, 1, 0], year_days=252)
    assert found["CR"] == pytest.approx(0.0)
    # the squares of 0.1, 0.2, 0 and -0.3 around a mean of 0 are 0.14 in sum
    assert found["AV"] == pytest.approx(sqrt(0.14 / 3 * 252))
    assert found["SR"] == pytest.approx(0.0)
    # 1, 1.1, 1.32, 1.32, 0.924
    assert found["MDD"] == pytest.approx(0.3)
    assert found["win_rate"] == pytest.approx(2 / 3)
    assert found["turnover"] == pytest.approx((1 + 2 + 1 + 1) / 4)
    assert found["exposure"] == pytest.approx(3 / 4)


def test_the_sharpe_ratio_is_per_year_by_the_number_of_prices() -> None:
    found = figures(of_logs(0.1, 0.3), [1, 1, 1], year_days=365)
    assert found["AV"] == pytest.approx(sqrt(0.02 * 365))
    assert found["SR"] == pytest.approx((0.4 / (3 / 365)) / sqrt(0.02 * 365))


def test_each_change_of_the_position_costs() -> None:
    prices = [100.0] * 5
    positions: list[Position] = [1, 1, -1, 0, 1]
    earned = [day.earned for day in day_returns(prices, positions, cost_bp=10)]
    assert earned == pytest.approx([-0.001, 0, -0.002, -0.001])
    assert buy_and_hold(prices, year_days=252, cost_bp=25)["CR"] == pytest.approx(-0.0025)


def test_a_return_that_loses_everything_ends_the_curve_at_zero() -> None:
    assert figures(of_logs(1.5, -0.5), [-1, -1, 0], year_days=252)["MDD"] == 1.0


@pytest.mark.parametrize(("positions", "av"), [([0, 0, 0, 0], 0.0), ([0, 0], None), ([0], None)])
def test_without_volatility_there_is_no_sharpe_ratio(
    positions: list[Position], av: float | None
) -> None:
    found = figures(of_logs(0.1, 0.2, 0.3)[: len(positions)], positions, year_days=252)
    assert values(found) == (0.0, None, 0.0, av)
    assert found["win_rate"] is None


def test_equal_returns_have_no_volatility_though_rounding_makes_them_differ() -> None:
    found = buy_and_hold([100 * 1.01**n for n in range(50)], year_days=252)
    assert (found["SR"], found["AV"]) == (None, 0.0)


@given(DAYS, st.floats(0, 500))
def test_figures_stay_within_their_bounds(
    days: list[tuple[float, Position]], cost_bp: float
) -> None:
    prices, positions = [price for price, _ in days], [position for _, position in days]
    found = figures(prices, positions, year_days=252, cost_bp=cost_bp)
    assert 0 <= found["MDD"] <= 1
    assert 0 <= found["exposure"] <= 1
    assert 0 <= found["turnover"] <= 2
    assert found["win_rate"] is None or 0 <= found["win_rate"] <= 1
    assert found["AV"] is None or found["AV"] >= 0


@given(st.lists(st.floats(1e-300, 1e300), min_size=2))
def test_extreme_prices_give_finite_figures(prices: list[float]) -> None:
    found = buy_and_hold(prices, year_days=365)
    assert found["CR"] == pytest.approx(log(prices[-1]) - log(prices[0]), abs=1e-9)
    assert 0 <= found["MDD"] <= 1


@given(DAYS)
def test_the_opposite_positions_earn_the_opposite(days: list[tuple[float, Position]]) -> None:
    prices, positions = [price for price, _ in days], [position for _, position in days]
    opposite: list[Any] = [-position for position in positions]
    one = figures(prices, positions, year_days=252)
    other = figures(prices, opposite, year_days=252)
    assert other["CR"] == pytest.approx(-one["CR"])
    assert agree((other["AV"],), (one["AV"],))


def independent(prices: list[float], positions: list[int], year_days: int) -> dict[str, Any]:
    """The figures by other ways: exact sums of squares, and a drawdown over all pairs of days."""
    earned = [
        Fraction(position * log(prices[day + 1] / prices[day]))
        for day, position in enumerate(positions[:-1])
    ]
    count, total = len(earned), sum(earned)
    variance = (sum(r * r for r in earned) - total * total / count) / (count - 1)
    av = sqrt(variance) * sqrt(year_days)
    curve = [1.0]
    for r in earned:
        curve.append(curve[-1] + curve[-1] * float(r))
    falls = (1 - low / high for at, high in enumerate(curve) for low in curve[at:])
    sr = float(total) * year_days / len(prices) / av if variance else None
    return {"CR": float(total), "SR": sr, "MDD": max(falls), "AV": av}


@pytest.fixture(scope="module")
def published() -> dict[str, list[float]]:
    """The prices in the test windows, read by other means."""
    if not INVESTORBENCH.is_dir():
        pytest.skip("needs InvestorBench's files beside the checkout")
    found = {}
    for file in INVESTORBENCH.glob("*.json"):
        days = json.loads(file.read_text())
        first, last = ("2020-10-01", "2021-05-06")
        if file.stem in ("btc", "eth"):
            first, last = ("2023-04-05", "2023-11-05")
        if file.stem == "eth":
            first = "2023-04-03"
        found[file.stem.upper()] = [
            day["prices"] for name, day in sorted(days.items()) if first <= name <= last
        ]
    return found


@pytest.mark.parametrize("symbol", sorted(BUY_AND_HOLD))
def test_buy_and_hold_of_the_published_assets(
    published: dict[str, list[float]], symbol: str
) -> None:
    prices, year_days = published[symbol], 365 if symbol in ("BTC", "ETH") else 252
    market = read_markets(INVESTORBENCH)[symbol]
    read = [record.price for record in market.during(market.windows.test)]
    full = values(buy_and_hold(read, year_days=market.year_days))
    shorter = values(buy_and_hold(read[:-1], year_days=market.year_days))
    for found, expected in (
        (full, independent(prices, [1] * len(prices), year_days)),
        (shorter, independent(prices[:-1], [1] * (len(prices) - 1), year_days)),
    ):
        assert agree(found, tuple(expected[name] for name in NAMES))
    assert [round(value or 0, 4) for value in (*full, *shorter)] == list(BUY_AND_HOLD[symbol])


@pytest.mark.parametrize("seed", range(5))
def test_random_positions_in_the_published_assets(
    published: dict[str, list[float]], seed: int
) -> None:
    rng = random.Random(seed)
    for symbol, prices in sorted(published.items()):
        year_days = 365 if symbol in ("BTC", "ETH") else 252
        positions = rng.choices(POSITIONS, k=len(prices))
        expected = independent(prices, list(positions), year_days)
        wanted = tuple(expected[name] for name in NAMES)
        assert agree(values(figures(prices, positions, year_days=year_days)), wanted)
