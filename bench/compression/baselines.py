"""Plain ways to shorten an answer to a budget, which do not know the question."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from bench.compression.case import Answer
from bench.compression.tables import parsed
from gateway.compress.budget import Budget
from gateway.tables.conversion import to_csv

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
        entry = self._answer.entry
        return to_csv(parsed(entry.data), entry.columns or ()).removesuffix("\r\n").split("\r\n")

    @cached_property
    def text(self) -> str:
        """A text as it is, a document as JSON."""
        return str(parsed(self._answer.entry.data)) if self._answer.form == "text" else self.json


def head_and_tail(plain: Plain, budget: Budget) -> str:
    """As many rows, or half as many characters, from the start as from the end."""
    text, rows = plain.text, plain.rows
    if rows is None:
        if budget.fits(text):
            return text
        return _most(len(text) // 2, budget, lambda n: text[:n] + _ELLIPSIS + text[len(text) - n :])
    if not budget.fits(rows[0]):
        return _start(rows[0], budget)

    def both(n: int) -> str:
        return "\n".join([*rows[: n - n // 2 + 1], *rows[len(rows) - n // 2 :]])

    return _most(len(rows) - 1, budget, both)


def json_cut(plain: Plain, budget: Budget) -> str:
    """The JSON of the answer, cut at a number of characters."""
    return _start(plain.json, budget)


BASELINES: Mapping[str, Callable[[Plain, Budget], str]] = {
    "head and tail": head_and_tail,
    "JSON cut": json_cut,
}


def _start(text: str, budget: Budget) -> str:
    return _most(len(text), budget, lambda n: text[:n])


def _most(whole: int, budget: Budget, made: Callable[[int], str]) -> str:
    """What is made of the greatest number up to `whole` that fits: doubled first, so that no long
    text is counted, then by halves.
    """
    low, high = 0, 1
    while high < whole and budget.fits(made(high)):
        low, high = high, 2 * high
    high = min(high, whole)
    if budget.fits(made(high)):
        return made(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if budget.fits(made(middle)) else (low, middle)
    return made(low)
