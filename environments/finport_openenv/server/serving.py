"""What all sessions of a server share: the suites that it serves, each with a gateway."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Self

from bench.client import HttpClient, ToolClient, Untraced
from bench.judges.registry import JudgeSettingsError
from bench.processes import gateway
from bench.suites.generated.suite import Generated
from finport import Rollouts, SuiteError, Task, endless_tasks, load_suite

PREFIX = "OPENENV_FINPORT_"

GENERATED = 256
"""How many generated tasks a server has that is given none."""

CLOSING_S = 10.0


class ServingError(Exception):
    """The server's settings are wrong, or a reset asks for what it does not serve."""


@dataclass(frozen=True)
class Settings:
    """Of a server. `suites` are those that it serves, with the dataset of each that has one; the
    first is the default. Without the URL of a gateway each suite gets one of its own.
    """

    suites: Mapping[str, Path | None] = field(default_factory=lambda: {"generated": None})
    gateway: str | None = None
    key: str | None = None
    seed: int = 0
    sessions: int = 256

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> Self:
        """From environment variables `OPENENV_FINPORT_*`. Raises `ServingError`."""
        given = {
            name.removeprefix(PREFIX): value.strip()
            for name, value in variables.items()
            if name.startswith(PREFIX) and value.strip()
        }
        suites = dict[str, Path | None]()
        for text in given.pop("SUITES", "generated").split(","):
            name, _, dataset = text.strip().partition("=")
            suites[name] = Path(dataset) if dataset else None
        url, key = given.pop("GATEWAY", None), given.pop("KEY", None)
        numbers = dict[str, int]()
        for name, default, least in (("SEED", 0, 0), ("SESSIONS", 256, 1)):
            value = given.pop(name, str(default))
            if not value.isdecimal() or int(value) < least:
                text = f"{PREFIX}{name} is {value!r}; it wants a whole number from {least} on"
                raise ServingError(text)
            numbers[name] = int(value)
        if given:
            known = ", ".join(f"{PREFIX}{n}" for n in ("SUITES", "GATEWAY", "KEY", *numbers))
            raise ServingError(f"{PREFIX}{min(given)} is no setting; there are: {known}")
        return cls(suites, url, key, numbers["SEED"], numbers["SESSIONS"])


@dataclass
class Served:
    """A suite that is being served."""

    rollouts: Rollouts
    client: ToolClient
    by_id: Mapping[str, Task]


class Serving:
    """Opens a suite and its gateway when the first episode needs them, and once for all sessions.

    A task of its own holds them open, and opens them anew after the gateway's process has ended.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._open: dict[str, tuple[asyncio.Task[None], asyncio.Future[Served]]] = {}
        self._lists: dict[str, Rollouts] = {}
        self._next = 0

    def named(self, name: str | None) -> str:
        """The name of a suite that this server has. Raises `ServingError`."""
        suites = [*self.settings.suites]
        if name is None:
            return suites[0]
        if name not in suites:
            raise ServingError(f"no suite {name!r} is served here; there are: {', '.join(suites)}")
        return name

    async def suite(self, name: str) -> Served:
        """Raises `ServingError`, and `ServerNotReadyError` if there is no gateway."""
        task, ready = self._open.get(name, (None, None))
        if task is None or ready is None or task.done():
            ready = asyncio.get_running_loop().create_future()
            self._open[name] = asyncio.create_task(self._hold(name, ready)), ready
        return await asyncio.shield(ready)

    async def close(self) -> None:
        tasks = [task for task, _ in self._open.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING_S)

    async def tasks(self, name: str) -> Sequence[Task]:
        """The tasks of a suite, for which no gateway is needed. Raises `ServingError`."""
        if (task_and_ready := self._open.get(name)) and task_and_ready[1].done():
            return (await task_and_ready[1]).rollouts.suite.tasks
        if name not in self._lists:
            async with self._rollouts(name) as rollouts:
                self._lists[name] = rollouts
        return self._lists[name].suite.tasks

    def chosen(self, served: Served, task: str | None, index: int | None, seed: int | None) -> Task:
        """The task with an id or a number, one that a seed chooses, or the next one. Raises
        `ServingError`.
        """
        tasks = served.rollouts.suite.tasks
        if task is not None:
            if task not in served.by_id:
                raise ServingError(f"{served.rollouts.suite.name} has no task {task!r}")
            return served.by_id[task]
        if index is not None:
            if not 0 <= index < len(tasks):
                name = served.rollouts.suite.name
                raise ServingError(f"{name} has tasks 0 to {len(tasks) - 1}, not {index}")
            return tasks[index]
        if seed is not None:
            return tasks[Random(seed).randrange(len(tasks))]  # noqa: S311 - no secret
        self._next += 1
        return tasks[(self._next - 1) % len(tasks)]

    async def _hold(self, name: str, ready: asyncio.Future[Served]) -> None:
        try:
            async with AsyncExitStack() as parts:
                rollouts = await parts.enter_async_context(self._rollouts(name))
                url, ended = self.settings.gateway, None
                if url is None:
                    folder = Path(parts.enter_context(tempfile.TemporaryDirectory()))
                    variables = {n: v for n, v in os.environ.items() if n.startswith("FINPORT_")}
                    own = gateway(folder, variables=variables, **rollouts.suite.gateway_settings)
                    started = await parts.enter_async_context(own)
                    url, ended = started.url, started.process
                opened = HttpClient.open(url, Untraced(), self.settings.key)
                client = await parts.enter_async_context(opened)
                rollouts.suite.check_gateway(await client.health())
                by_id = {task.id: task for task in rollouts.suite.tasks}
                ready.set_result(Served(rollouts, client, by_id))
                await (asyncio.Event().wait() if ended is None else ended.wait())
        except Exception as error:  # noqa: BLE001 - whoever waits for the suite gets it
            if not ready.done():
                ready.set_exception(error)
        finally:
            ready.cancel()

    @asynccontextmanager
    async def _rollouts(self, name: str) -> AsyncIterator[Rollouts]:
        dataset = self.settings.suites[name]
        try:
            if name == "generated" and dataset is None:
                seed = self.settings.seed
                tasks = await asyncio.to_thread(lambda: [*islice(endless_tasks(seed), GENERATED)])
                opened = Rollouts.open(Generated(name, tasks))
            else:
                opened = Rollouts.open(await asyncio.to_thread(load_suite, name, dataset))
            async with opened as rollouts:
                yield rollouts
        except (JudgeSettingsError, SuiteError) as error:
            raise ServingError(str(error)) from error
