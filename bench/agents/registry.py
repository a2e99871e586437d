"""Agents by name: those of the project, and a user's own as `module:Name`."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bench.agents.agent import Agent
from bench.agents.declaration import (
    AgentParts,
    AgentSettingsError,
    AgentType,
    AnyAgentType,
    NoOptions,
)
from bench.agents.function import FORM, function_type
from bench.models.client import ErrorStreak
from bench.models.settings import ModelSettings
from bench.own import OwnError, is_own, lacking, load, words_of
from gateway.pipeline.bind import masked
from manifests import Catalog
from manifests.common.problem import first_problem

AGENTS: Mapping[str, str] = {
    "scripted": "bench.agents.scripted:SCRIPTED",
    "replay": "bench.agents.replay:REPLAY",
    "solver": "bench.agents.solver:SOLVER",
    "llm": "bench.agents.llm:LLM",
    "fatr": "bench.agents.fatr:FATR",
    "buy-and-hold": "bench.agents.market:BUY_AND_HOLD",
    "random": "bench.agents.market:RANDOM",
    "momentum": "bench.agents.market:MOMENTUM",
    "finmem": "bench.agents.finmem:FINMEM",
}
TOP_K = 20
"""How many tools an agent that reads answers is offered, as in FinToolBench."""


def agent_named(name: str) -> AnyAgentType:
    """The agent of that name. Raises `AgentSettingsError`."""
    if not is_own(name) and name not in AGENTS:
        allowed = ", ".join(AGENTS)
        text = f"no agent is named {name!r}; there are: {allowed}, or `module:Name`"
        raise AgentSettingsError(text)
    of_function = name.startswith(FORM)
    try:
        found = load(AGENTS.get(name, name.removeprefix(FORM)))
    except OwnError as error:
        raise AgentSettingsError(f"agent {error}") from error
    if of_function:
        if not callable(found):
            text = "it is no factory, a function without arguments that gives the agent"
            raise AgentSettingsError(f"agent {name}: {text}")
        return function_type(name.removeprefix(FORM), found)
    if isinstance(found, AgentType):
        if not is_dataclass(found.options):
            raise AgentSettingsError(f"agent {name}: its `options` are no dataclass")
        return found
    if not callable(found):
        raise AgentSettingsError(f"agent {name}: it is neither an AgentType nor a class")
    make = found
    return AgentType(name, "", lambda _options, _parts: make(), NoOptions)


def option_names(kind: AnyAgentType) -> frozenset[str]:
    """The names of the agent's options."""
    return frozenset(field.name for field in fields(kind.options))


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The agent, its options as its type declares them, and the model if it needs one."""

    name: str
    type: AnyAgentType
    options: Any
    seed: int = 0
    model: ModelSettings | None = None

    @classmethod
    def of(
        cls,
        name: str = "scripted",
        options: Mapping[str, Any] = MappingProxyType({}),
        *,
        seed: int = 0,
        model: ModelSettings | None = None,
    ) -> "AgentSettings":
        """Raises `AgentSettingsError` for an unknown agent, invalid options or a missing model."""
        kind = agent_named(name)
        known = option_names(kind)
        if unknown := sorted(options.keys() - known):
            allowed = f"; there are: {', '.join(sorted(known))}" if known else ""
            raise AgentSettingsError(f"the agent {name} has no option {unknown[0]!r}{allowed}")
        try:
            made = TypeAdapter(kind.options).validate_python(dict(options))
        except ValidationError as error:
            raise AgentSettingsError(f"the agent {name}: {first_problem(error)}") from error
        if kind.needs_model and model is None:
            raise AgentSettingsError(f"the agent {name} wants --model and --base-url")
        return cls(name, kind, made, seed, model if kind.needs_model else None)

    def about(self) -> dict[str, Any]:
        """The settings that must be equal in a comparable run, for `run.json`."""
        options = TypeAdapter(self.type.options).dump_python(self.options, mode="json")
        model = self.model.about() if self.model else {}
        if options and is_own(self.name):
            options = {"agent_options": masked(options)}
        head = {"agent": self.name, "agent_is_simulated": self.type.is_simulated}
        return {**head, **model, **options, "seed": self.seed}


@asynccontextmanager
async def open_agent(
    settings: AgentSettings,
    catalog: Catalog,
    *,
    is_forecast: bool = False,
    streak: ErrorStreak | None = None,
) -> AsyncIterator[Agent]:
    """The agent, for as long as the context is open; requests to its model are noted in `streak`.
    Raises `AgentSettingsError`.
    """
    async with AsyncExitStack() as parts:
        model = None
        if settings.model is not None:
            model = await parts.enter_async_context(settings.model.open(streak=streak))
        made_of = AgentParts(catalog, settings.seed, model, is_forecast)
        try:
            made = settings.type.make(settings.options, made_of)
            agent: Agent = (await made) if inspect.isawaitable(made) else made
            problem = lacking(agent, "act")
        except (KeyboardInterrupt, asyncio.CancelledError, AgentSettingsError):
            raise
        except BaseException as error:  # noqa: BLE001 - a user's constructor may raise anything
            is_plain = isinstance(error, TypeError | ValueError)
            problem = str(error) if is_plain else words_of(error)
        if problem:
            raise AgentSettingsError(f"agent {settings.name}: {problem}")
        yield agent
