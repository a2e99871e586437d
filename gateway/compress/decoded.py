"""A decoded table: its columns as values, its rows as they are written."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import orjson

from cache import Entry
from cache.dates import date_of, is_time_name
from gateway.compress.cells import day, number
from gateway.compress.written import read

FREED = 1_000
"""Rows that are freed in one go."""


class Table:
    """Rows that have the same columns, or nearly so. `lines` are their JSON; without them, the rows
    themselves hold their numbers as they are written. `dated` is the column of dates, if there is
    one.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[Mapping[str, Any]],
        lines: Sequence[bytes] = (),
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.lines = lines
        self._columns: dict[str, list[Any]] = {}
        self._shown: dict[int, Mapping[str, Any]] = {}
        self._days: list[str] | None = None
        self._is_number: dict[str, bool] = {}
        named = next(filter(self._is_dated, columns), None)
        self.dated = named or next(filter(self._holds_dates, columns), None)

    @classmethod
    def of(cls, entry: Entry) -> "Table":
        rows: list[Any] = []
        lines: list[bytes] = []
        for piece in entry.pieces() if entry.rows else ():
            rows += orjson.loads(piece)
            lines += piece[1:-1].split(b",\n")
        return cls(entry.columns or (), rows, lines)

    def free(self) -> None:
        """Free the rows bit by bit. Python frees a long list in one go, and the event loop would
        wait for it: 10 ms for 50,000 rows.
        """
        while isinstance(self.rows, list) and self.rows:
            del self.rows[-FREED:]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[Any]:
        """The cells of a column; a missing one is None."""
        if name not in self._columns:
            try:
                self._columns[name] = [*map(itemgetter(name), self.rows)]
            except KeyError:
                self._columns[name] = [row.get(name) for row in self.rows]
        return self._columns[name]

    def is_number(self, name: str) -> bool:
        """Whether the column's first cell that is not null is a number, or a text that is one."""
        if name not in self._is_number:
            cells = (row.get(name) for row in self.rows)
            cell = next((cell for cell in cells if cell is not None), None)
            self._is_number[name] = number(cell) is not None
        return self._is_number[name]

    def shown(self, place: int) -> Mapping[str, Any]:
        """A row with its numbers as they are written."""
        if not self.lines:
            return self.rows[place]
        if place not in self._shown:
            self._shown[place] = read(self.lines[place])
        return self._shown[place]

    @property
    def days(self) -> list[str]:
        """The day of each row as ISO 8601 writes it; empty where there is none."""
        if self._days is None:
            self._days = [] if self.dated is None else _days(self.column(self.dated))
        return self._days

    def _is_dated(self, name: str) -> bool:
        return is_time_name(name) and any(day(row.get(name)) for row in self.rows[:3])

    def _holds_dates(self, name: str) -> bool:
        """Whether the first cells are texts that can be nothing but dates."""
        return all(
            isinstance(cell, str) and date_of(cell, named=False) is not None
            for cell in (row.get(name) for row in self.rows[:3])
        )


def _days(cells: list[Any]) -> list[str]:
    first = cells[0] if cells else None
    is_iso = isinstance(first, str) and first[4:5] == first[7:8] == "-"
    if is_iso and {*map(type, cells)} == {str} and {*map(len, cells)} == {10}:
        return cells  # nearly all tables have such days
    return [*map(day, cells)]
