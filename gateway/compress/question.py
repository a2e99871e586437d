"""What a question asks of a table: dates, extremes, comparisons, and how many of the newest rows.

Questions are in English or Chinese. Only forms that can mean nothing else are read; whatever is
not understood costs nothing but a less useful choice of rows.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from gateway.compress.dates import dates_of
from gateway.compress.measures import (
    EXTREMES,
    Comparison,
    Extreme,
    comparisons_of,
    extremes_of,
)
from gateway.compress.numerals import in_digits
from gateway.compress.periods import Period, periods_of
from gateway.compress.spans import Recurring, Span

LONGEST = 1_000
"""How much of a question is read, in characters: of a longer one the start and the end. Patterns
may take the square of this, and hold the process meanwhile.
"""

ASKED = 8
"""The most spans, comparisons or extremes of a question: each is looked for in every row."""

_CLOCK = re.compile(r"(?<![\d:])(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\d:])")
_EVERY_YEAR = re.compile(r"\b(?:each|every|all) years?\b|\byears\b|每年|历年|各年")


@dataclass(frozen=True, slots=True)
class Question:
    """A question that was read. `newest` and `oldest` are how many of these rows it asks for, with
    `each` in each week, month, quarter or year. `periods` are days that are counted from the newest
    row, `recurring` days without a year: of the newest year, or if `every_year` of each. `clocks`
    are times of day. `text` is the question in lower case, with numbers of days and years in
    digits.
    """

    text: str
    spans: tuple[Span, ...] = ()
    periods: tuple[Period, ...] = ()
    recurring: tuple[Recurring, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    extremes: tuple[Extreme, ...] = ()
    clocks: tuple[str, ...] = ()
    newest: int = 0
    oldest: int = 0
    every_year: bool = False
    each: str = ""

    @property
    def moves(self) -> list[int]:
        """The places where it asks for rises or falls."""
        found = [one.place for one in self.extremes if one.move]
        return found + [one.place for one in self.comparisons if one.move]

    @classmethod
    def of(cls, text: str) -> "Question":
        text = " ".join(text.split())
        half = LONGEST // 2
        return _read(text if len(text) <= LONGEST else f"{text[:half]} {text[-half:]}")


@lru_cache(256)
def _read(text: str) -> Question:
    low = in_digits(text.lower())
    dates = dates_of(low)
    counted = periods_of(dates.plain, EXTREMES)
    return Question(
        low,
        spans=dates.spans[:ASKED],
        periods=counted.periods[:ASKED],
        recurring=dates.recurring[:ASKED],
        comparisons=tuple(islice(comparisons_of(counted.plain), ASKED)),
        extremes=tuple(islice(extremes_of(counted.plain), ASKED)),
        clocks=tuple(found.removeprefix("0") for found in _CLOCK.findall(low))[:ASKED],
        newest=counted.newest,
        oldest=counted.oldest,
        every_year=_EVERY_YEAR.search(low) is not None,
        each=counted.each,
    )
