"""The options of a call beside its tool and arguments."""

from dataclasses import dataclass, replace

from cache import CacheControl
from gateway.compress.budget import LIMITS
from gateway.grant import Grant

CLIENT = "X-Finport-Client"
"""Header in which callers over HTTP identify themselves (`CallContext.client`)."""


QUESTION_CHARS = 4_000
"""The longest question."""

QUERY_CHARS = 640
"""The longest question in a query: the head of a request has 8 KiB, a character up to 12 bytes."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """The options of one call.

    `deadline_s` shortens the time for the whole call. `max_rows` is how many rows to return.
    `cache` says which cached answers are acceptable; answers of a snapshot are returned whatever it
    says. `max_tokens` or `max_chars` shorten the answer to a text within that budget, with what
    `question` asks for (`gateway.compress`). `client` names the caller: no client's calls starve
    another's. `grant` says which tools it may use, if that differs from the settings. `episode` and
    `step` say in the record on whose behalf the call was made. `traceparent` (W3C Trace Context)
    says within which span it was made. Raises `ValueError` for a deadline or a number of rows that
    is not positive, and for a budget that can't be kept.
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

    def __post_init__(self) -> None:
        if self.deadline_s is not None and not self.deadline_s > 0:
            raise ValueError(f"deadline_s must be above 0, not {self.deadline_s}")
        if self.max_rows is not None and self.max_rows < 1:
            raise ValueError(f"max_rows must be 1 or more, not {self.max_rows}")
        if self.cache is not None and not isinstance(self.cache, CacheControl):
            raise TypeError(f"cache must be a CacheControl, not {type(self.cache).__name__}")
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


DEFAULT_CONTEXT = CallContext()
