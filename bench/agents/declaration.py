"""An agent's declaration, through which all other code uses the agent without naming it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bench.agents.agent import Agent
from bench.models.client import ModelClient
from bench.models.need import ModelNeed, Within
from manifests import Catalog


class AgentSettingsError(Exception):
    """No agent has this name, or it can't be made with these settings; the text says why."""


@dataclass(frozen=True, slots=True)
class AgentParts:
    """What an agent may be made of beside its options. `model` is set for an agent that needs one.
    In a forecast its calls are counted and not made, so it need not pause.
    """

    catalog: Catalog
    seed: int
    model: ModelClient | None
    is_forecast: bool = False

    @property
    def needed_model(self) -> ModelClient:
        """The model, for an agent that needs one."""
        assert self.model is not None  # noqa: S101 - its type requires a model
        return self.model


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of an agent that has none."""


Options = TypeVar("Options")


@dataclass(frozen=True, slots=True)
class AgentType(Generic[Options]):
    """One kind of agent. A user's own is such an object, or a class whose constructor takes no
    arguments, named `module:Name`.

    `options` is a frozen dataclass with a default for each of its fields. An agent that reads no
    answers makes the same calls whatever tools and answers it gets. So it is offered no tools, and
    its run can be forecast. `make` may raise `AgentSettingsError`. `need` says the most that an
    episode requests of the model, if that is known.
    """

    name: str
    text: str
    make: Callable[[Options, AgentParts], Agent | Awaitable[Agent]]
    options: type[Options]
    needs_model: bool = False
    reads_answers: bool = True
    is_simulated: bool = False
    need: Callable[[Options, Within], ModelNeed] | None = None


AnyAgentType = AgentType[Any]
