"""An answer as lists of records, so that tables and documents are compared by the same rules.

A table is one list of records at the place "". A document is one record at the place "", and each
array in it is a list of records at its path, such as `data.items[]`. An object inside a record
gives the fields `outer.inner`. An object whose keys are data (dates, numbers, codes) is a list of
records at `path.*`, and the field `*` holds the keys.

In names that an answer gives, the marks of a path (`.`, `[`, `*`) are replaced by noncharacters of
Unicode, so that each path has one meaning. `shown` gives a path as a finding shows it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Final

import orjson

from cache import Entry
from cache.dates import date_of, is_time_name, span_of
from cache.json_paths import DATA, JSON_TYPES, holds_data

MISSING: Final = type("Missing", (), {"__repr__": lambda _: "missing"})()
"""Stands in a column where a record does not have the field at all."""

NULLS: Final = frozenset(
    ["", "-", "--", "---", "—", "nan", "NaN", "None", "none", "null", "N/A", "n/a", "NA", "<NA>"]
)
"""Texts that upstreams write where a value is missing."""

MAX_DEPTH, MAX_FIELDS, MAX_ROWS = 12, 10_000, 200_000

MAX_CELLS: Final = 20_000_000
"""Cells of an answer, also of records that lack the field. A dense table has fewer, because a row
of a snapshot has 32 MiB at most.
"""


class _Own(str):
    """A name that is none of the answer's."""

    __slots__ = ()


KEY: Final = _Own(DATA)
_ESCAPES: Final = str.maketrans({".": "\ufdd0", "[": "\ufdd1", "*": "\ufdd2"})
_SHOWN: Final = str.maketrans({"\ufdd0": ".", "\ufdd1": "[", "\ufdd2": "*", "\ufdd3": ""})
_EMPTY: Final = "\ufdd3"
"""Stands for an empty name."""

_VALUE: Final = _Own("")
_HUGE: Final = 1e300
_SAMPLE: Final = 200
_LONGEST_DATE: Final = 64
_COUNTER = re.compile(
    r"(?i)(?:^|[_. ])(?:id|key|index|idx|no|num|number|position|rank|row)$|序号$|排名$|名次$|编号$"
)
_CODE = re.compile("0[0-9]")  # as in 000001
_BEGINS_NUMBER = frozenset("0123456789+-.,")
_DIGITS, _LETTERS = re.compile("[0-9]+"), re.compile("[A-Za-z]+")


@dataclass
class Records:
    """A list of `rows` records at one place of an answer. Each field has a cell for each record."""

    place: str
    rows: int
    fields: dict[str, list[Any]] = field(default_factory=dict)

    def path(self, name: str) -> str:
        """The name of a field in the whole answer."""
        return ".".join(filter(None, (self.place, name)))

    @cached_property
    def dates(self) -> dict[str, list[float]]:
        """The fields whose cells are all dates, as numbers that can be compared in one field."""
        found = ((name, _dates(name, cells)) for name, cells in self.fields.items())
        return {name: dates for name, dates in found if dates is not None}

    @cached_property
    def counters(self) -> frozenset[str]:
        """The fields that, by their names and cells, only number the records from 0 or 1 on."""
        return frozenset(name for name, cells in self.fields.items() if _counts(name, cells))


def shown(path: str) -> str:
    """A path with the names as the answer has them."""
    return path.translate(_SHOWN)


def said(path: str) -> str:
    """A path as a sentence names it."""
    if not path:
        return "the document"
    if path == _EMPTY:
        return '"" (the empty name)'
    return shown(path.replace(_EMPTY, '""'))


def read(entry: Entry) -> dict[str, Records]:
    """The records of an answer, by place. Fields, rows and depth beyond the bounds are left out."""
    reader = _Reader()
    if entry.columns is None:
        value = orjson.loads(entry.data)
        reader.add("", value if isinstance(value, list) else [value])
        return reader.places
    rows: list[Any] = []
    for piece in entry.pieces():
        rows += orjson.loads(piece)
    reader.add("", rows)
    table = reader.places[""]
    # Also the columns of an empty table, and those whose cells are all lists.
    objects = {name.partition(".")[0] for name in table.fields if "." in name}
    for name in map(inner, entry.columns):
        if name not in table.fields and name not in objects:
            reader.set(table, name, [None] * table.rows)
    return reader.places


