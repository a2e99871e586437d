"""Whether a table is ordered by date, so that of a long one the newest rows are shown.

The first of its columns whose dates (`cache.dates`) only rise, or only fall, from the first row to
the last says so. Equal neighbours are in order; a column of one date says nothing. Every row that
is read must have a date there, and all must be of one kind.

At most `READ` rows are read, whatever the table: all of a shorter one, else the ends and one at a
place drawn out of each part between, so that no pattern which repeats is in step with them.
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
"""Rows that are read of a table; reading one takes 2 us."""

LONGEST = 2**12
"""Bytes in which a row's date must stand."""

COLUMNS = 64
"""Columns that are looked at, and how many of those with dates at both ends are followed."""

FOLLOWED = 2

_CELL = re.compile(rb'"([^"\\]{1,48})"|(\d{4,19}(?:\.\d{1,9})?)(?=[,}])')
_DRAWN = Random(0)  # noqa: S311 - the same in every process
_PLACES = [(n + _DRAWN.random()) / READ for n in range(READ)]

Span = tuple[int, int]
"""Where a record begins and where at most it is read."""


class DateOrder(NamedTuple):
    """By which column a table is ordered, and whether its oldest rows come first."""

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
        """A short scalar, as it stands in the record. Its quotation marks tell the column's name
        from the same within a text, where they are escaped.
        """
        place = self._data.find(self._name, *record)
        if place >= 0 and any(self._data.find(n, record[0], place) >= 0 for n in NESTS):
            return None  # the name may be one within a value
        found = place >= 0 and _CELL.match(self._data, place + len(self._name), record[1])
        return (found[1] or found[2]).decode(errors="replace") if found else None


def date_order(data: bytes, columns: Sequence[str], rows: int) -> DateOrder | None:
    """The order of a table that has one record a line; None where it has none by date."""
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
    """Of the records between the first and the last, all or as many as are read; where one ends too
    far away, nothing to read.
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
