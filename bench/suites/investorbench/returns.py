"""What positions earned: cumulative return, annual volatility, Sharpe ratio, maximum drawdown.

A position of -1 (short), 0 (none) or 1 (long) is taken at a day's price and held until the next
day's. It earns r = position * ln(next price / price) - cost. The position of the last day earns
nothing. The formulas are those of arXiv 2412.18174.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, fsum, isfinite, log, sqrt
from statistics import fmean
from typing import Any

import orjson

from adapters.market.prices import POSITIONS, Position
from bench.record import EpisodeRecord

NO_VOLATILITY = 1e-12
"""A standard deviation of daily returns up to this is that of rounding errors, and counts as 0."""

_BASIS_POINT = 1e-4


@dataclass(frozen=True, slots=True)
class Measures:
    """The four published figures of a series of daily returns; all are shares, not percent.

    `cr` is the cumulative return: the sum of the returns. `av` is the annual volatility: their
    sample standard deviation times the square root of a year's trading days; None for fewer than
    two returns. `sr` is the Sharpe ratio with a risk-free rate of 0: the return per year divided by
    `av`; None if `av` is None or 0. `mdd` is the maximum drawdown of the product of 1 + r, which
    starts at 1; a return of -1 or less loses everything, so it is 1 from then on.
    """

    cr: float
    sr: float | None
    mdd: float
    av: float | None

    @property
    def by_name(self) -> dict[str, float | None]:
        """The figures under the names that the paper gives them."""
        return {"CR": self.cr, "SR": self.sr, "MDD": self.mdd, "AV": self.av}

    @property
    def sr_missing(self) -> str:
        """Why there is no Sharpe ratio; empty if there is one."""
        if self.sr is not None:
            return ""
        return "fewer than two returns" if self.av is None else "zero volatility"


@dataclass(frozen=True, slots=True)
class Figures(Measures):
    """The measures, and how they came about.

    `days` is the number of prices, `returns` that of returns: one less. `win_rate` is the share of
    days with r > 0 among those with a position; None if there are none. `turnover` is the mean
    change of the position a day, from 0 to 2. `exposure` is the share of days with a position.
    """

    days: int
    returns: int
    win_rate: float | None
    turnover: float
    exposure: float


@dataclass(frozen=True, slots=True)
class DayReturn:
    """A day's position, by how much it changed the one before, and what it earned."""

    position: Position
    change: int
    earned: float


def day_returns(
    prices: Sequence[float], positions: Sequence[Position], *, cost_bp: float = 0.0
) -> list[DayReturn]:
    """What each position but the last earned.

    `cost_bp` is the cost in basis points of changing the position by 1; the position before the
    first day is 0, and a turn from -1 to 1 costs twice. It is charged on the day of the change.
    Raises `ValueError` for prices that are not finite and above 0, for positions that are not -1, 0
    or 1, and unless there are as many positions as prices.
    """
    if len(prices) != len(positions):
        text = f"{len(prices)} prices, but {len(positions)} positions"
        raise ValueError(f"{text}: each day needs one, although the last one earns nothing")
    cost = _cost(cost_bp)
    for price, position in zip(prices, positions, strict=True):
        _check(price, position)
    moves = pairwise(prices)
    changes = pairwise((0, *positions))
    return [
        _day_return(move, before, position, cost)
        for move, (before, position) in zip(moves, changes, strict=False)
    ]


def measures(returns: Sequence[float], *, days: int, year_days: int) -> Measures:
    """The measures of daily returns over `days` prices, where a year has `year_days`."""
    count, cr = len(returns), fsum(returns)
    drawdown = _Drawdown()
    for earned in returns:
        drawdown.add(earned)
    variance = None
    if count > 1:
        mean = cr / count
        variance = fsum((earned - mean) ** 2 for earned in returns) / (count - 1)
    return Measures(*_measured(cr, variance, drawdown.most, days, year_days))


def figures(
    prices: Sequence[float],
    positions: Sequence[Position],
    *,
    year_days: int,
    cost_bp: float = 0.0,
    leave_last_out: bool = False,
) -> Figures:
    """The figures of positions at prices, one for each trading day.

    InvestorBench's authors end an episode a day early, so their table lacks the return to the last
    price. `leave_last_out` gives their reading: the figures as if the last price did not exist.
    Raises `ValueError` as `day_returns` does, and if there is no price.
    """
    days = len(prices) - leave_last_out
    if days < 1:
        raise ValueError("there are no prices")
    earned = day_returns(prices, positions, cost_bp=cost_bp)[: days - 1]
    found = measures([day.earned for day in earned], days=days, year_days=year_days)
    counts = _Counts()
    for day in earned:
        counts.add(day)
    return Figures(found.cr, found.sr, found.mdd, found.av, days, counts.returns, *counts.shares())


class _Drawdown:
    """How deep the product of 1 + r fell below its highest value before, at most. Keeping their
    ratio instead of both never overflows.
    """

    __slots__ = ("most", "of_peak")

    def __init__(self, most: float = 0.0, of_peak: float = 1.0) -> None:
        self.most = most
        self.of_peak = of_peak

    def add(self, earned: float) -> None:
        self.of_peak = min(1.0, self.of_peak * max(0.0, 1.0 + earned))
        self.most = max(self.most, 1.0 - self.of_peak)


class _Counts:
    __slots__ = ("changed", "held", "returns", "won")

    def __init__(self, returns: int = 0, held: int = 0, won: int = 0, changed: int = 0) -> None:
        self.returns = returns
        self.held = held
        self.won = won
        self.changed = changed

    def add(self, day: DayReturn) -> None:
        self.returns += 1
        self.changed += day.change
        if day.position:
            self.held += 1
            self.won += day.earned > 0

    def shares(self) -> tuple[float | None, float, float]:
        """Win rate, turnover and exposure."""
        win_rate = self.won / self.held if self.held else None
        whole = max(self.returns, 1)
        return win_rate, self.changed / whole, self.held / whole


