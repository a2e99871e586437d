"""What an episode earned, read from its recorded trades.

The answer of each trade names day, price and position, so the figures need no dataset. A portfolio
of several assets holds equal amounts, made equal every day, as InvestorBench's authors compute it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import Any

import orjson

from adapters.market.prices import POSITIONS, Position
from bench.record import EpisodeRecord
from bench.suites.investorbench.returns import DayReturn, Measures, day_returns, measures

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
