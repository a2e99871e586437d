"""What positions earned: cumulative return, annual volatility, Sharpe ratio, maximum drawdown.

A position of -1 (short), 0 (none) or 1 (long) is taken at a day's price and held until the next
day's. It earns r = position * ln(next price / price) - cost. The position of the last day earns
nothing. The formulas are those of arXiv 2412.18174.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, isfinite, log, sqrt

from adapters.market.prices import POSITIONS, Position

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
