"""Whether a table is ordered by date, so that a long table can be cut to its newest rows.

The first column whose dates (`cache.dates`) only rise, or only fall, from the first row to the last
decides. Equal neighbours are in order; a column with a single date does not count. Every row that
is read must have a date in that column, and all of these must be of one kind.

At most `READ` rows between the first and the last are read. Of a shorter table all are read.
Otherwise one row is read at a random place in each of `READ` equal parts, so that no repeating
pattern can coincide with these places.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from random import Random
from typing import NamedTuple

import orjson

from cache.dates import Date, date_of, is_time_name
from cache.records import NESTS

READ = 256
"""Rows that are read of a table, besides the two ends; reading one takes 2 us."""

LONGEST = 2**12
"""The date of a row must be in its first `LONGEST` bytes."""

COLUMNS = 64
"""Columns that are tried. Of those with dates at both ends, `FOLLOWED` are read in between."""

FOLLOWED = 2

_CELL = re.compile(rb'"([^"\\]{1,48})"|(\d{4,19}(?:\.\d{1,9})?)(?=[,}])')
_DRAWN = Random(0)  # noqa: S311 - the same in every process
_PLACES = [(n + _DRAWN.random()) / READ for n in range(READ)]

Span = tuple[int, int]
"""Where a record begins, and up to where it is read."""


class DateOrder(NamedTuple):
    """The column by which a table is ordered, and whether its oldest rows come first."""

    column: str
    rises: bool


class DateColumn:
    """Reads the dates in one column of a table that has one record a line."""

    __slots__ = ("_data", "_name", "_named")

    def __init__(self, data: bytes, column: str) -> None:
        self._data = data
        self._name = orjson.dumps(column) + b":"
        self._named = is_time_name(column)

    def date(self, record: Span) -> Date | None:
        text = self.text(record)
        return None if text is None else date_of(text, named=self._named)

    def text(self, record: Span) -> str | None:
        """The column's value as it is written, if it is a short scalar. The quotation marks of the
        column's name distinguish it from the same name in a text, where they would be escaped.
        """
        place = self._data.find(self._name, *record)
        if place >= 0 and any(self._data.find(n, record[0], place) >= 0 for n in NESTS):
            return None  # the name may be inside a nested value
        found = place >= 0 and _CELL.match(self._data, place + len(self._name), record[1])
        return (found[1] or found[2]).decode(errors="replace") if found else None


def date_order(data: bytes, columns: Sequence[str], rows: int) -> DateOrder | None:
    """How a table with one record a line is ordered by date; None if it is not."""
    if rows < 2:
        return None
    first, last = record_at(data, 1), record_at(data, data.rfind(b"\n") + 1)
    between, followed = list[Span](), 0
    for name in islice(columns, COLUMNS):
        column = DateColumn(data, name)
        start, end = column.date(first), column.date(last)
        if start is None or end is None or start.kind != end.kind or start == end:
            continue
        between = between or [*_between(data, rows, last[0])]
        rises = start < end
        if _is_ordered(start, map(column.date, between), end, rises=rises):
            return DateOrder(name, rises)
        followed += 1
        if followed == FOLLOWED:
            break
    return None


def record_at(data: bytes, start: int) -> Span:
    end = data.find(b"\n", start, start + LONGEST)
    return start, end if end >= 0 else min(start + LONGEST, len(data))


def _between(data: bytes, rows: int, last: int) -> Iterator[Span]:
    """The records to read between the first and the last: all, or one at each of `_PLACES`. If the
    record at such a place is too long, its span is empty.
    """
    if rows <= READ:
        place = data.find(b"\n") + 1
        for _ in range(READ):
            if place >= last:
                break
            yield record_at(data, place)
            place = data.index(b"\n", place) + 1
        return
    for part in _PLACES:
        place = int(part * last)
        start = data.find(b"\n", place, place + LONGEST) + 1
        yield record_at(data, start) if start else (place, place)


def _is_ordered(start: Date, between: Iterable[Date | None], end: Date, *, rises: bool) -> bool:
    before = start
    for date in chain(between, [end]):
        if date is None or date.kind != before.kind:
            return False
        if date < before if rises else date > before:
            return False
        before = date
    return True
