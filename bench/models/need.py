"""The most that episodes may request of a model: what agents and judges say of themselves.

Texts are counted in bytes of UTF-8. A tokenizer makes at most one token of a byte, so as many
tokens are a bound, whatever the model; of most texts a token is about four bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from bench.task import Task

BYTES_A_CHARACTER = 4

ERROR_BYTES = 2_000
"""The longest text by which a model is told of a failed call."""

CALL_BYTES = 500
"""What a call adds to a conversation beside its arguments and its output: ids, names, braces."""


@dataclass(frozen=True, slots=True)
class Within:
    """What bounds the requests of one episode: its task, the limits of rounds and calls, the bytes
    of its offered tools as JSON, and those of an output as the agent reads it, None for as many as
    the agent says. `opening` are the arguments that open its environment, None without one.
    """

    task: Task
    rounds: int
    calls: int
    tools_bytes: int = 0
    output_bytes: int | None = None
    opening: Mapping[str, Any] | None = None

    @property
    def played_rounds(self) -> int:
        """The most rounds with a call."""
        return min(self.rounds, self.calls)

    def read_bytes(self, own: int) -> int:
        """The most bytes that a call adds to a conversation, if its agent reads `own` characters of
        an output unless the run says otherwise.
        """
        output = self.output_bytes or own * BYTES_A_CHARACTER
        return max(output, ERROR_BYTES) + CALL_BYTES


@dataclass(frozen=True, slots=True)
class ModelNeed:
    """At most so many requests, with so many bytes of text in all; None for no known bound. So
    many answers of the agent's model, each of `max_tokens`, are in them besides.
    """

    requests: int = 0
    text_bytes: int | None = 0
    answers: int = 0

    def __add__(self, other: "ModelNeed") -> "ModelNeed":
        known = self.text_bytes is not None and other.text_bytes is not None
        return ModelNeed(
            self.requests + other.requests,
            (self.text_bytes or 0) + (other.text_bytes or 0) if known else None,
            self.answers + other.answers,
        )

    def times(self, n: int) -> "ModelNeed":
        size = None if self.text_bytes is None else self.text_bytes * n
        return ModelNeed(self.requests * n, size, self.answers * n)


def size(*texts: str) -> int:
    """The bytes of texts."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def json_size(value: object) -> int:
    """The bytes of a value as JSON, as a judge reads it."""
    return len(orjson.dumps(value))


MESSAGE_BYTES = 200
"""What a request adds to its texts: the marks between messages, roles, and the like."""


@dataclass(frozen=True, slots=True)
class ModelBound:
    """At most what a run requests of one model. `attempts` are those of all requests if each is
    sent again as often as it may be. Tokens are None without a bound, and `why` says what lacks.
    """

    whose: str
    model: str
    requests: int
    attempts: int
    input_tokens: int | None
    output_tokens: int | None
    money: float | None = None
    currency: str | None = None
    why: list[str] = field(default_factory=list)
