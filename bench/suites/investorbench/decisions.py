"""Recorded decisions, one asset a line, and what they earned.

A line is `{"id": "gpt", "symbol": "BTC", "positions": {"2023-04-05": 1, ...}}`. A position of -1
(short), 0 (none) or 1 (long) is taken at its day's price and held until the next trading day's.
A day of the window without a position counts as 0, as with InvestorBench's authors: the agent
decided nothing, so it holds nothing. The row says how many such days there are. The last day earns
nothing, so its position may be missing.
"""

import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.market.prices import (
    OBJECT,
    POSITIONS,
    Market,
    MarketDay,
    MarketError,
    Position,
    Window,
    exact_date,
    is_unicode,
)
from bench.json_lines import JsonLinesError, Line, lines
from bench.metrics.interval import DIGITS
from bench.suites.investorbench.returns import Figures, day_returns, figures

_FIELDS = ("id", "symbol", "positions")


class DecisionError(Exception):
    """A line is no decisions; the text names file, line and field."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """The positions of one agent in one asset, one for each trading day of a window.

    `missing_days` is the number of days for which the line has none, which hold 0 here; the last
    day does not count.
    """

    id: str
    market: Market
    days: tuple[datetime.date, ...]
    prices: tuple[float, ...]
    positions: tuple[Position, ...]
    missing_days: int

    def returns(self, *, cost_bp: float = 0.0) -> list[float]:
        """What each position but the last earned, for `bench.suites.investorbench.bootstrap`."""
        return [day.earned for day in day_returns(self.prices, self.positions, cost_bp=cost_bp)]

    def figures(self, *, cost_bp: float = 0.0, leave_last_out: bool = False) -> Figures:
        """What the positions earned (`bench.suites.investorbench.returns.figures`)."""
        return figures(
            self.prices,
            self.positions,
            year_days=self.market.year_days,
            cost_bp=cost_bp,
            leave_last_out=leave_last_out,
        )

    def row(self, *, cost_bp: float = 0.0) -> dict[str, Any]:
        """The figures as JSON; those of the authors' reading are under `without_last_day`."""
        found = self.figures(cost_bp=cost_bp)
        row = {
            "id": self.id,
            "symbol": self.market.symbol,
            **_measures(found),
            "win_rate": _rounded(found.win_rate),
            "turnover": _rounded(found.turnover),
            "exposure": _rounded(found.exposure),
            "days": found.days,
            "missing_days": self.missing_days,
            "from": self.days[0].isoformat(),
            "to": self.days[-1].isoformat(),
            "without_last_day": _measures(self.figures(cost_bp=cost_bp, leave_last_out=True)),
        }
        return row | ({"SR_missing": found.sr_missing} if found.sr_missing else {})


def read_decisions(
    file: Path, markets: Mapping[str, Market], window: Window | None = None
) -> Iterator[Decisions]:
    """The decisions of a file, one for each line, for the markets by symbol in capitals.

    `window` is when they count; by default the published test window of the asset. Raises
    `DecisionError` for a line that is not valid: among others for an unknown symbol, for a date
    that is no trading day of the window, and for the second line of an id and a symbol; also for a
    file without lines. Other fields of a line are ignored.
    """
    seen: dict[tuple[str, str], int] = {}
    try:
        for line in lines(file):
            found = _decisions(line, markets, window)
            key = found.id, found.market.symbol
            if (before := seen.setdefault(key, line.number)) != line.number:
                text = f"{found.id!r} has decisions on {found.market.symbol} in line {before} too"
                raise _error(line, "id", text)
            yield found
        if not seen:
            raise DecisionError(f"{file}: there are no decisions")
    except JsonLinesError as error:
        raise DecisionError(str(error)) from error


def _decisions(line: Line, markets: Mapping[str, Market], window: Window | None) -> Decisions:
    fields = _fields(line)
    name = fields["id"]
    if not isinstance(name, str) or not name:
        raise _error(line, "id", "not a text, or empty")
    if not is_unicode(name):
        raise _error(line, "id", "not Unicode: half a character")
    market = _market(line, fields["symbol"], markets)
    try:
        records = market.during(window or market.windows.test)
    except MarketError as error:
        raise _error(line, "symbol", str(error)) from error
    given = _positions(line, fields["positions"], market, records)
    return Decisions(
        name,
        market,
        tuple(record.date for record in records),
        tuple(record.price for record in records),
        tuple(given.get(record.date, 0) for record in records),
        sum(record.date not in given for record in records[:-1]),
    )


def _fields(line: Line) -> dict[str, Any]:
    try:
        value = json.loads(line.text, object_pairs_hook=OBJECT)
    except (ValueError, RecursionError) as error:
        raise DecisionError(str(line.error(f"not JSON: {error}"))) from error
    if not isinstance(value, OBJECT):
        raise DecisionError(str(line.error("not an object with id, symbol and positions")))
    fields: dict[str, Any] = {}
    for name, content in value:
        if name in _FIELDS and name in fields:
            raise _error(line, name, "it is there twice")
        fields[name] = content
    if missing := [name for name in _FIELDS if name not in fields]:
        raise _error(line, missing[0], "missing")
    return fields


def _market(line: Line, symbol: object, markets: Mapping[str, Market]) -> Market:
    if not isinstance(symbol, str):
        raise _error(line, "symbol", "not a text")
    market = markets.get(symbol.upper())
    if market is None:
        known = f"there are {', '.join(sorted(markets))}"
        raise _error(line, "symbol", f"{symbol[:40]!r} is unknown; {known}")
    return market


def _positions(
    line: Line, value: object, market: Market, records: tuple[MarketDay, ...]
) -> dict[datetime.date, Position]:
    if not isinstance(value, OBJECT):
        raise _error(line, "positions", "not an object from dates to positions")
    tradable = {record.date for record in records}
    given: dict[datetime.date, Position] = {}
    for name, content in value:
        day = exact_date(name)
        if day is None:
            raise _error(line, "positions", f"{name[:40]!r} is no date; write it as 2020-10-01")
        field = f"positions.{name}"
        if day not in tradable:
            raise _error(line, field, _no_trading_day(day, market, records))
        if day in given:
            raise _error(line, field, "it is there twice")
        given[day] = _position(line, field, content)
    return given


def _no_trading_day(day: datetime.date, market: Market, records: tuple[MarketDay, ...]) -> str:
    window = Window(records[0].date, records[-1].date)
    if day not in window:
        return f"outside the window, which is {window} for {market.symbol}"
    return f"no trading day of {market.symbol}"


def _position(line: Line, field: str, value: object) -> Position:
    """-1, 0 or 1, also as -1.0, 0.0 or 1.0."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        for position in POSITIONS:
            if value == position:
                return position
    shown = json.dumps(value)[:40]
    raise _error(line, field, f"{shown} is no position; it must be -1 (short), 0 or 1 (long)")


def _measures(found: Figures) -> dict[str, float | None]:
    return {name: _rounded(value) for name, value in found.by_name.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS) + 0.0  # -0.0 becomes 0.0


def _error(line: Line, field: str, reason: str) -> DecisionError:
    return DecisionError(str(line.error(f"{field}: {reason}")))
