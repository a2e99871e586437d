"""The options of a call beside its tool and arguments."""

from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from types import NoneType
from typing import Literal

from cache import CacheControl
from gateway.compress.budget import LIMITS
from gateway.grant import Grant

CLIENT = "X-Finport-Client"
"""Header in which callers over HTTP identify themselves (`CallContext.client`)."""


QUESTION_CHARS = 4_000
"""The longest question."""

QUERY_CHARS = 640
"""The longest question in a query: the head of a request has 8 KiB, a character up to 12 bytes."""


StandInUse = Literal["never", "allow"]
"""Whether another source may answer while a tool's own source fails."""


@dataclass(slots=True, unsafe_hash=True)  # frozen would take three times as long to make
class CallContext:
    """The options of one call, which is never changed.

    `deadline_s` shortens the time for the whole call. `max_rows` is how many rows to return.
    `cache` says which cached answers are acceptable; answers of a snapshot are returned whatever it
    says. `max_tokens` or `max_chars` shorten the answer to a text within that budget, with what
    `question` asks for (`gateway.compress`); without a budget, of the call or by default, a
    question has no effect. `as_rows` asks for the rows of a table: then no budget applies by
    default. `client` names the caller: no client's calls starve another's. `grant` says which tools
    it may use, if that differs from the settings. `episode` and `step` say in the record on whose
    behalf the call was made. `traceparent` (W3C Trace Context) says within which span it was made.

    `stand_in` says whether another source may answer while the tool's own fails; without it, the
    settings do.

    Raises `ValueError` for a deadline or a number of rows that is not positive, for a budget that
    can't be kept and for a question that is too long, and `TypeError` for a value of another type.
    """

    deadline_s: float | None = None
    max_rows: int | None = None
    cache: CacheControl | None = None
    client: str = ""
    episode: str | None = None
    step: int | None = None
    grant: Grant | None = None
    traceparent: str | None = None
    max_tokens: int | None = None
    max_chars: int | None = None
    question: str = ""
    as_rows: bool = False
    stand_in: StandInUse | None = None

    def __post_init__(self) -> None:
        if (problem := _mistyped(tuple(map(type, _values(self))))) is not None:
            raise TypeError(problem)
        if self.deadline_s is not None and not self.deadline_s > 0:
            raise ValueError(f"deadline_s must be above 0, not {self.deadline_s}")
        if self.max_rows is not None and self.max_rows < 1:
            raise ValueError(f"max_rows must be 1 or more, not {self.max_rows}")
        if self.stand_in not in (None, "never", "allow"):
            raise ValueError(f"stand_in must be never or allow, not {self.stand_in!r}")
        if self.max_tokens is not None or self.max_chars is not None or self.question:
            self._check_budget()

    def _check_budget(self) -> None:
        if self.max_tokens is not None and self.max_chars is not None:
            raise ValueError("a budget is in max_tokens or in max_chars, not in both")
        for name, given in (("max_tokens", self.max_tokens), ("max_chars", self.max_chars)):
            least, most = LIMITS[name.removeprefix("max_")]
            if given is not None and not least <= given <= most:
                raise ValueError(f"{name} must be from {least} to {most}, not {given}")
        if len(self.question) > QUESTION_CHARS:
            raise ValueError(f"a question has at most {QUESTION_CHARS} characters")

    @property
    def is_shortened(self) -> bool:
        """Whether the answer is wanted within a budget."""
        return self.max_tokens is not None or self.max_chars is not None

    def asking(self, max_rows: int | None, deadline_s: float | None = None) -> "CallContext":
        return replace(self, max_rows=max_rows, deadline_s=deadline_s or self.deadline_s)

    def within(self, traceparent: str) -> "CallContext":
        return replace(self, traceparent=traceparent)


_WHOLE, _TEXT = (int, NoneType), (str, NoneType)
_TYPES: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("deadline_s", (int, float, NoneType), "a number"),
    ("max_rows", _WHOLE, "a whole number"),
    ("cache", (CacheControl, NoneType), "a CacheControl"),
    ("client", (str,), "a text"),
    ("episode", _TEXT, "a text"),
    ("step", _WHOLE, "a whole number"),
    ("grant", (Grant, NoneType), "a Grant"),
    ("traceparent", _TEXT, "a text"),
    ("max_tokens", _WHOLE, "a whole number"),
    ("max_chars", _WHOLE, "a whole number"),
    ("question", (str,), "a text"),
    ("as_rows", (bool,), "a bool"),
    ("stand_in", _TEXT, "a text"),
)
_values = attrgetter(*(name for name, _, _ in _TYPES))


@lru_cache(maxsize=256)
def _mistyped(kinds: tuple[type, ...]) -> str | None:
    """What is wrong with values of these types, in the order of `_TYPES`; None if nothing is."""
    for kind, (name, wanted, words) in zip(kinds, _TYPES, strict=True):
        if kind not in wanted and (kind is bool or not issubclass(kind, wanted)):
            return f"{name} must be {words}, not {kind.__name__}"
    return None


DEFAULT_CONTEXT = CallContext()