def _measured(
    cr: float, variance: float | None, mdd: float, days: int, year_days: int
) -> tuple[float, float | None, float, float | None]:
    """CR, SR, MDD and AV."""
    if variance is None:
        return cr, None, mdd, None
    deviation = sqrt(variance)
    if deviation <= NO_VOLATILITY:
        return cr, None, mdd, 0.0
    av = deviation * sqrt(year_days)
    return cr, cr / (days / year_days) / av, mdd, av


def _day_return(
    move: tuple[float, float], before: int, position: Position, cost: float
) -> DayReturn:
    earlier, later = move
    change = abs(position - before)
    # Logarithms of both, because the ratio of finite prices may overflow; the 0.0 keeps -0.0 away.
    earned = 0.0 + position * (log(later) - log(earlier)) - cost * change
    return DayReturn(position, change, earned)


def _cost(cost_bp: float) -> float:
    """The cost of a change by 1 as a share. Raises `ValueError` if it is below 0 or not finite."""
    if not isfinite(cost_bp) or cost_bp < 0:
        raise ValueError(f"a cost of {cost_bp} basis points is none; it must be 0 or more")
    return cost_bp * _BASIS_POINT


def _check(price: float, position: int) -> None:
    if not isfinite(price) or price <= 0:
        raise ValueError(f"{price} is no price; it must be above 0 and finite")
    if isinstance(position, bool) or position not in POSITIONS:
        raise ValueError(f"{position!r} is no position; it must be -1, 0 or 1")


TRADE = "market_trade"
OPEN = "market_open"


@dataclass(frozen=True, slots=True)
class Trade:
    """A decision: the position in an asset from a day's price to the next one's."""

    date: str
    symbol: str
    price: float
    position: Position
    is_test: bool
    is_last: bool


@dataclass(frozen=True, slots=True)
class Played:
    """The test days of an episode that reached its end.

    `returns` are those of the agent, and `held` those of holding all assets, a return for each day
    but the last. The shares are as those of `bench.suites.investorbench.returns.Figures`.
    """

    days: tuple[str, ...]
    returns: tuple[float, ...]
    held: tuple[float, ...]
    year_days: int
    win_rate: float | None
    turnover: float
    exposure: float

    @property
    def found(self) -> Measures:
        return measures(self.returns, days=len(self.days), year_days=self.year_days)

    @property
    def figures(self) -> dict[str, float | None]:
        """By the names of the suite's metrics."""
        found = self.found
        return {
            **found.by_name,
            "win_rate": self.win_rate,
            "turnover": self.turnover,
            "exposure": self.exposure,
            "CR_above_hold": found.cr - sum(self.held),
        }


def year_days(category: str) -> int:
    """The trading days of a year, by the category of a task."""
    return 365 if category.startswith("crypto") else 252


def trades(record: EpisodeRecord) -> list[Trade]:
    """The trades of an episode, in their order; what is no answer of a trade is passed over."""
    found = []
    for call in record.tool_calls:
        if call.tool_name == TRADE and call.ok:
            trade = _trade(call.output)
            if trade is not None:
                found.append(trade)
    return found


def played(record: EpisodeRecord) -> Played | None:
    """What an episode earned; None if it did not reach its last day."""
    made = trades(record)
    if not made or not made[-1].is_last:
        return None
    by_asset: dict[str, list[Trade]] = {}
    for trade in made:
        if trade.is_test:
            by_asset.setdefault(trade.symbol, []).append(trade)
    assets = list(by_asset.values())
    if not assets or len({len(asset) for asset in assets}) > 1:
        return None
    cost_bp = _cost(record)
    earned = [
        day_returns(
            [trade.price for trade in asset], [trade.position for trade in asset], cost_bp=cost_bp
        )
        for asset in assets
    ]
    held = [day_returns([trade.price for trade in asset], [1] * len(asset)) for asset in assets]
    returns = tuple(_together(earned))
    days = list(zip(*earned, strict=True))
    invested = [any(one.position for one in day) for day in days]
    whole = max(len(days), 1)
    won = sum(is_in and value > 0 for is_in, value in zip(invested, returns, strict=True))
    return Played(
        tuple(trade.date for trade in assets[0]),
        returns,
        tuple(_together(held)),
        year_days(record.category),
        won / sum(invested) if any(invested) else None,
        sum(fmean(one.change for one in day) for day in days) / whole,
        sum(invested) / whole,
    )


def _together(assets: Sequence[Sequence[DayReturn]]) -> Iterable[float]:
    """The log return of equal amounts in all assets, by day: their mean growth."""
    return (log(fmean(exp(one.earned) for one in day)) for day in zip(*assets, strict=True))


def _trade(output: object) -> Trade | None:
    try:
        said: Any = orjson.loads(output) if isinstance(output, str) else output
        position, price = said["position"], float(said["price"])
        if position not in POSITIONS or not 0 < price < float("inf"):
            return None
        is_test = said["phase"] == "test"
        date, symbol = str(said["date"]), str(said["symbol"])
        return Trade(date, symbol, price, position, is_test, bool(said["is_over"]))
    except (ValueError, TypeError, KeyError):
        return None


def _cost(record: EpisodeRecord) -> float:
    """The cost of a change of position by 1 in basis points, as the session was opened with."""
    for call in record.tool_calls:
        if call.tool_name == OPEN and call.ok:
            cost = call.parameters.get("cost_bp", 0.0)
            return cost if isinstance(cost, int | float) and 0 <= cost <= 10_000 else 0.0
    return 0.0
