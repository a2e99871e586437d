"""A decoded table: its columns as values, its rows as they are written."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import orjson

from cache import Entry
from cache.dates import date_of, is_time_name
from gateway.compress.budget import check_time
from gateway.compress.cells import day, number
from gateway.compress.written import read

FREED = 1_000
"""Rows that are freed in one go."""


class Table:
    """Rows that have the same columns, or nearly so. `lines` are their JSON, with a comma behind it
    or not; without them, the rows themselves hold their numbers as they are written. `dated` is the
    column of dates, if there is one.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: list[dict[str, Any]],
        lines: list[bytes] | None = None,
    ) -> None:
        self.columns = columns
        self.rows = rows
        self._lines = lines or []
        self._names = {name: name for name in rows[0]} if rows else {}
        self._columns: dict[str, list[Any]] = {}
        self._shown: dict[int, Mapping[str, Any]] = {}
        self._days: list[str] | None = None
        self._first_cells: dict[str, Any] | None = None
        timed = (name for name in columns if is_time_name(name))
        dated = next((name for name in timed if any(map(day, self._first(name)))), None)
        self.dated = dated or next((n for n in columns if all(map(_is_date, self._first(n)))), None)

    @classmethod
    def of(cls, entry: Entry) -> "Table":
        rows: list[dict[str, Any]] = []
        lines: list[bytes] = []
        for piece in entry.pieces() if entry.rows else ():
            check_time()
            rows += orjson.loads(piece)
            lines += piece[1:-1].split(b"\n")  # twice as fast as by the comma and the line's end
        return cls(entry.columns or (), rows, lines)

    def free(self) -> None:
        """Free the table bit by bit, once it is not needed. Python frees a long list in one go, and
        the event loop waits meanwhile. The columns go first, so that the cells go with their rows.
        """
        self._columns.clear()
        self._days = None
        while self.rows:
            del self.rows[-FREED:], self._lines[-FREED:]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[Any]:
        """The cells of a column; a missing one is None."""
        check_time()
        if name not in self._columns:
            own = self._names.get(name, name)  # the very key of the rows is found twice as fast
            try:
                self._columns[name] = [*map(itemgetter(own), self.rows)]
            except KeyError:
                self._columns[name] = [row.get(name) for row in self.rows]
        return self._columns[name]

    def is_number(self, name: str) -> bool:
        """Whether the column's first cell that is not null is a number, or a text that is one."""
        if self._first_cells is None:
            self._first_cells = _first_cells(self.columns, self.rows)
        return number(self._first_cells.get(name)) is not None

    def line(self, place: int) -> bytes:
        """The JSON of a row."""
        return self._lines[place].removesuffix(b",")

    def shown(self, place: int) -> Mapping[str, Any]:
        """A row with its numbers as they are written."""
        check_time()
        if not self._lines:
            return self.rows[place]
        if place not in self._shown:
            self._shown[place] = read(self.line(place))
        return self._shown[place]

    @property
    def days(self) -> list[str]:
        """The day of each row as ISO 8601 writes it; empty where there is none."""
        check_time()
        if self._days is None:
            self._days = [] if self.dated is None else _days(self.column(self.dated))
        return self._days

    def _first(self, name: str) -> list[Any]:
        """The cells of a column by which it is told whether it holds dates."""
        check_time()
        return [row.get(name) for row in self.rows[:3]]


def _first_cells(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The first cell of each column that is not null. Of a row only columns without one are looked
    at, so a table of many columns with few cells each costs no more than its cells.
    """
    found: dict[str, Any] = {}
    missing = {*columns}
    for row in rows:
        there = {name: row[name] for name in row.keys() & missing if row[name] is not None}
        found |= there
        missing.difference_update(there)
        if not missing:
            break
    return found


def in_order(columns: Sequence[str]) -> Callable[[Mapping[str, Any]], Sequence[str]]:
    """Which of these columns a row has, in their order; it takes no longer than the row is."""
    places = {name: at for at, name in enumerate(columns)}

    def names(row: Mapping[str, Any]) -> Sequence[str]:
        if len(row) < len(columns):
            return sorted(row.keys() & places.keys(), key=places.__getitem__)
        return [name for name in columns if name in row]

    return names


def _is_date(cell: object) -> bool:
    """Whether a cell is a text that can be nothing but a date."""
    return isinstance(cell, str) and date_of(cell, named=False) is not None


def _days(cells: list[Any]) -> list[str]:
    first = cells[0] if cells else None
    is_iso = isinstance(first, str) and first[4:5] == first[7:8] == "-"
    if is_iso and {*map(type, cells)} == {str} and {*map(len, cells)} == {10}:
        return cells  # nearly all tables have such days
    return [*map(day, cells)]


def spaced(count: int, most: int) -> list[int]:
    """At most so many places of rows: the first and the last, and evenly spaced ones between."""
    if most >= count:
        return [*range(count)]
    if most <= 0:
        return []
    if most == 1:
        return [count - 1]
    return sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})
