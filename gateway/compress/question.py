"""What a question asks of a table: dates, extremes, comparisons, and how many of the newest rows.

Questions are in English or Chinese. Only forms that can mean nothing else are read; whatever is
not understood costs nothing but a less useful choice of rows.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from gateway.compress.dates import Period, Span, counted_of, spans_of
from gateway.compress.measures import Comparison, Extreme, comparisons_of, extremes_of
from gateway.compress.numerals import in_digits

LONGEST = 1_000
"""How much of a question is read, in characters: of a longer one the start and the end. Patterns
may take the square of this, and hold the process meanwhile.
"""

ASKED = 8
"""The most spans, comparisons or extremes of a question: each is looked for in every row."""

_CLOCK = re.compile(r"(?<![\d:])0?((?:1?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?)(?![\d:])")


@dataclass(frozen=True, slots=True)
class Question:
    """A question that was read. `spans` are days with a year, `yearless` days of the newest year
    that has them, `periods` days that are counted from the newest row. `newest` and `oldest` are
    how many of these rows it asks for. `clocks` are times of day. `text` is the question in lower
    case, with numbers of days and years in digits.
    """

    text: str
    spans: tuple[Span, ...] = ()
    yearless: tuple[Span, ...] = ()
    periods: tuple[Period, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    extremes: tuple[Extreme, ...] = ()
    clocks: tuple[str, ...] = ()
    newest: int = 0
    oldest: int = 0

    @property
    def of_falls(self) -> bool:
        return any(e.of_falls for e in self.extremes) or any(c.of_falls for c in self.comparisons)

    @classmethod
    def of(cls, text: str) -> "Question":
        text = " ".join(text.split())
        half = LONGEST // 2
        return _read(text if len(text) <= LONGEST else f"{text[:half]} {text[-half:]}")


@lru_cache(256)
def _read(text: str) -> Question:
    low = in_digits(text.lower())
    spans, plain = spans_of(low)
    periods, newest, oldest, plain = counted_of(plain)
    return Question(
        low,
        spans=tuple(span for span in spans if span.has_year)[:ASKED],
        yearless=tuple(span for span in spans if not span.has_year)[:ASKED],
        periods=tuple(periods[:ASKED]),
        comparisons=tuple(islice(comparisons_of(plain), ASKED)),
        extremes=tuple(islice(extremes_of(plain), ASKED)),
        clocks=tuple(_CLOCK.findall(low))[:ASKED],
        newest=newest,
        oldest=oldest,
    )
