"""Agents by name, and those of a user's own as `module:Class`."""

import importlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from anyio import to_thread

from bench.agents.agent import Agent
from bench.agents.scripted import ErrorRates, ScriptedAgent
from bench.environment import MODEL_KEY
from bench.models.endpoint_key import EndpointKey, key_for
from manifests import Catalog

AGENTS = ("scripted", "replay", "llm", "fatr")
WITH_MODEL = ("llm", "fatr")
TOP_K = 20
"""Tools that an agent with a model is offered, as in FinToolBench."""


class AgentSettingsError(Exception):
    """There is no such agent, or it can't be made of these settings; the text says why."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What agents are made of; each takes what is its own.

    `trace` is the run directory or trace file that `replay` plays. `base_url` and `model` name the
    model of `llm` and `fatr` (its key: `bench/models/endpoint_key.py`); `temperature` and
    `max_tokens` (of one answer) are the model's own where None. `stream` asks for answers in
    pieces, `inject` puts finance tags into the descriptions of tools, `hard_filter` drops
    candidates that can't meet the constraints that `fatr` inferred.
    """

    name: str = "scripted"
    seed: int = 0
    think_s: float = 0.0
    rates: ErrorRates = field(default_factory=ErrorRates)
    trace: Path | None = None
    model: str | None = None
    base_url: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stream: bool = False
    inject: bool = True
    hard_filter: bool = False

    def __post_init__(self) -> None:
        if self.name not in AGENTS and ":" not in self.name:
            allowed = ", ".join(AGENTS)
            text = f"no agent is named {self.name!r}; there are: {allowed}, or `module:Class`"
            raise AgentSettingsError(text)
        if self.name in WITH_MODEL and not (self.model and self.base_url):
            raise AgentSettingsError(f"the agent {self.name} wants --model and --base-url")
        if self.base_url and not is_plain_url(self.base_url):
            raise AgentSettingsError(
                "--base-url wants http://HOST:PORT/PATH or https://..., up to before "
                f"/chat/completions, without credentials or query; the key goes into {MODEL_KEY}"
            )
        if (self.name == "replay") != (self.trace is not None):
            raise AgentSettingsError(
                "--trace names what the agent replay plays, and is for it only"
            )

    @property
    def has_model(self) -> bool:
        return self.name in WITH_MODEL

    @property
    def key(self) -> EndpointKey:
        return key_for(self.base_url or "", MODEL_KEY)

    def about(self) -> dict[str, Any]:
        """What of it another run must equal to be comparable, for `run.json`."""
        told: dict[str, Any] = {"agent": self.name, "agent_is_simulated": self.name == "scripted"}
        if self.name == "scripted":
            told |= {"think_s": self.think_s, "error_rates": asdict(self.rates)}
        if self.name == "replay":
            told["trace"] = str(self.trace)
        if self.has_model:
            names = ("model", "base_url", "temperature", "max_tokens", "stream", "inject")
            told |= {name: getattr(self, name) for name in names}
            told["base_url"] = (self.base_url or "").rstrip("/")
            told["model_key"] = self.key.source
        if self.name == "fatr":
            told["hard_filter"] = self.hard_filter
        return {**told, "seed": self.seed}


def is_plain_url(text: str) -> bool:
    """Whether it is an HTTP URL in which no secret can stand."""
    try:
        url = urlsplit(text)
        is_whole = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False
    return is_whole and not {"@", "?", "#"}.intersection(text)


@asynccontextmanager
async def open_agent(settings: AgentSettings, catalog: Catalog) -> AsyncIterator[Agent]:
    """The agent, for as long as the context is open. Raises `AgentSettingsError`."""
    if settings.has_model:
        from bench.agents.fatr import FatrAgent
        from bench.agents.llm import LlmAgent
        from bench.models.client import ModelClient

        assert settings.model is not None  # noqa: S101 - checked when the settings were made
        assert settings.base_url is not None  # noqa: S101
        async with ModelClient.open(
            settings.base_url,
            settings.model,
            settings.key.secret,
            key_variable=settings.key.variable,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            seed=settings.seed,
            stream=settings.stream,
        ) as model:
            if settings.name == "llm":
                yield LlmAgent(model, inject=settings.inject)
            else:
                yield FatrAgent(model, inject=settings.inject, hard_filter=settings.hard_filter)
    elif settings.trace is not None:
        from bench.agents.replay import ReplayAgent

        yield await to_thread.run_sync(ReplayAgent.read, settings.trace)
    elif settings.name == "scripted":
        names = [manifest.name for manifest in catalog]
        think_s, rates = settings.think_s, settings.rates
        yield ScriptedAgent(names, seed=settings.seed, rates=rates, think_s=think_s)
    else:
        with _importable(os.getcwd()):
            yield _own(settings.name)


@contextmanager
def _importable(folder: str) -> Iterator[None]:
    """Modules in a folder can be imported while the context is open, also late; none of them takes
    the place of one that is installed.
    """
    sys.path.append(folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # an agent may have taken it out
            sys.path.remove(folder)


def _own(name: str) -> Agent:
    """An agent of the user's own."""
    module, _, attribute = name.partition(":")
    try:
        agent: Agent = getattr(importlib.import_module(module), attribute)()
    except KeyboardInterrupt:
        raise
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise AgentSettingsError(f"agent {name}: {error}") from error
    except BaseException as error:  # whatever its module or constructor does
        raise AgentSettingsError(f"agent {name}: {type(error).__name__}: {error}") from error
    if not callable(getattr(agent, "act", None)):
        raise AgentSettingsError(f"agent {name}: it has no method `act`")
    if not isinstance(getattr(agent, "name", None), str):
        raise AgentSettingsError(f"agent {name}: it has no `name`")
    return agent
