"""The agent protocol: given a task and what happened so far, the next calls or the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bench.client import Reply
from bench.suite import Task


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that an agent wants made."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent does next: calls (made at once, as one round), or, without any, its answer."""

    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    response: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """A turn and what its calls brought."""

    turn: Turn
    replies: tuple[Reply, ...]


class Agent(Protocol):
    """Serves many episodes at once, so it keeps what belongs to one in its history only."""

    name: str

    async def act(self, task: Task, repeat: int, history: Sequence[Round]) -> Turn:
        """The next turn of the episode (`task`, `repeat`). May raise; that ends the episode."""
        ...
