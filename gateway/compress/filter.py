"""Filters of rows: a small language that is parsed and never evaluated as code.

    filter     = term {"or" term}
    term       = factor {"and" factor}
    factor     = "not" factor | "(" filter ")" | comparison
    comparison = column operator value
               | column ["not"] "in" "(" value {"," value} ")"
               | column "is" ["not"] "null"
    operator   = "=" | "!=" | "<" | "<=" | ">" | ">=" | "contains"

A column is a word or stands in double quotes or backquotes. A value is a number, a word, a date, or
a text in single or double quotes. `==` and `<>` are read as `=` and `!=`; keywords have any case.

Numbers are compared as decimals. A number and a cell that is a text are compared as numbers if the
text is one, else as texts. Two dates are compared as dates, whatever their forms; a month or a year
equals its first day. A cell that is null or missing passes `is null` and `!=` only.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from cache.dates import Date, date_of, is_time_name
from gateway.compress.cells import COMPARE, dashed

LONGEST = 2_000
"""The longest filter, in characters."""

COMPARISONS = 64
"""The most comparisons in a filter, and the most values after `in`."""

DEPTH = 16
"""How deep parentheses and `not` may be nested."""

NUMBER_CHARS = 64
"""The longest text that is read as a number."""

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<operator><=|>=|<>|!=|==|=|<|>)
    | (?P<mark>[(),])
    | '(?P<single>(?:[^'\\]|\\.)*+)'
    | "(?P<double>(?:[^"\\]|\\.)*+)"
    | `(?P<back>[^`]*+)`
    | (?P<word>[^\s'"`(),<>=!]++)
    )""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")
_KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "contains"})
_SAME = {"==": "=", "<>": "!="}
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}

Row = Mapping[str, Any]
Test = Callable[[Row], bool]


class FilterError(Exception):
    """A filter that can't be read. The text says what is wrong and at which character, from 1."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A filter that was read; `columns` are those that it names."""

    columns: tuple[str, ...]
    passes: Test

    @classmethod
    def of(cls, text: str) -> "RowFilter":
        """Raises `FilterError`."""
        if len(text) > LONGEST:
            raise FilterError(f"where has at most {LONGEST} characters, not {len(text)}")
        parser = _Parser(text)
        test = parser.filter(0)
        parser.end()
        return cls(tuple(dict.fromkeys(parser.columns)), test)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words


