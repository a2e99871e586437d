"""What positions earned: cumulative return, annual volatility, Sharpe ratio, maximum drawdown.

A position of -1 (short), 0 (none) or 1 (long) is taken at a day's price and held until the next
day's. It earns r = position * ln(next price / price) - cost. The position of the last day earns
nothing. The formulas are those of arXiv 2412.18174.

What an episode earned is read from its recorded trades: the answer of each trade names day, price
and position, so the figures need no dataset. A portfolio of several assets holds equal amounts,
made equal every day. That is the authors' baseline; their agent's weights are optimised.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, fsum, inf, log, sqrt
from statistics import fmean
from typing import Any

import orjson

from adapters.market.prices import POSITIONS, Position
from bench.metrics.interval import DIGITS
from bench.record import EpisodeRecord

NO_VOLATILITY = 1e-12
"""A standard deviation of daily returns up to this is that of rounding errors, and counts as 0."""

TRADE = "market_trade"
OPEN = "market_open"

_BASIS_POINT = 1e-4


Figures = dict[str, float | None]
"""Figures by the names of the suite's metrics, None where one is undefined. All are shares."""


@dataclass(frozen=True, slots=True)
class DayReturn:
    """Whether there was a position on a day, by how much it changed, and what it earned."""

    is_invested: bool
    change: float
    earned: float


def day_returns(
    prices: Sequence[float], positions: Sequence[Position], *, cost_bp: float = 0.0
) -> list[DayReturn]:
    """What each position but the last earned.

    `cost_bp` is the cost in basis points of changing the position by 1; the position before the
    first day is 0, and a turn from -1 to 1 costs twice. It is charged on the day of the change.
    Prices are finite and above 0; there are as many positions.
    """
    days = []
    for (price, later), (before, position) in zip(
        pairwise(prices), pairwise((0, *positions)), strict=False
    ):
        change = abs(position - before)
        # Logarithms of both, because the ratio of finite prices may overflow; 0.0 keeps -0.0 away.
        gain = 0.0 + position * (log(later) - log(price))
        days.append(DayReturn(bool(position), change, gain - cost_bp * _BASIS_POINT * change))
    return days


def measures(returns: Sequence[float], *, year_days: int) -> Figures:
    """The four published figures of daily returns, where a year has `year_days`.

    CR is the cumulative return: the sum of the returns. AV is the annual volatility: their sample
    standard deviation times the square root of a year's trading days; None for fewer than two
    returns. SR is the Sharpe ratio with a risk-free rate of 0: the return per year divided by AV,
    where the years are those of the prices, one more than there are returns; None if AV is None or
    0. MDD is the maximum drawdown of the product of 1 + r, which starts at 1; a return of -1 or
    less loses everything, so it is 1 from then on.
    """
    count, cr = len(returns), fsum(returns)
    sr = av = None
    if count > 1:
        mean = cr / count
        deviation = sqrt(fsum((earned - mean) ** 2 for earned in returns) / (count - 1))
        av = deviation * sqrt(year_days) if deviation > NO_VOLATILITY else 0.0
        sr = cr / ((count + 1) / year_days) / av if av else None
    return {"CR": cr, "SR": sr, "MDD": _drawdown(returns), "AV": av}


def figures(earned: Sequence[DayReturn], *, year_days: int) -> Figures:
    """The measures of what positions earned on consecutive days, and how they came about.

    `win_rate` is the share of days with r > 0 among those with a position; None if there are none.
    `turnover` is the mean change of the position a day, from 0 to 2. `exposure` is the share of
    days with a position.
    """
    invested = [day for day in earned if day.is_invested]
    whole = max(len(earned), 1)
    return {
        **measures([day.earned for day in earned], year_days=year_days),
        "win_rate": sum(day.earned > 0 for day in invested) / len(invested) if invested else None,
        "turnover": sum(day.change for day in earned) / whole,
        "exposure": len(invested) / whole,
    }


def _drawdown(returns: Iterable[float]) -> float:
    """How deep the product of 1 + r fell below its highest value before, at most. Keeping their
    ratio instead of both never overflows.
    """
    most, of_peak = 0.0, 1.0
    for earned in returns:
        of_peak = min(1.0, of_peak * max(0.0, 1.0 + earned))
        most = max(most, 1.0 - of_peak)
    return most


def rounded_figures(figures: Figures) -> Figures:
    """The figures as they are printed; -0.0 becomes 0.0."""
    return {
        name: None if value is None else round(value, DIGITS) + 0.0
        for name, value in figures.items()
    }


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
    """The test days of an episode that reached its end. `earned` is what the agent earned on each
    but the last, `held` what holding all assets did, without costs.
    """

    days: tuple[str, ...]
    earned: tuple[DayReturn, ...]
    held: tuple[float, ...]
    year_days: int

    @property
    def returns(self) -> tuple[float, ...]:
        return tuple(day.earned for day in self.earned)

    @property
    def figures(self) -> Figures:
        above = fsum(self.returns) - sum(self.held)
        return {**figures(self.earned, year_days=self.year_days), "CR_above_hold": above}


def year_days(category: str) -> int:
    """The trading days of a year, by the category of a task."""
    return 365 if category.startswith("crypto") else 252


def trades(record: EpisodeRecord) -> list[Trade]:
    """The trades of an episode, in their order; what is no answer of a trade is passed over."""
    made = [call for call in record.tool_calls if call.tool_name == TRADE and call.ok]
    return [trade for call in made if (trade := _trade(call.output)) is not None]


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
    prices = [[trade.price for trade in asset] for asset in assets]
    positions = [[trade.position for trade in asset] for asset in assets]
    earned = [day_returns(*one, cost_bp=cost_bp) for one in zip(prices, positions, strict=True)]
    held = [day_returns(one, [1] * len(one)) for one in prices]
    return Played(
        tuple(trade.date for trade in assets[0]),
        _together(earned),
        tuple(day.earned for day in _together(held)),
        year_days(record.category),
    )


def _together(assets: Sequence[Sequence[DayReturn]]) -> tuple[DayReturn, ...]:
    """Equal amounts in all assets, by day; their log return is that of their mean growth."""
    return tuple(
        DayReturn(
            any(one.is_invested for one in day),
            fmean(one.change for one in day),
            log(fmean(exp(one.earned) for one in day)),
        )
        for day in zip(*assets, strict=True)
    )


def _trade(output: object) -> Trade | None:
    try:
        said: Any = orjson.loads(output) if isinstance(output, str) else output
        position, price = said["position"], float(said["price"])
        if isinstance(position, bool) or position not in POSITIONS or not 0 < price < inf:
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
