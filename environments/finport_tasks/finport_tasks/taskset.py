"""Finport's suites as a taskset, and their tasks."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

import verifiers.v1 as vf
from pydantic import Field, field_validator, model_validator

from bench.client import GatewayUnreachableError, HttpClient, Untraced
from bench.own_gateway import own_gateway
from bench.processes import ServerNotReadyError
from bench.rollouts import Rollouts, endless_tasks
from bench.suites import load_suite
from bench.suites.generated.answer import Answer
from bench.suites.suite import Suite
from bench.task import Task
from finport_tasks.scoring import RECORD, scored, suite_with
from finport_tasks.servers.tool import FinportState, FinportToolset, FinportToolsetConfig

HARNESS = "finport_tasks"
DIFFICULTIES = frozenset(range(1, 6))


@lru_cache(4096)
def _read(text: str) -> Task:
    return Task.model_validate_json(text)


class FinportData(vf.TaskData):
    """A task of a suite. `task` is Finport's own, as JSON without the fields that it leaves out."""

    suite: str
    task: str
    dataset: str | None = None
    key_variable: str | None = None


class FinportTaskConfig(vf.TaskConfig):
    """The gateway through which tasks reach their tools."""

    gateway: str | None = None
    """URL of a gateway; None for one of this process, over simulated upstreams."""
    key_variable: str | None = None
    """The environment variable that has the gateway's key."""
    max_rows: int | None = Field(None, ge=1)
    """Rows of a table in an answer; None for the gateway's own limit."""
    tools: FinportToolsetConfig = FinportToolsetConfig()
    """Where the package's own tool server runs, for tasks that need one."""

    @field_validator("gateway")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("gateway: a URL begins with http:// or https://")
        return value

    @field_validator("key_variable")
    @classmethod
    def _is_inherited(cls, value: str | None) -> str | None:
        if value is not None and "API_KEY" in value.upper():
            raise ValueError(
                f"key_variable: verifiers keeps {value} from its processes; "
                "name a variable without API_KEY in its name"
            )
        return value

    @property
    def key(self) -> str | None:
        """The gateway's key. Raises `ValueError` where the variable is not set."""
        if self.key_variable is None:
            return None
        if not (key := os.environ.get(self.key_variable)):
            raise ValueError(f"key_variable: the variable {self.key_variable} is not set")
        return key


class FinportTask(vf.Task[FinportData, FinportState, FinportTaskConfig]):
    """Plays through a gateway; its reward and metrics are the figures of Finport's own suite."""

    @property
    def key(self) -> str:
        """The task's id in its suite, which no order of loading changes."""
        return f"{self.data.suite}/{self.data.id}"

    @property
    def task(self) -> Task:
        return _read(self.data.task)

    async def gateway(self) -> str:
        """The URL of the gateway. Raises `ToolsetError`, and `SuiteError` if the tools of the
        gateway are not those of the suite.
        """
        suite = suite_with(self.data.suite, self.task, self.data.dataset)
        if self.config.gateway is not None:
            url = self.config.gateway.rstrip("/")
            await _check(url, self.config.key, suite)
            return url
        try:
            return await own_gateway(suite).url()
        except (ServerNotReadyError, TimeoutError) as error:
            raise vf.ToolsetError(f"outage: the gateway did not start: {error}") from error

    async def setup(self, trace: vf.Trace) -> None:
        """Find the gateway, and how this agent reaches it."""
        url = await self.gateway()
        suite = suite_with(self.data.suite, self.task, self.data.dataset)
        config, harness = self.config, trace.agent.config.harness
        sends_keys = harness is not None and harness.id.replace("-", "_") == HARNESS
        # A URL is all that other programs are given: they have no key and no session.
        needs_server = suite.environment(self.task) is not None or (
            config.key is not None and not sends_keys
        )
        found: dict[str, Any] = {"gateway": url, "key_variable": config.key_variable, "url": None}
        if not needs_server:
            names = ",".join(Rollouts(suite).tools(self.task))
            query = f"?tools=names:{quote(names, safe=',')}&output_schema=none"
            query += f"&max_rows={config.max_rows}" if config.max_rows else ""
            found["url"] = f"{url}/mcp{query}"
        tools = config.tools.model_copy(update=found)
        self.config = config.model_copy(update={"tools": tools})

    @classmethod
    def toolsets(cls, config: FinportTaskConfig) -> list[vf.Toolset]:
        return [FinportToolset(config.tools)]

    async def finalize(self, trace: vf.Trace) -> None:
        """Keep the record of a session on the trace, from which it can be scored again."""
        if trace.state.record:
            trace.info[RECORD] = json.loads(trace.state.record)

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        score = await scored(self.data.suite, self.task, trace)
        assert score.reward is not None  # noqa: S101 - an outage is raised
        return score.reward

    @vf.metric
    async def figures(self, trace: vf.Trace) -> Mapping[str, float]:
        score = await scored(self.data.suite, self.task, trace)
        return {**score.figures, "passed": float(score.passed)}

    async def validate(self, runtime: vf.Runtime) -> bool | None:  # noqa: ARG002
        """Make the labelled calls, state the right answer, and look whether that earns all. None
        for a task without a right answer or without arguments.
        """
        task = self.task
        suite = suite_with(self.data.suite, task, self.data.dataset)
        is_played = task.tools and len(task.labelled_arguments) == len(task.tools)
        if not (is_played and task.answer) or suite.environment(task) is not None:
            return None
        answer = task.answer
        if self.data.suite == "generated":
            answer = f"Answer: {Answer.model_validate_json(answer).text}"
        async with (
            Rollouts.open(suite) as rollouts,
            HttpClient.open(await self.gateway(), Untraced(), self.config.key) as client,
            rollouts.play(task, client) as play,
        ):
            for call in task.tools:
                await play.call(call.name, call.arguments)
            play.answer(answer)
            score = await rollouts.score(play.record)
        if score.outage is not None:
            raise vf.ToolsetError(f"outage: {score.outage}")
        return score.passed


