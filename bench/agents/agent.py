"""The agent protocol: from a task, the offered tools and the history to the next calls or the
answer. What an agent returns is checked before it is used.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.record import Ending, ModelCallRecord, ToolCallRecord
from bench.task import Task
from gateway import Result
from manifests import Manifest

LONGEST_TEXT = 2**20
"""The longest answer and the longest text beside it, in characters. Writing a longer one would hold
the event loop for several milliseconds.
"""


class TurnError(Exception):
    """An agent returned something that is not a valid turn; the text says what would be."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that an agent requests. A call with a `problem` (say, arguments that are not JSON) is
    recorded and answered with the problem, and is not made.
    """

    tool: str
    arguments: dict[str, Any]
    problem: str | None = None


@dataclass(slots=True)
class Turn:
    """What an agent does next: calls (made at once, as one round), or its answer if it has none.

    `response` is what it said besides. `ending` says whether that is an answer, a refusal or empty.
    """

    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    response: str = ""
    ending: Ending = Ending.ANSWER


@dataclass(slots=True)
class Round:
    """A turn and the replies to its calls. An agent that reads a reply in shortened form puts the
    text that it reads into `observed`, under the index of that reply.
    """

    turn: Turn
    replies: tuple[Result, ...]
    observed: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Episode:
    """One episode as its agent sees it.

    `tools` are those that it is offered. `step` is the number of the round to be played, from 1.
    With no `rounds_left`, calls end the episode as an error, so the agent should answer. The agent
    notes each request to a model in `model_calls`, also a failed one, and may keep anything in
    `memory`. In an environment `moves` are the calls that made the state of its session, up to the
    end of the last day, also those of an interrupted part; elsewhere it is None.
    """

    task: Task
    repeat: int
    tools: tuple[Manifest, ...] = ()
    rounds_left: int = 5
    history: list[Round] = field(default_factory=list)
    model_calls: list[ModelCallRecord] = field(default_factory=list)
    memory: Any = None
    step: int = 1
    moves: tuple[ToolCallRecord, ...] | None = None


class Agent(Protocol):
    """Serves many episodes at once, so it keeps the state of an episode in that episode only.

    A user's own agent is a class with this protocol whose constructor takes no arguments; it is
    named `module:Class`. If it has a number `output_chars`, the answers to its calls are texts of
    at most so many characters, shortened to what the task's question needs (`Result.text`). If
    `goes_on` is true, it can begin in the middle of an environment: an interrupted episode then
    goes on after its last day, with an empty history.
    """

    name: str

    async def act(self, episode: Episode) -> Turn:
        """The next turn. An exception ends the episode: `ModelError` for a fault of its model, any
        other for a fault of its own.
        """
        ...


def checked(turn: object) -> Turn:
    """`turn`, if it is a valid turn. Raises `TurnError`."""
    if not isinstance(turn, Turn):
        raise TurnError(f"`act` gave {_kind(turn)} where a Turn belongs")
    for name in ("answer", "response"):
        text = getattr(turn, name)
        if not isinstance(text, str):
            raise TurnError(f"the {name} of a turn is a text, not {_kind(text)}")
        if len(text) > LONGEST_TEXT:
            raise TurnError(f"the {name} of a turn has {len(text)} characters, over {LONGEST_TEXT}")
    if turn.ending not in _ENDINGS:
        raise TurnError("a turn ends as Ending.ANSWER, REFUSAL or EMPTY")
    if not isinstance(turn.calls, tuple | list):
        raise TurnError(f"the calls of a turn are a tuple, not {_kind(turn.calls)}")
    for call in turn.calls:
        if not isinstance(call, ToolCall):
            raise TurnError(f"{_kind(call)} stands where a ToolCall belongs")
        if not isinstance(call.tool, str) or not isinstance(call.problem, str | None):
            raise TurnError("the tool and the problem of a call are texts")
        names = call.arguments if isinstance(call.arguments, dict) else (None,)
        if not {*map(type, names)} <= {str} and not all(isinstance(n, str) for n in names):
            text = "the arguments of a call are a dict of names to values"
            raise TurnError(f"{call.tool[:64]}: {text}")
    return turn


_ENDINGS = (Ending.ANSWER, Ending.REFUSAL, Ending.EMPTY)


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
