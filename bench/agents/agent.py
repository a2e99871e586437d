"""The agent protocol: given a task, the offered tools and the history, the next calls or the
answer. What an agent gives is checked before anything is made of it.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.client import Reply
from bench.record import Ending, ModelCallRecord
from bench.task import Task
from manifests import Manifest

LONGEST_TEXT = 2**20
"""Characters of an answer, and of what is said beside it: of more, writing it down alone would hold
the event loop for several milliseconds.
"""

_CALLS, _TEXT_OR_NONE = (tuple, list), (str, type(None))


class TurnError(Exception):
    """What an agent gave is no turn; the text says what would be."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that an agent wants made. One with a `problem` (arguments that are not JSON, say) is
    recorded and answered with it, and goes nowhere.
    """

    tool: str
    arguments: dict[str, Any]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent does next: calls (made at once, as one round), or, without any, its answer.

    `response` is what it said besides. `ending` says how an answer was meant.
    """

    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    response: str = ""
    ending: Ending = Ending.ANSWER


@dataclass(frozen=True, slots=True)
class Round:
    """A turn and what its calls brought. An agent that reads a reply shortened sets `observed` at
    the place of that reply to what it reads.
    """

    turn: Turn
    replies: tuple[Reply, ...]
    observed: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Episode:
    """One episode as its agent sees it.

    `tools` are those that it is offered. With no `rounds_left` calls end the episode as an error,
    so it is time to answer. The agent notes each request to a model in `model_calls`, also one that
    failed, and may keep what it wants in `memory`.
    """

    task: Task
    repeat: int
    tools: tuple[Manifest, ...] = ()
    rounds_left: int = 5
    history: list[Round] = field(default_factory=list)
    model_calls: list[ModelCallRecord] = field(default_factory=list)
    memory: Any = None


class Agent(Protocol):
    """Serves many episodes at once, so it keeps what belongs to one in that episode only.

    An agent of a user's own is a class with this protocol whose constructor takes no arguments;
    it is named `module:Class`.
    """

    name: str

    async def act(self, episode: Episode) -> Turn:
        """The next turn. May raise, which ends the episode: `ModelError` for its model's fault,
        anything else for its own.
        """
        ...


def checked(turn: object) -> Turn:
    """`turn`, if it is one. Raises `TurnError`."""
    if not isinstance(turn, Turn):
        raise TurnError(f"`act` gave {_kind(turn)} where a Turn belongs")
    _check_text("answer", turn.answer)
    _check_text("response", turn.response)
    if not isinstance(turn.ending, Ending) or turn.ending.is_error:
        raise TurnError("a turn ends as Ending.ANSWER, REFUSAL or EMPTY")
    if not isinstance(turn.calls, _CALLS):
        raise TurnError(f"the calls of a turn are a tuple, not {_kind(turn.calls)}")
    for call in turn.calls:
        _check_call(call)
    return turn


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise TurnError(f"the {name} of a turn is a text, not {_kind(text)}")
    if len(text) > LONGEST_TEXT:
        raise TurnError(f"the {name} of a turn has {len(text)} characters, over {LONGEST_TEXT}")


def _check_call(call: object) -> None:
    if not isinstance(call, ToolCall):
        raise TurnError(f"{_kind(call)} stands where a ToolCall belongs")
    if not isinstance(call.tool, str) or not isinstance(call.problem, _TEXT_OR_NONE):
        raise TurnError("the tool and the problem of a call are texts")
    if not isinstance(call.arguments, dict) or not all(isinstance(n, str) for n in call.arguments):
        raise TurnError(f"{call.tool[:64]}: the arguments of a call are a dict of names to values")


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