class FinportConfig(vf.TasksetConfig):
    """Which tasks there are."""

    suite: str = "generated"
    """A suite of Finport, or `module:Class`; any other name is that of the tasks in `dataset`."""
    dataset: Path | None = None
    """The suite's file or folder; `generated` without one makes tasks without an end."""
    seed: int = 0
    """Chooses the tasks that are made; each seed has its own."""
    difficulties: list[int] = Field(default_factory=list)
    """Only tasks of these difficulties, from 1 to 5 for generated ones."""
    languages: list[Literal["zh", "en"]] = Field(default_factory=list)
    """Only generated tasks in these languages."""
    limit: int | None = Field(None, ge=1)
    """At most so many tasks."""
    task: FinportTaskConfig = FinportTaskConfig()

    @property
    def is_endless(self) -> bool:
        return self.suite == "generated" and self.dataset is None

    @model_validator(mode="after")
    def _has_tasks(self) -> Self:
        """Tasks of a difficulty that is never made would be sought without an end."""
        if self.is_endless and (unknown := {*self.difficulties} - DIFFICULTIES):
            raise ValueError(f"difficulties: {min(unknown)} is none; generated tasks have 1 to 5")
        return self


_CHECKED: set[tuple[str, str]] = set()
"""Gateways, and what their health must say, that were looked at."""


async def _check(url: str, key: str | None, suite: Suite) -> None:
    """Look once at a gateway whose tools must be the suite's. Raises `SuiteError`."""
    wanted = url, repr(sorted(suite.gateway_health.items()))
    if suite.gateway_health and wanted not in _CHECKED:
        try:
            async with HttpClient.open(url, Untraced(), key) as client:
                suite.check_gateway(await client.health())
        except GatewayUnreachableError as error:
            raise vf.ToolsetError(f"outage: {error}") from error
        _CHECKED.add(wanted)


class FinportTaskset(vf.Taskset[FinportTask, FinportConfig]):
    def __init__(self, config: FinportConfig) -> None:
        super().__init__(config)
        self.INFINITE = config.is_endless and config.limit is None

    def load(self) -> Iterator[FinportTask]:
        """Raises `SuiteError`."""
        return islice(self._chosen(), self.config.limit)

    def _chosen(self) -> Iterator[FinportTask]:
        config = self.config
        tasks: Iterable[Task]
        if config.is_endless:
            tasks = endless_tasks(config.seed)
        else:
            tasks = load_suite(config.suite, config.dataset).tasks
        dataset = None if config.dataset is None else str(config.dataset.resolve())
        difficulties = {str(one) for one in config.difficulties}
        for task in tasks:
            if difficulties and task.difficulty not in difficulties:
                continue
            if config.languages and task.source_dataset not in config.languages:
                continue
            data = FinportData(
                id=task.id,
                name=task.id,
                prompt=task.question,
                suite=config.suite,
                task=task.model_dump_json(exclude_unset=True),
                dataset=dataset,
                key_variable=config.task.key_variable,
            )
            yield FinportTask(data, config.task)
