"""Lies: plausible answers with wrong content, which no status and no error gives away.

The seed and what is asked decide whether an answer lies, and how. So a repeated request gets the
same lie, in any order of requests. Each lie is declared to the trace, not to the caller.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Lie(StrEnum):
    """One kind of lie."""

    STALE_DAY = "stale_day"  # the newest day is missing, or has the numbers of the day before
    UNIT_CHANGED = "unit_changed"  # one column is 100 or 10,000 times as large
    WRONG_NUMBER = "wrong_number"  # one number is off by 3 to 30 %
    ROWS_MISSING = "rows_missing"  # 10 to 40 % of the rows, neither the first nor the last
    COLUMN_RENAMED = "column_renamed"
    DISAGREEING = "disagreeing"  # all numbers of a host are off by the same 0.5 to 5 %


@dataclass(frozen=True, slots=True)
class Lies:
    """The share of answers that lie, and the kinds of lies that they choose from."""

    rate: float = 0.0
    kinds: Sequence[Lie] = tuple(Lie)
    seed: int = 0

    def tell(self, value: Any, host: str, *asked: object) -> Lie | None:
        """Change a decoded JSON answer of `host` in place if it is to lie; return the kind of lie.

        If a kind has nothing to change, such as a missing row in a quote, another one is chosen. An
        answer in which none has stays true.
        """
        luck = random.Random(f"{self.seed} {host} {asked}")  # noqa: S311 - simulation
        if luck.random() >= self.rate:
            return None
        content = _Content(value)
        of_host = random.Random(f"{self.seed} {host}")  # noqa: S311 - simulation
        for kind in luck.sample(list(self.kinds), len(self.kinds)):
            if _TELL[kind](content, of_host if kind is Lie.DISAGREEING else luck):
                return kind
        return None


_Place = tuple[Any, Any]
"""A list or an object, and the index or name of a value in it."""

_NO_MEASURE = re.compile(
    "date|time|stamp|day|year|month|code|rank|uuid|日期|时间|年|月|代码|序号|排名|^id$|_id$", re.I
)
"""Names of columns whose numbers measure nothing."""

_DECIMAL = re.compile(r"-?\d+\.\d+")
_DAY = re.compile(r"\d{4}([-/]?)\d\d\1\d\d")
_DAY_S = 86_400
_YEARS_S = (631_152_000, 4_102_444_800)
"""Unix time at the beginning of 1990 and 2100."""


class _Content:
    """The values of an answer by name, which objects use the name, and the largest table."""

    def __init__(self, value: Any) -> None:
        self.owners: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._places: defaultdict[str, list[_Place]] = defaultdict(list)
        self._tables: defaultdict[int, list[Any]] = defaultdict(list)
        self._walk(value, "", in_list=False)
        tables = map(_Table, self._tables.values())
        self.table = max(tables, key=lambda one: len(one) * len(one.keys), default=None)
        self.numbers = {n: places for n, places in self._places.items() if _measures(n, places)}

    def _walk(self, value: Any, name: str, *, in_list: bool) -> None:
        if isinstance(value, dict):
            if len(value) > 1 and all(map(_day, value)) and {*map(type, value.values())} == {dict}:
                self._tables[id(value)].append(value)
            for key, inside in value.items():
                self.owners[key].append(value)
                self._look(value, key, inside, key)
        elif isinstance(value, list):
            if len(value) > 1 and not in_list:
                kinds = {type(inside) for inside in value}
                if kinds in ({dict}, {list}):
                    self._tables[id(value)].append(value)
                elif not kinds & {dict, list}:  # lists of one length are columns of one table
                    self._tables[-len(value)].append(value)
            for at, inside in enumerate(value):
                self._look(value, at, inside, f"{name}.{at}" if in_list else name)

    def _look(self, inside: Any, key: Any, value: Any, name: str) -> None:
        if isinstance(value, dict | list):
            self._walk(value, name, in_list=isinstance(inside, list))
        else:
            self._places[name].append((inside, key))


class _Table:
    """Rows: objects or lists in one list, objects by day, or places of lists of one length."""

    def __init__(self, lists: list[Any]) -> None:
        self._lists = lists
        self._rows = [*lists[0].values()] if isinstance(lists[0], dict) else lists[0]
        first = self._rows[0]
        self._has_rows = isinstance(first, dict | list)
        self.keys: Sequence[Any] = (
            list(first)
            if isinstance(first, dict)
            else range(len(first if self._has_rows else lists))
        )

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, key: Any) -> list[_Place]:
        """The places of a column; empty if a row lacks it."""
        if not self._has_rows:
            return [(self._lists[key], row) for row in range(len(self))]
        whole = all(key in row if isinstance(row, dict) else key < len(row) for row in self._rows)
        return [(row, key) for row in self._rows] if whole else []

    def drop(self, rows: set[int]) -> None:
        for one in self._lists:
            if isinstance(one, dict):
                for day in [day for row, day in enumerate(one) if row in rows]:
                    del one[day]
                continue
            one[:] = [value for row, value in enumerate(one) if row not in rows]

    def days(self) -> list[str]:
        """The day of each row, by the first column that has days; empty if none has."""
        if isinstance(self._lists[0], dict):
            return [day for day in map(_day, self._lists[0]) if day is not None]
        for key in self.keys:
            values = [inside[at] for inside, at in self.column(key)]
            days = [day for day in map(_day, values) if day is not None]
            is_sorted = days in (sorted(days), sorted(days)[::-1])
            if days and len(days) == len(values) and (isinstance(values[0], str) or is_sorted):
                return days
        return []


def _day(value: Any) -> str | None:
    """The day of a date or a Unix time in seconds or milliseconds; None for anything else."""
    if isinstance(value, str):
        found = _DAY.match(value)
        return found[0] if found else None
    for unit in (1, 1_000):
        if _is_number(value) and _YEARS_S[0] <= value / unit < _YEARS_S[1]:
            return f"{value / unit // _DAY_S:06.0f}"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _measures(name: str, places: list[_Place]) -> bool:
    """Whether all values are numbers, or their texts, which a lie may change."""
    values = [inside[key] for inside, key in places if inside[key] is not None]
    are_numbers = all(_is_number(v) or (type(v) is str and _DECIMAL.fullmatch(v)) for v in values)
    if not are_numbers or not any(float(v) for v in values) or _NO_MEASURE.search(name):
        return False
    return not all(isinstance(v, int) and _day(v) is not None for v in values)


def _scale(place: _Place, factor: float) -> bool:
    """Multiply a number, which keeps its type and decimals. Return whether it changed."""
    inside, key = place
    value = inside[key]
    if value is None:
        return False
    if isinstance(value, int):
        inside[key] = round(value * factor)
    else:
        decimals = len(str(value).partition(".")[2]) if "e" not in str(value) else 12
        scaled = round(float(value) * factor, decimals)
        inside[key] = scaled if isinstance(value, float) else f"{scaled:.{decimals}f}"
    return bool(inside[key] != value)


def _stale_day(content: _Content, luck: random.Random) -> bool:
    table = content.table
    days = [] if table is None else table.days()
    if table is None or len(set(days)) < 2:
        return False
    newest, before = sorted(set(days))[:-3:-1]
    rows, source = [i for i, day in enumerate(days) if day == newest], days.index(before)
    changed = False
    if luck.random() < 0.5:
        for column in map(table.column, table.keys):
            if column and _measures("", column):
                inside, key = column[source]
                for place, at in (column[row] for row in rows):
                    changed = changed or place[at] != inside[key]
                    place[at] = inside[key]
    if not changed:
        table.drop({*rows})
    return True


def _unit_changed(content: _Content, luck: random.Random) -> bool:
    if not content.numbers:
        return False
    places, factor = luck.choice([*content.numbers.values()]), luck.choice([100, 10_000])
    return sum(_scale(place, factor) for place in places) > 0


def _wrong_number(content: _Content, luck: random.Random) -> bool:
    places = [place for places in content.numbers.values() for place in places]
    luck.shuffle(places)
    return any(_scale(p, 1 + luck.choice([-1, 1]) * luck.uniform(0.03, 0.3)) for p in places)


def _rows_missing(content: _Content, luck: random.Random) -> bool:
    table = content.table
    if table is None or len(table) < 4:
        return False
    count = max(round(len(table) * luck.uniform(0.1, 0.4)), 1)
    table.drop({*luck.sample(range(1, len(table) - 1), count)})
    return True


def _column_renamed(content: _Content, luck: random.Random) -> bool:
    names = [name for name in content.numbers if name in content.owners]
    if not names:
        return False
    name = luck.choice(names)
    new = f"{name}_value" if name.isascii() else f"{name}值"
    for owner in content.owners[name]:
        fields = {new if key == name else key: value for key, value in owner.items()}
        owner.clear()
        owner.update(fields)
    return True


def _disagreeing(content: _Content, luck: random.Random) -> bool:
    factor = 1 + luck.choice([-1, 1]) * luck.uniform(0.005, 0.05)
    places = [place for places in content.numbers.values() for place in places]
    return sum(_scale(place, factor) for place in places) > 0


_TELL: Mapping[Lie, Callable[[_Content, random.Random], bool]] = {
    Lie.STALE_DAY: _stale_day,
    Lie.UNIT_CHANGED: _unit_changed,
    Lie.WRONG_NUMBER: _wrong_number,
    Lie.ROWS_MISSING: _rows_missing,
    Lie.COLUMN_RENAMED: _column_renamed,
    Lie.DISAGREEING: _disagreeing,
}
