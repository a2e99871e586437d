"""The forms in which a table is written: CSV, TOON and JSON lines."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.compress.budget import Budget
from gateway.compress.cut import cut
from gateway.compress.decoded import Table, in_order
from gateway.compress.toon import scalar, table_header
from gateway.compress.written import Written, json_text

CELL_CHARS = 160
"""A longer text in a cell is cut."""

SAMPLE = 3
"""The rows by which the cheapest form is found."""

_TO_QUOTE = re.compile(r'[ #]|.* \Z|.*[,"\n\r]|\Z', re.DOTALL)
"""Texts that are quoted in CSV. Spaces at the ends, and `#` at the start, could be lost."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a table is written: a header for a number of rows, if it has one, and a line a row, by
    `row` of the columns. If it `has_nulls`, a null cell takes a comma; else it takes nothing.
    """

    name: str
    header: Callable[[Sequence[str], int], str]
    row: Callable[[Sequence[str]], Callable[[Mapping[str, Any]], str]]
    has_nulls: bool = True


def cheapest(table: Table, columns: Sequence[str], budget: Budget) -> Form:
    """The form in which the first rows take the least of the budget."""
    rows = [table.shown(place) for place in range(min(len(table), SAMPLE))]
    is_nested = any(isinstance(cell, dict | list) for row in rows for cell in row.values())

    def size(form: Form) -> int:
        lines = map(form.row(columns), rows)
        return budget.size("\n".join([form.header(columns, len(rows)), *lines]))

    return min((_CSV, _JSONL) if is_nested else (_CSV, _TOON, _JSONL), key=size)


def cell(value: object) -> str:
    """A cell as CSV has it (RFC 4180). A null cell is empty, an empty text is `""`."""
    if value is None:
        return ""
    if isinstance(value, Written):
        return value
    text = short(value) if isinstance(value, str) else json_text(short(value))
    if _TO_QUOTE.match(text):
        return '"{}"'.format(text.replace('"', '""'))
    return text


def short(value: Any) -> Any:
    """A value of a cell whose long texts are cut."""
    if isinstance(value, dict):
        return {name: short(item) for name, item in value.items()}
    if isinstance(value, list):
        return [short(item) for item in value]
    return cut(value, CELL_CHARS) if type(value) is str else value


def _csv_header(columns: Sequence[str], _: int) -> str:
    return ",".join(map(cell, columns))


def _csv_row(columns: Sequence[str]) -> Callable[[Mapping[str, Any]], str]:
    """A row is never an empty line: a null cell that stands alone is written as an empty text."""

    def line(row: Mapping[str, Any]) -> str:
        cells = map(row.get, columns)
        # nearly all cells are numbers, and a call takes longer than the test
        return ",".join([c if type(c) is Written else cell(c) for c in cells]) or '""'

    return line


def _toon_row(columns: Sequence[str]) -> Callable[[Mapping[str, Any]], str]:
    def line(row: Mapping[str, Any]) -> str:
        return "  " + ",".join([scalar(_flat(short(row.get(name)))) for name in columns])

    return line


def _flat(value: object) -> object:
    """A cell of TOON is a scalar, so a nested value is written as a text."""
    return json_text(value) if isinstance(value, dict | list) else value


def _jsonl_header(_: Sequence[str], __: int) -> str:
    return ""


def _jsonl_row(columns: Sequence[str]) -> Callable[[Mapping[str, Any]], str]:
    """A JSON object without the cells that are null."""
    names = in_order(columns)

    def line(row: Mapping[str, Any]) -> str:
        return json_text(short({n: row[n] for n in names(row) if row[n] is not None}))

    return line


_CSV = Form("csv", _csv_header, _csv_row)
_TOON = Form("toon", table_header, _toon_row)
_JSONL = Form("jsonl", _jsonl_header, _jsonl_row, has_nulls=False)
