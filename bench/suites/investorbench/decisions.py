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
from bench.json_lines import Line, lines
from bench.suites.files import read_each
from bench.suites.investorbench.returns import (
    DayReturn,
    day_returns,
    figures,
    rounded_figures,
)
from bench.suites.suite import TraceFormatError

_FIELDS = ("id", "symbol", "positions")


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the positions of one agent in one asset earned, from the first to the last trading day
    of a window. `missing_days` is the number of days without a position, which hold 0 here; the
    last day does not count.
    """

    id: str
    market: Market
    first: datetime.date
    last: datetime.date
    earned: tuple[DayReturn, ...]
    missing_days: int

    def row(self) -> dict[str, Any]:
        """The figures as JSON."""
        year_days = self.market.year_days
        found = figures(self.earned, year_days=year_days)
        row = {
            "id": self.id,
            "symbol": self.market.symbol,
            **rounded_figures(found),
            "days": len(self.earned) + 1,
            "missing_days": self.missing_days,
            "from": self.first.isoformat(),
            "to": self.last.isoformat(),
        }
        if found["SR"] is None:
            why = "fewer than two returns" if found["AV"] is None else "zero volatility"
            row["SR_missing"] = why
        return row


def read_decisions(file: Path, markets: Mapping[str, Market]) -> Iterator[Decisions]:
    """The decisions of a file, one for each line, for the markets by symbol in capitals. They count
    in the published test window of the asset.

    Raises `TraceFormatError` for a line that is not valid: among others for an unknown symbol, for
    a date that is no trading day of the window, and for the second line of an id and a symbol; also
    for a file without lines. Other fields of a line are ignored.
    """
    seen: dict[tuple[str, str], int] = {}

    def read(text: bytes, line: Line) -> Decisions:
        found = _decisions(text, markets)
        key = found.id, found.market.symbol
        if (before := seen.setdefault(key, line.number)) != line.number:
            other = f"decisions on {found.market.symbol} in line {before} too"
            raise ValueError(f"id: {found.id!r} has {other}")
        return found

    yield from read_each(((line.text, line) for line in lines(file)), read, TraceFormatError)
    if not seen:
        raise TraceFormatError(f"{file}: there are no decisions")


def _decisions(line: bytes, markets: Mapping[str, Market]) -> Decisions:
    """Raises `ValueError`."""
    fields = _fields(line)
    name, symbol = fields["id"], fields["symbol"]
    if not isinstance(name, str) or not name:
        raise ValueError("id: not a text, or empty")
    if not is_unicode(name):
        raise ValueError("id: not Unicode: half a character")
    if not isinstance(symbol, str):
        raise ValueError("symbol: not a text")
    market = markets.get(symbol.upper())
    if market is None:
        known = f"there are {', '.join(sorted(markets))}"
        raise ValueError(f"symbol: {symbol[:40]!r} is unknown; {known}")
    try:
        records = market.during(market.windows.test)
    except MarketError as error:
        raise ValueError(f"symbol: {error}") from error
    given = _positions(fields["positions"], market, records)
    return Decisions(
        name,
        market,
        records[0].date,
        records[-1].date,
        tuple(
            day_returns(
                [record.price for record in records],
                [given.get(record.date, 0) for record in records],
            )
        ),
        sum(record.date not in given for record in records[:-1]),
    )


def _fields(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=OBJECT)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(value, OBJECT):
        raise ValueError("not an object with id, symbol and positions")
    fields: dict[str, Any] = {}
    for name, content in value:
        if name in _FIELDS and name in fields:
            raise ValueError(f"{name}: it is there twice")
        fields[name] = content
    if missing := [name for name in _FIELDS if name not in fields]:
        raise ValueError(f"{missing[0]}: missing")
    return fields


def _positions(
    value: object, market: Market, records: tuple[MarketDay, ...]
) -> dict[datetime.date, Position]:
    if not isinstance(value, OBJECT):
        raise ValueError("positions: not an object from dates to positions")
    tradable = {record.date for record in records}
    window = Window(records[0].date, records[-1].date)
    given: dict[datetime.date, Position] = {}
    for name, content in value:
        day = exact_date(name)
        if day is None:
            raise ValueError(f"positions: {name[:40]!r} is no date; write it as 2020-10-01")
        if day not in window:
            text = f"outside the window, which is {window} for {market.symbol}"
            raise ValueError(f"positions.{name}: {text}")
        if day not in tradable:
            raise ValueError(f"positions.{name}: no trading day of {market.symbol}")
        if day in given:
            raise ValueError(f"positions.{name}: it is there twice")
        given[day] = _position(name, content)
    return given


def _position(day: str, value: object) -> Position:
    """-1, 0 or 1, also as -1.0, 0.0 or 1.0."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        for position in POSITIONS:
            if value == position:
                return position
    text = f"{json.dumps(value)[:40]} is no position; it must be -1 (short), 0 or 1 (long)"
    raise ValueError(f"positions.{day}: {text}")
