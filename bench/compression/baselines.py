"""Plain ways to shorten an answer to a budget, which do not know the question."""

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from io import StringIO

from bench.compression.case import Answer
from bench.compression.tables import parsed
from gateway.compress.budget import Budget

_ELLIPSIS = "\n…\n"


class Plain:
    """The plain forms of one answer, from which baselines cut."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.json = answer.entry.data.decode()

    @cached_property
    def rows(self) -> Sequence[str] | None:
        """The lines of a table as CSV, the head first; None of what is no table."""
        if self._answer.form != "table":
            return None
        columns = self._answer.entry.columns or ()
        table = [
            [_cell(record.get(name)) for name in columns]
            for record in parsed(self._answer.entry.data)
        ]
        return [_line(columns), *map(_line, table)]

    @cached_property
    def text(self) -> str:
        """A text as it is, a document as JSON."""
        return str(parsed(self._answer.entry.data)) if self._answer.form == "text" else self.json


def _cell(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _line(cells: Sequence[str]) -> str:
    written = StringIO()
    csv.writer(written, lineterminator="").writerow(cells)
    return written.getvalue()


def head(plain: Plain, budget: Budget) -> str:
    """The rows of a table from the top; the start of a document or text."""
    rows = plain.rows
    if rows is None:
        return _start(plain.text, budget)
    return _as_many(rows, budget, lambda n: rows[1 : n + 1])


def head_and_tail(plain: Plain, budget: Budget) -> str:
    """As many rows, or half as many characters, from the start as from the end."""
    rows, text = plain.rows, plain.text
    if rows is None:
        if budget.fits(text):
            return text

        def ends(n: int) -> str:
            return text[:n] + _ELLIPSIS + text[len(text) - n :]

        return ends(_most(len(text) // 2, lambda n: budget.fits(ends(n))))

    def both(n: int) -> list[str]:
        return [*rows[1 : n - n // 2 + 1], *rows[len(rows) - n // 2 :]]

    return _as_many(rows, budget, both)


def json_cut(plain: Plain, budget: Budget) -> str:
    """The JSON of the answer, cut at a number of characters."""
    return _start(plain.json, budget)


def spaced(plain: Plain, budget: Budget) -> str:
    """Evenly spaced rows of a table, both ends among them; of others, the start."""
    rows = plain.rows
    if rows is None:
        return _start(plain.text, budget)
    last = len(rows) - 2

    def every(n: int) -> list[str]:
        places = [round(at * last / (n - 1)) for at in range(n)] if n > 1 else [0] * n
        return [rows[place + 1] for place in places]

    return _as_many(rows, budget, every)


BASELINES: Mapping[str, Callable[[Plain, Budget], str]] = {
    "head": head,
    "head and tail": head_and_tail,
    "JSON cut": json_cut,
    "spaced rows": spaced,
}


def _as_many(rows: Sequence[str], budget: Budget, choose: Callable[[int], Sequence[str]]) -> str:
    """The head and as many rows as fit; only the start of a head that does not fit."""
    if not budget.fits(rows[0]):
        return _start(rows[0], budget)

    def made(n: int) -> str:
        return "\n".join([rows[0], *choose(n)])

    return made(_most(len(rows) - 1, lambda n: budget.fits(made(n))))


def _start(text: str, budget: Budget) -> str:
    return text[: _most(len(text), lambda n: budget.fits(text[:n]))]


def _most(whole: int, fits: Callable[[int], bool]) -> int:
    """The greatest number up to `whole` that fits: doubled first, so that no long text is counted,
    then by halves.
    """
    low, high = 0, 1
    while high < whole and fits(high):
        low, high = high, 2 * high
    high = min(high, whole)
    if fits(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
