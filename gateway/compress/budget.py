"""How long a shortened answer may be, in tokens of a real vocabulary or in characters, and how long
making it may take.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from threading import Event
from typing import Literal, get_args

Encoding = Literal["o200k_base", "cl100k_base"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
DEFAULT_ENCODING: Encoding = "o200k_base"

LIMITS = {"tokens": (50, 100_000), "chars": (200, 400_000)}
"""The least and the greatest budget of a call. In less than the least an answer would be nothing
but the note of what is left out.
"""


LONG = 2**18
"""Characters that are counted at a time: no other thread of the process runs meanwhile (12 ms)."""


class BudgetError(ValueError):
    """A budget that can't be kept; the text says which one can."""


@dataclass(frozen=True, slots=True)
class Budget:
    """At most `limit` tokens of `encoding`, or at most `limit` characters.

    Raises `BudgetError` for a limit that is too small and for an unknown encoding.
    """

    limit: int
    unit: Literal["tokens", "chars"] = "tokens"
    encoding: Encoding = DEFAULT_ENCODING

    def __post_init__(self) -> None:
        least, _ = LIMITS[self.unit]
        if self.limit < least:
            raise BudgetError(f"a budget has at least {least} {self.unit}, not {self.limit}")
        if self.encoding not in ENCODINGS:
            allowed = ", ".join(ENCODINGS)
            raise BudgetError(f"no encoding is named {self.encoding!r}; there are: {allowed}")

    def size(self, text: str) -> int:
        """The tokens, or characters, of a text; of one over `LONG` those of its pieces. Raises
        `TimeoutError` as `check_time` does.
        """
        check_time()
        if self.unit == "chars":
            return len(text)
        if len(text) > LONG:
            return sum(self.size(text[at : at + LONG]) for at in range(0, len(text), LONG))
        return self.tokens(text)

    def tokens(self, text: str) -> int:
        """The tokens of a text, whatever the unit is; 50 ns a byte. The first time it loads the
        vocabulary.
        """
        load(self.encoding)
        return _COUNTERS[self.encoding](text)

    @property
    def most_bytes(self) -> int:
        """Longer texts, in bytes of UTF-8, can't fit: hardly a token has more than 40."""
        return 40 * self.limit

    def fits(self, text: str) -> bool:
        """Whether a text is within the budget. Raises `TimeoutError` as `check_time` does."""
        check_time()
        if self.unit == "chars":
            return len(text) <= self.limit
        if len(text) > self.most_bytes:
            return False
        return (text.isascii() and len(text) <= self.limit) or self.tokens(text) <= self.limit


OVER: ContextVar[Event | None] = ContextVar("over", default=None)
"""Is set once nobody waits any more for the work in a thread."""


def check_time() -> None:
    """Raises `TimeoutError` once the work is `OVER`. A thread can't be ended from outside, so
    whatever may take long calls this every few milliseconds.
    """
    over = OVER.get()
    if over is not None and over.is_set():
        raise TimeoutError


budget_of = lru_cache(1_024)(Budget)
"""The same budget for the same arguments: making one costs a tenth of a cached call."""


_COUNTERS: dict[Encoding, Callable[[str], int]] = {}


def load(encoding: Encoding) -> None:
    """Load a vocabulary and what shortens, unless they are loaded. That takes up to 0.2 s, in which
    no other thread of the process runs, and 70 MB; so a server loads them before it is ready.
    """
    if encoding not in _COUNTERS:
        import_module("gateway.compress.answer")
        tokenizers = import_module("rs_bpe.bpe").openai  # has no types
        _COUNTERS[encoding] = getattr(tokenizers, encoding)().count


def is_loaded(encoding: Encoding) -> bool:
    return encoding in _COUNTERS