class _Parser:
    """Reads a filter by recursive descent, a method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.columns: list[str] = []
        self._comparisons = 0
        self._tokens = [*_tokens(text)]
        self._next = 0

    def filter(self, depth: int) -> Test:
        tests = [self._term(depth)]
        while self._taken("or"):
            tests.append(self._term(depth))
        return tests[0] if len(tests) == 1 else lambda row: any(test(row) for test in tests)

    def end(self) -> None:
        if (token := self._tokens[self._next]).kind != "end":
            raise _unexpected(token, "`and`, `or` or the end")

    def _term(self, depth: int) -> Test:
        tests = [self._factor(depth)]
        while self._taken("and"):
            tests.append(self._factor(depth))
        return tests[0] if len(tests) == 1 else lambda row: all(test(row) for test in tests)

    def _factor(self, depth: int) -> Test:
        if depth > DEPTH:
            token = self._tokens[self._next]
            raise FilterError(f"where at {token.place}: it is nested over {DEPTH} deep")
        if self._taken("not"):
            test = self._factor(depth + 1)
            return lambda row: not test(row)
        if self._tokens[self._next].text == "(" and self._tokens[self._next].kind == "mark":
            self._next += 1
            test = self.filter(depth + 1)
            self._mark(")")
            return test
        return self._comparison()

    def _comparison(self) -> Test:
        column = self._column()
        self._comparisons += 1
        if self._comparisons > COMPARISONS:
            raise FilterError(f"where has at most {COMPARISONS} comparisons")
        token = self._take()
        if token.kind == "operator":
            return _comparison(column, _SAME.get(token.text, token.text), self._value())
        if token.is_word("contains"):
            return _comparison(column, "contains", self._value())
        if token.is_word("is"):
            is_not = self._taken("not")
            if not (word := self._take()).is_word("null"):
                raise _unexpected(word, "`null`")
            return lambda row: (row.get(column) is None) != is_not
        is_not = token.is_word("not")
        if is_not:
            token = self._take()
        if not token.is_word("in"):
            raise _unexpected(token, "=, !=, <, <=, >, >=, `contains`, `in` or `is`")
        tests = [_comparison(column, "=", value) for value in self._values()]
        return lambda row: any(test(row) for test in tests) != is_not

    def _column(self) -> str:
        token = self._take()
        is_name = token.kind in ("double", "back")
        if not is_name and (token.kind != "word" or token.text.lower() in _KEYWORDS):
            raise _unexpected(token, "a column")
        self.columns.append(token.text)
        return token.text

    def _value(self) -> "_Value":
        token = self._take()
        if token.kind in ("single", "double"):
            return _Value.of_text(token.text)
        if token.kind == "word":
            lower = token.text.lower()
            if lower in _WORDS:
                return _Value(_WORDS[lower], token.text, None)
            if lower not in _KEYWORDS:
                return _Value.of_text(token.text)
        raise _unexpected(token, "a value: a number, a date, a word or a text in quotes")

    def _values(self) -> Iterator["_Value"]:
        self._mark("(")
        yield self._value()
        for _ in range(COMPARISONS):
            if self._taken_mark(")"):
                return
            self._mark(",")
            yield self._value()
        raise FilterError(f"where has at most {COMPARISONS} values after `in`")

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _taken(self, word: str) -> bool:
        is_there = self._tokens[self._next].is_word(word)
        self._next += is_there
        return is_there

    def _taken_mark(self, mark: str) -> bool:
        token = self._tokens[self._next]
        is_there = token.kind == "mark" and token.text == mark
        self._next += is_there
        return is_there

    def _mark(self, mark: str) -> None:
        if not self._taken_mark(mark):
            raise _unexpected(self._tokens[self._next], f"`{mark}`")


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while found := _TOKEN.match(text, place):
        kind = found.lastgroup or ""
        value = found[kind]
        if kind in ("single", "double"):
            value = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
        yield _Token(kind, value, found.start(kind) + 1)
        place = found.end()
    if rest := text[place:].strip():
        at = text.index(rest, place) + 1
        what = "a quotation mark that is not closed" if rest[0] in "'\"`" else repr(rest[:1])
        raise FilterError(f"where at {at}: {what}")
    yield _Token("end", "the end", len(text) + 1)


def _unexpected(token: _Token, wanted: str) -> FilterError:
    there = token.text if token.kind == "end" else repr(token.text[:40])
    return FilterError(f"where at {token.place}: {there} where {wanted} should be")


@dataclass(frozen=True, slots=True)
class _Value:
    """What a cell is compared with. `plain` is a boolean or None, or the `text`."""

    plain: bool | str | None
    text: str
    number: Decimal | None

    @classmethod
    def of_text(cls, text: str) -> "_Value":
        return cls(text, text, number_of(text))


def number_of(text: str) -> Decimal | None:
    """The number that a text is, exactly; None if it is none."""
    if len(text) > NUMBER_CHARS or _NUMBER.fullmatch(text) is None:
        return None
    try:
        return Decimal(text.replace("_", ""))
    except InvalidOperation:
        return None


def _comparison(column: str, operator: str, value: _Value) -> Test:
    if value.plain is None or isinstance(value.plain, bool):
        is_equal = operator == "="
        if operator not in ("=", "!="):
            raise FilterError(f"where: {value.text} is compared by = and != only")
        return lambda row: (row.get(column) is value.plain) == is_equal
    if operator == "contains":
        part = value.text.casefold()
        return lambda row: isinstance(cell := row.get(column), str) and part in cell.casefold()
    compare = COMPARE[operator]
    named, is_unlike = is_time_name(column), operator == "!="
    date = _date(value.text, named)

    def test(row: Row) -> bool:
        cell = row.get(column)
        if cell is None:
            return is_unlike
        if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal | str):
            return is_unlike
        if date is not None:
            there = _date(str(cell), named)
            if there is not None and there.kind == date.kind:
                return compare(there.at, date.at)
        if isinstance(cell, str):
            if value.number is None or (number := number_of(cell.strip())) is None:
                return compare(cell, value.text)
            return compare(number, value.number)
        if value.number is None:
            return is_unlike
        return compare(_exact(cell), value.number)

    return test


def _date(text: str, named: bool) -> Date | None:
    """The date that a text is; eight digits in a column of dates are a day."""
    text = text.strip()
    return date_of(dashed(text) if named else text, named=named)


def _exact(cell: float | Decimal) -> Decimal:
    """The number as it is written in JSON."""
    return Decimal(repr(cell)) if isinstance(cell, float) else Decimal(cell)
