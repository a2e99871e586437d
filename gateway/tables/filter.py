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

Two dates are compared as dates, whatever their forms. A value that is a day, a week, a month, a
quarter or a year stands for all of it: `= 2026-06` passes each day of June, `<` what is before its
first day, `>` what is after its last. A cell that is a month or a year stands for its first day.

A number and a cell that is one, also as a text, are compared as decimals; if `%` stands behind one
of two numbers, both need it. Other texts are compared as texts, but only by `=` and `!=` if the
value is a number or a date. A cell that can't be compared with the value, a null or missing one
too, passes `!=` only; a null one also `is null`.

If no cell of a column can be compared with a value, the filter is refused (`RowFilter.end`): a row
that passes for no reason, or none at all, would look like an answer.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.tables.comparison import CellComparison, Row, Test, Value

LONGEST = 2_000
"""The longest filter, in characters."""

COMPARISONS = 64
"""The most comparisons in a filter, and the most values after `in`."""

DEPTH = 16
"""How deep parentheses and `not` may be nested."""

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
_KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "contains"})
_SAME = {"==": "=", "<>": "!="}
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}


class FilterError(Exception):
    """A filter that can't be read, or does not fit its table. The text says what is wrong, at which
    character, from 1, and what would be right.
    """


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A filter that was read, for one table. `columns` are those that it names."""

    columns: tuple[str, ...]
    passes: Test
    _unproved: list[CellComparison] = field(repr=False)

    @classmethod
    def of(cls, text: str) -> "RowFilter":
        """Raises `FilterError`."""
        if len(text) > LONGEST:
            raise FilterError(f"where has at most {LONGEST} characters, not {len(text)}")
        parser = _Parser(text)
        test = parser.filter(0)
        parser.end()
        return cls(tuple(dict.fromkeys(parser.columns)), test, parser.comparisons)

    def see(self, rows: Iterable[Row]) -> None:
        """Look for cells that can be compared, in rows of the table. Few rows are looked at, unless
        there are no such cells.
        """
        self._unproved[:] = [one for one in self._unproved if not one.is_proved_by(rows)]

    def end(self) -> None:
        """Raises `FilterError` if no cell of a column that was seen can be compared with a value,
        and not all are null.
        """
        for one in self._unproved:
            if text := one.misfit():
                raise FilterError(text)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.lower() == word


class _Parser:
    """Reads a filter by recursive descent, a method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.columns: list[str] = []
        self.comparisons: list[CellComparison] = []
        self._count = 0
        self._tokens = [*_tokens(text)]
        self._next = 0

    def filter(self, depth: int) -> Test:
        tests = [self._term(depth)]
        while self._taken("or"):
            tests.append(self._term(depth))
        return tests[0] if len(tests) == 1 else lambda row: any(test(row) for test in tests)

    def end(self) -> None:
        if (token := self._tokens[self._next]).kind != "end":
            raise _unexpected(token, "`and`, `or` or the end", _IN_QUOTES)

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
        if self._taken("("):
            test = self.filter(depth + 1)
            self._expect(")")
            return test
        return self._comparison()

    def _comparison(self) -> Test:
        column = self._column()
        self._count += 1
        if self._count > COMPARISONS:
            raise FilterError(f"where has at most {COMPARISONS} comparisons")
        token = self._take()
        if token.kind == "operator":
            return self._compared(column, _SAME.get(token.text, token.text), self._value())
        if token.is_word("contains"):
            return self._compared(column, "contains", self._value())
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
        tests = [self._compared(column, "=", value) for value in self._values()]
        return lambda row: any(test(row) for test in tests) != is_not

    def _compared(self, column: str, operator: str, value: Value) -> Test:
        is_word = value.plain is None or isinstance(value.plain, bool)
        if is_word and operator not in ("=", "!="):
            text = f"where at {value.place}: {value.text} is compared by = and != only"
            raise FilterError(text)
        if value.plain is None:
            return lambda row: (row.get(column) is None) == (operator == "=")
        comparison = CellComparison(column, operator, value)
        self.comparisons.append(comparison)
        return comparison.test

    def _column(self) -> str:
        token = self._take()
        is_name = token.kind in ("double", "back")
        if not is_name and (token.kind != "word" or token.text.lower() in _KEYWORDS):
            raise _unexpected(token, "a column")
        self.columns.append(token.text)
        return token.text

    def _value(self) -> Value:
        token = self._take()
        if token.kind in ("single", "double"):
            return Value.of_text(token.text, token.place)
        if token.kind == "word":
            lower = token.text.lower()
            if lower in _WORDS:
                return Value(_WORDS[lower], token.text, None, token.place)
            if lower not in _KEYWORDS:
                return Value.of_text(token.text, token.place)
        raise _unexpected(token, "a value (a number, a date, a word, or a text in quotes)")

    def _values(self) -> Iterator[Value]:
        self._expect("(")
        yield self._value()
        for _ in range(COMPARISONS):
            if self._taken(")"):
                return
            if not self._taken(","):
                raise _unexpected(self._tokens[self._next], "`,` or `)`", _IN_QUOTES)
            yield self._value()
        raise FilterError(f"where has at most {COMPARISONS} values after `in`")

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _taken(self, said: str) -> bool:
        """Take the next token if it is this word, in any case, or this mark."""
        token = self._tokens[self._next]
        is_there = token.kind in ("word", "mark") and token.text.lower() == said
        self._next += is_there
        return is_there

    def _expect(self, mark: str) -> None:
        if not self._taken(mark):
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


_IN_QUOTES = "; put texts with spaces in quotes"


def _unexpected(token: _Token, wanted: str, of_word: str = "") -> FilterError:
    """The error for a token that can't stand there. `of_word` ends it if the token is a word."""
    there = token.text if token.kind == "end" else repr(token.text[:40])
    end = of_word if token.kind == "word" else ""
    return FilterError(f"where at {token.place}: expected {wanted}, found {there}{end}")
