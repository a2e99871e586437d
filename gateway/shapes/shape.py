"""The shape of an answer: its paths, and the JSON types seen at each.

The paths of a table are its columns. The paths of a document lead to its values; the elements of an
array share one. Keys that are data share the path `*`: dates, times, digits, and what the call's
arguments name. A null says that a path is there, and nothing of its type.

A sample is read: at most `SAMPLED` rows, elements of an array and values of a `*`, evenly spaced.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from cache import Entry
from cache.json_paths import DATA, ELEMENTS, JSON_TYPES, is_data_key

MAX_DOCUMENT = 2**20
"""Bytes of the longest document that is read."""

MAX_MARKS = 50_000
"""Commas and opening brackets of the longest document that is read. Parsing holds the interpreter's
lock, and the event loop waits meanwhile: so many take up to 4 ms.
"""

MAX_PATHS = 500
MAX_VALUES = 10_000
MAX_DEPTH = 16
"""Values nested more deeply are not looked into."""

SAMPLED = 50

MAX_ROW = 2**14
"""Bytes of the longest row that is read."""

MAX_NAME = 80
"""Characters of a name that are kept."""


class TooLarge(Exception):
    """An answer has more bytes, paths or values than are compared."""


@dataclass(slots=True)
class Shape:
    """The types seen at one path, and the paths below it by their next name.

    The type of a whole table is `table`, which is none of JSON's. `is_empty` is set for a whole
    answer without a row, or without a value other than null.
    """

    types: set[str] = field(default_factory=set)
    parts: dict[str, "Shape"] = field(default_factory=dict)
    is_empty: bool = False

    @property
    def is_table(self) -> bool:
        return "table" in self.types


def shape_of(entry: Entry, named: Collection[str] = ()) -> Shape:
    """The shape of an answer; `named` are texts of the call's arguments.

    Raises `TooLarge`, and `ValueError` if the data is not JSON.
    """
    reader = _Reader({text.casefold() for text in named})
    if entry.columns is None:
        return reader.document(entry.data)
    return reader.table(entry.data, entry.columns, entry.rows or 0)


class _Reader:
    def __init__(self, named: Collection[str]) -> None:
        self._named = named
        self._values = self._paths = 0
        self._is_cut = False

    def document(self, data: bytes) -> Shape:
        if len(data) > MAX_DOCUMENT or sum(map(data.count, (b",", b"[", b"{"))) > MAX_MARKS:
            raise TooLarge
        shape = Shape()
        self._add(shape, orjson.loads(data), 0)
        shape.is_empty = not (self._is_cut or _has_value(shape))
        return shape

    def table(self, data: bytes, columns: Collection[str], rows: int) -> Shape:
        shape = Shape({"table"}, is_empty=not rows)
        parts = {column: self._part(shape, self._name(column)) for column in columns}
        for line in _lines(data) if rows else ():
            for column, cell in orjson.loads(line).items():
                if cell is not None and column in parts:
                    parts[column].types.add(JSON_TYPES[type(cell)])
        return shape

    def _add(self, shape: Shape, value: Any, depth: int) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise TooLarge
        if value is None:
            return
        shape.types.add(JSON_TYPES[type(value)])
        if depth == MAX_DEPTH:
            self._is_cut = self._is_cut or bool(value)
            return
        if type(value) is dict:
            of_data = []
            for key, item in value.items():
                name = self._name(key)
                if name == DATA:
                    of_data.append(item)
                else:
                    self._add(self._part(shape, name), item, depth + 1)
            for item in _sample(of_data):
                self._add(self._part(shape, DATA), item, depth + 1)
        elif type(value) is list:
            for item in _sample(value):
                self._add(self._part(shape, ELEMENTS), item, depth + 1)

    def _part(self, shape: Shape, name: str) -> Shape:
        part = shape.parts.get(name)
        if part is None:
            self._paths += 1
            if self._paths > MAX_PATHS:
                raise TooLarge
            part = shape.parts[name] = Shape()
        return part

    def _name(self, key: str) -> str:
        if key.casefold() in self._named or is_data_key(key):
            return DATA
        return key if len(key) <= MAX_NAME else f"{key[: MAX_NAME - 1]}…"


def _sample(values: list[Any]) -> list[Any]:
    return values[:: -(-len(values) // SAMPLED) or 1]


def _lines(table: bytes) -> Iterator[bytes]:
    """Rows of a table with one record a line, at evenly spaced places; none that is too long."""
    end = len(table) - 1
    step = end // SAMPLED
    start = 1
    while 0 < start < end:
        stop = table.find(b"\n", start, start + MAX_ROW)
        if stop > 0 or end - start <= MAX_ROW:
            yield table[start : stop if stop > 0 else end].removesuffix(b",")
        start = table.find(b"\n", max(start + step, stop)) + 1


def _has_value(shape: Shape) -> bool:
    if shape.types - {"object", "array"}:
        return True
    return any(map(_has_value, shape.parts.values()))