def is_whole(places: Mapping[str, Records]) -> bool:
    """Whether nothing of an answer was left out for one of the bounds, as far as that shows."""
    sizes = [(len(records.fields), records.rows) for records in places.values()]
    fields, rows = (sum(side) for side in zip(*sizes, strict=True))
    cells = sum(size[0] * size[1] for size in sizes) + max(size[1] for size in sizes)
    return fields < MAX_FIELDS and rows < MAX_ROWS and cells <= MAX_CELLS


def is_empty(places: Mapping[str, Records]) -> bool:
    """Whether an answer holds no value."""
    return not any(
        not is_null(cell)
        for records in places.values()
        for cells in records.fields.values()
        for cell in cells
    )


def is_null(cell: Any) -> bool:
    """Whether a cell holds no value."""
    return cell is None or cell is MISSING or (type(cell) is str and cell.strip() in NULLS)


def spaced(cells: Sequence[Any], least: int) -> Sequence[Any]:
    """Evenly spaced cells: at least so many, if there are, and less than twice as many."""
    return cells[:: max(len(cells) // least, 1)]


def numbers(cells: Iterable[Any]) -> list[float]:
    """The numbers in cells, also those that are written as text, sorted."""
    return sorted(x for x in map(number, cells) if x is not None)


def number_pairs(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[float, float]]:
    """The numbers of the pairs of cells that both hold one."""
    known = ((number(a), number(b)) for a, b in pairs)
    return [(x, y) for x, y in known if x is not None and y is not None]


def number(cell: Any) -> float | None:
    """The number in a cell, or None. One of 300 digits counts as none: its sums have no float."""
    kind = type(cell)
    if kind is float or kind is int:
        return float(cell) if -_HUGE < cell < _HUGE else None
    if kind is not str or len(cell) > 40 or cell[:1] not in _BEGINS_NUMBER:
        return None
    try:
        value = float(cell.replace(",", "").removesuffix("%").removesuffix("％"))
    except ValueError:
        return None
    return value if -_HUGE < value < _HUGE else None


def forms(cells: Sequence[Any]) -> dict[str, float]:
    """The share of each form among the cells that are not null: `number`, `boolean`, `object`,
    `array`, `text`, `number as text`, or a date as it is written (`date 9-9-9`).

    Of a long column evenly spaced cells are read.
    """
    counts: dict[str, int] = {}
    for cell in spaced(cells, _SAMPLE):
        form = _form(cell)
        if form is not None:
            counts[form] = counts.get(form, 0) + 1
    total = sum(counts.values())
    return {form: count / total for form, count in counts.items()}


def _form(cell: Any) -> str | None:
    if is_null(cell):
        return None
    if type(cell) is not str:
        return JSON_TYPES.get(type(cell), "object")
    if len(cell) <= 40:
        if number(cell) is not None and not _CODE.match(cell):
            is_day = len(cell) == 8 and cell[:2] in ("19", "20") and cell.isdecimal()
            return "date 9" if is_day else "number as text"
        if date_of(cell, named=False) is not None:
            return f"date {_LETTERS.sub('a', _DIGITS.sub('9', cell))}"
    return "text"


class _Reader:
    def __init__(self) -> None:
        self.places: dict[str, Records] = {}
        self._fields = self._rows = self._cells = 0

    def add(self, place: str, items: Sequence[Any], depth: int = 0) -> None:
        items = items[: MAX_ROWS - self._rows]
        if depth > MAX_DEPTH or self._fields >= MAX_FIELDS:
            return
        records = self.places.setdefault(place, Records(place, 0))
        if not items:
            return
        self._rows += len(items)
        self._cells += len(items) * len(records.fields)
        for column in records.fields.values():
            column.extend([MISSING] * len(items))
        records.rows += len(items)
        if type(items[0]) is list and all(type(item) is list for item in items):
            items = [{_Own(f"[{n}]"): cell for n, cell in enumerate(item[:64])} for item in items]
        if all(type(item) is dict for item in items):
            self._add_objects(records, "", items, depth)
        else:
            self.set(records, "", [c for c in items if type(c) not in (dict, list)])

    def _add_objects(self, records: Records, prefix: str, items: Sequence[Any], depth: int) -> None:
        names = dict.fromkeys(name for item in items if type(item) is dict for name in item)
        for name in islice(names, MAX_FIELDS):
            cells = [item.get(name, MISSING) if type(item) is dict else MISSING for item in items]
            self._add_field(records, f"{prefix}{inner(name)}", cells, depth)

    def _add_field(self, records: Records, name: str, cells: list[Any], depth: int) -> None:
        kinds = {*map(type, cells)}
        if depth >= MAX_DEPTH:  # what is deeper is not read, but it is there
            cells = [{} if type(c) is dict else [] if type(c) is list else c for c in cells]
            self.set(records, name, cells)
            return
        if dict in kinds:
            objects = [cell for cell in cells if type(cell) is dict]
            if all(holds_data(cell) for cell in objects):
                keyed = [
                    {KEY: key, **(value if type(value) is dict else {_VALUE: value})}
                    for cell in objects
                    for key, value in cell.items()
                ]
                self.add(f"{records.path(name)}.{KEY}", keyed, depth + 1)
                self.set(records, f"{name}.{KEY}", _presence(cells, dict))
            else:
                self._add_objects(records, f"{name}.", cells, depth + 1)
        if list in kinds:
            inner = [value for cell in cells if type(cell) is list for value in cell]
            self.add(f"{records.path(name)}[]", inner, depth + 1)
            self.set(records, f"{name}[]", _presence(cells, list))
        if kinds - {dict, list}:
            plain = [None if type(c) in (dict, list) else c for c in cells]
            if kinds & {dict, list} and all(is_null(cell) for cell in plain):
                return
            self.set(records, name, plain)

    def set(self, records: Records, name: str, cells: list[Any]) -> None:
        """The cells of the newest records; those before them lack the field."""
        if name not in records.fields:
            if self._fields >= MAX_FIELDS or self._cells + records.rows > MAX_CELLS:
                return
            self._fields += 1
            self._cells += records.rows
            records.fields[name] = [MISSING] * records.rows
        if cells:
            records.fields[name][-len(cells) :] = cells


def last_name(path: str) -> str:
    """The last name of a path."""
    return path.rpartition(".")[2]


def inner(name: str) -> str:
    """A name of the answer as a part of a path."""
    return name if type(name) is _Own else name.translate(_ESCAPES) or _EMPTY


def _presence(cells: Sequence[Any], kind: type) -> list[Any]:
    """Cells that say only that an array or an object is there; an empty one holds no value."""
    return [(True if cell else None) if type(cell) is kind else MISSING for cell in cells]


def _counts(name: str, cells: Sequence[Any]) -> bool:
    named = name == KEY or _COUNTER.search(shown(last_name(name)))
    first = number(cells[0]) if named and len(cells) > 2 else None
    return first in (0, 1) and all(number(cell) == first + n for n, cell in enumerate(cells))


def _dates(name: str, cells: Sequence[Any]) -> list[float] | None:
    """The dates of a field as Unix seconds, if every cell is one."""
    last = last_name(name)
    named = last == KEY or is_time_name(shown(last))
    dates: list[float] = []
    for cell in cells:
        text = cell if type(cell) is str else str(cell) if type(cell) is int and named else None
        short = text is not None and len(text) <= _LONGEST_DATE
        at = _seconds(text, named) if text is not None and short else None
        if at is None:
            return None
        dates.append(at)
    return dates


@lru_cache(8_192)
def _seconds(text: str, named: bool) -> float | None:
    date = date_of(text, named=named)
    if date is None or date.kind == "clock":
        return None
    if date.kind == "day":
        return date.at
    if len(text) <= 8:
        span = span_of(text)
        return span[0] if span else None
    if len(text) in (12, 14):
        try:
            time = datetime.strptime(f"{text.ljust(14, '0')} +0000", "%Y%m%d%H%M%S %z")
        except ValueError:
            return None
        return time.timestamp()
    thousands = max(0, (len(text.partition(".")[0]) - 8) // 3)
    return float(date.at / 1_000**thousands)
