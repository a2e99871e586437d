"""The most that episodes may request of a model: what agents and judges say of themselves.

Texts are counted in bytes of UTF-8. A tokenizer makes at most one token of a byte, so as many
tokens are a bound, whatever the model; of most texts a token is about four bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
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

    Without `is_bound` an estimate is wanted: a turn is asked for once, and a character is a byte.
    """

    task: Task
    rounds: int
    calls: int
    tools_bytes: int = 0
    output_bytes: int | None = None
    opening: Mapping[str, Any] | None = None
    is_bound: bool = True

    def estimated(self) -> "Within":
        """The same for an estimate, in which a round has one call."""
        output = self.output_bytes and self.output_bytes // BYTES_A_CHARACTER
        calls = min(self.calls, self.rounds)
        return replace(self, calls=calls, output_bytes=output, is_bound=False)

    @property
    def asks_a_turn(self) -> int:
        """How often a turn is asked for: again after an empty answer."""
        return 2 if self.is_bound else 1

    @property
    def played_rounds(self) -> int:
        """The most rounds with a call."""
        return min(self.rounds, self.calls)

    def read_bytes(self, own: int) -> int:
        """The most bytes that a call adds to a conversation, if its agent reads `own` characters of
        an output unless the run says otherwise.
        """
        if not self.is_bound:
            return (self.output_bytes or own) + CALL_BYTES
        return max(self.output_bytes or own * BYTES_A_CHARACTER, ERROR_BYTES) + CALL_BYTES


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
class Amounts:
    """Requests, their tokens and the money of these; None where that is not known."""

    requests: int
    input_tokens: int | None
    output_tokens: int | None
    money: float | None

    @classmethod
    def together(cls, amounts: Iterable["Amounts"]) -> "Amounts":
        """The sum; None where one is None."""

        def total(values: Iterable[float | None]) -> Any:
            known = [*values]
            return None if None in known else sum(one for one in known if one is not None)

        columns = [*zip(*map(astuple, amounts), strict=True)] or [()] * 4
        return cls(*map(total, columns))


@dataclass(frozen=True, slots=True)
class ModelBound:
    """What a run requests of one model: at most, and by an estimate. `attempts` are at most those
    of all requests if each is sent again as often as it may be. `why` says what lacks where tokens
    or money are None.
    """

    whose: str
    model: str
    most: Amounts
    attempts: int
    estimate: Amounts
    currency: str | None = None
    why: list[str] = field(default_factory=list)

    @staticmethod
    def together(bounds: Sequence["ModelBound"]) -> tuple[Amounts, Amounts, str | None]:
        """The sums of the bounds and of the estimates, and their currency; without money where
        there are two.
        """
        most = Amounts.together(bound.most for bound in bounds)
        estimate = Amounts.together(bound.estimate for bound in bounds)
        currencies = {bound.currency for bound in bounds}
        if len(currencies) > 1:
            return replace(most, money=None), replace(estimate, money=None), None
        return most, estimate, next(iter(currencies), None)
