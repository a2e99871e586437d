"""What an agent says of itself, so that all others ask it and name none."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bench.agents.agent import Agent
from bench.models.client import ModelClient
from manifests import Catalog


class AgentSettingsError(Exception):
    """There is no such agent, or it can't be made of these settings; the text says why."""


@dataclass(frozen=True, slots=True)
class AgentParts:
    """What an agent may be made of beside its options. There is a `model` for one that needs one.
    In a forecast its calls are counted and none is made, so it need not take its time.
    """

    catalog: Catalog
    seed: int
    model: ModelClient | None
    is_forecast: bool = False


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Those of an agent that has none."""


Options = TypeVar("Options")


@dataclass(frozen=True, slots=True)
class AgentType(Generic[Options]):
    """One kind of agent. A user's own is such an object, or a class whose constructor takes no
    arguments, named `module:Name`.

    `options` is a frozen dataclass with a default for each of its fields. One that reads no answers
    makes the same calls whatever it is offered or told: it is offered no tools, and its run can be
    forecast. `make` may raise `AgentSettingsError`.
    """

    name: str
    text: str
    make: Callable[[Options, AgentParts], Agent | Awaitable[Agent]]
    options: type[Options]
    needs_model: bool = False
    reads_answers: bool = True
    is_simulated: bool = False


AnyAgentType = AgentType[Any]
