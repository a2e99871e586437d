"""Comparisons of cells with a value of a filter (`gateway.tables.filter`)."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from cache.dates import Date, date_of, is_time_name, span_of
from gateway.compress.cells import COMPARE, dashed

_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")
_SCALED = re.compile(r"([+-]?\d+(?:\.\d+)?) ?(万亿|[%％kK千万亿])")
_SCALES = {"k": 10**3, "千": 10**3, "万": 10**4, "亿": 10**8, "万亿": 10**12}
_OFFSET = re.compile(r"(?<=\d)(?:Z|[+-]\d\d:?\d\d)$")
_EXAMPLE_CHARS = 40

Row = Mapping[str, Any]
Test = Callable[[Row], bool]


@dataclass(frozen=True, slots=True)
class Value:
    """What a cell is compared with. `plain` is a boolean or None, or the `text`. `place` is where
    it stands in the filter.
    """

    plain: bool | str | None
    text: str
    number: "_Number | None"
    place: int

    @classmethod
    def of_text(cls, text: str, place: int) -> "Value":
        return cls(text, text, _Number.of(text), place)


@dataclass(frozen=True, slots=True)
class _Number:
    """A number that is written in a text, exactly, and whether `%` stands behind it."""

    value: Decimal
    is_percent: bool

    @classmethod
    def of(cls, text: str) -> "_Number | None":
        text = text.strip()
        plain = text.removesuffix("%")
        if _NUMBER.fullmatch(plain) is None:
            return None
        try:
            return cls(Decimal(plain.replace("_", "")), plain != text)
        except InvalidOperation:
            return None


class CellComparison:
    """A comparison of a column's cells with a value that is not null."""

    def __init__(self, column: str, operator: str, value: Value) -> None:
        self._column = column
        self._operator = operator
        self._value = value
        self._is_named = is_time_name(column)
        self._date = _date(value.text, self._is_named)
        self._span = span_of(value.text.strip())
        self._example: Any = None
        self.test = self._test()

    def is_proved_by(self, rows: Iterable[Row]) -> bool:
        """Whether a cell can be compared with the value."""
        cells = (cell for row in rows if (cell := row.get(self._column)) is not None)
        for cell in cells:
            if self._example is None:
                self._example = cell
            if self._fits(cell):
                return True
        return False

    def misfit(self) -> str:
        """Why no cell that was seen can be compared with the value; empty if none was seen."""
        if self._example is None:
            return ""
        value, there = self._value, self._example
        shown = orjson.dumps(there).decode()
        if len(shown) > _EXAMPLE_CHARS:
            shown = f"{shown[:_EXAMPLE_CHARS]}..."
        said = "`contains`" if self._operator == "contains" else repr(value.text[:40])
        text = f"where at {value.place}: {said} does not fit the column {self._column[:40]!r}"
        kind, right = self._held(there)
        return f"{text}, which holds {kind}, for example {shown}; {right}"

    def _held(self, cell: object) -> tuple[str, str]:
        """What the column holds, and what would be right."""
        if isinstance(cell, bool):
            return "booleans", "write true or false"
        if isinstance(cell, dict | list):
            return "lists or objects", "only `is null` fits these"
        if self._operator == "contains":
            return "numbers", "compare it by =, !=, <, <=, > or >="
        if _date(str(cell), self._is_named) is not None:
            return "dates", "write a date that exists, such as 2024-01-31, or as the column has it"
        if isinstance(cell, int | float):
            return "numbers", _in_digits(self._value.text)
        if (number := _Number.of(str(cell))) is not None:
            right = "write a number with %" if number.is_percent else _in_digits(self._value.text)
            return "numbers", right
        return "texts", "use =, != or `contains`"

    def _fits(self, cell: Any) -> bool:
        """Whether the cell says anything about the value."""
        if self._operator == "contains":
            return isinstance(cell, str)
        if isinstance(self._value.plain, bool):
            return isinstance(cell, bool)
        pair = self._pair(cell)
        if pair is None or pair[0] is not cell or not isinstance(cell, str):
            return pair is not None
        if _date(cell, self._is_named) is not None:
            return False
        return self._operator in ("=", "!=") or _Number.of(cell) is None

    def _test(self) -> Test:
        column, value, pair = self._column, self._value, self._pair
        if isinstance(value.plain, bool):
            is_equal = self._operator == "="
            return lambda row: (row.get(column) is value.plain) == is_equal
        if self._operator == "contains":
            part = value.text.casefold()
            return lambda row: isinstance(cell := row.get(column), str) and part in cell.casefold()
        compare, is_unlike = COMPARE[self._operator], self._operator == "!="

        def test(row: Row) -> bool:
            found = pair(row.get(column))
            return is_unlike if found is None else compare(*found)

        return test

    def _day(self, cell: Any) -> float | None:
        """When a cell is by the calendar: a day is the one that is written, whatever its zone."""
        text = str(cell).strip()
        found = _date(_OFFSET.sub("", text) if ":" in text else text, self._is_named)
        return found.at if found is not None and found.kind == "day" else None

    def _pair(self, cell: Any) -> tuple[Any, Any] | None:
        """The cell and the value as they are compared; None if they can't be."""
        if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal | str):
            return None
        value, date, span = self._value, self._date, self._span
        if span is not None and (at := self._day(cell)) is not None:
            first, after = span
            return first if first <= at < after else at, first
        if date is not None:
            there = _date(str(cell), self._is_named)
            if there is not None and there.kind == date.kind:
                return there.at, date.at
        number = value.number
        if not isinstance(cell, str):
            return None if number is None or number.is_percent else (_exact(cell), number.value)
        written = None if number is None else _Number.of(cell)
        if number is not None and written is not None and written.is_percent == number.is_percent:
            return written.value, number.value
        is_text = date is None and number is None
        return (cell, value.text) if is_text or self._operator in ("=", "!=") else None


def _in_digits(text: str) -> str:
    """How a number is to be written that is not written in digits."""
    found = _SCALED.fullmatch(text.strip())
    if found is None:
        return "write a number in digits, such as 1234.5"
    if found[2] in "%％":
        return f"write {found[1]}, or a hundredth of it, as the column has it"
    scaled = Decimal(found[1]) * _SCALES[found[2].lower()]
    return f"write {scaled.normalize():f}, in the unit of the column"


def _date(text: str, named: bool) -> Date | None:
    """The date that a text is; eight digits in a column of dates are a day."""
    text = text.strip()
    return date_of(dashed(text) if named else text, named=named)


def _exact(cell: float | Decimal) -> Decimal:
    """The number as it is written in JSON."""
    return Decimal(repr(cell)) if isinstance(cell, float) else Decimal(cell)
