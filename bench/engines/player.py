"""The player: an actor of Ray that plays the episodes which the head leases to it.

It is one process with one event loop, and has an agent, a judge and a client of its own.
"""

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from bench.agents.declaration import AgentSettingsError
from bench.client import GatewayUnreachableError
from bench.engines.batch import Batch, Collector
from bench.engines.cluster import EngineError
from bench.engines.work import Work
from bench.judges.registry import JudgeSettingsError
from bench.own import words_of
from bench.record import Checkpoint, EpisodeRecord
from bench.runs.driver import Driver, ModelDownError, Owed
from bench.runs.episode import name_of
from bench.runs.run import here
from bench.suites.suite import SuiteError
from cache import SnapshotError
from gateway.server.process import raise_file_limit
from gateway.settings_file import SettingsError
from gateway.trace import TraceError

log = logging.getLogger("finport")

HEARTBEAT_S = 5.0
"""How long a player that has nothing to give lets the head wait."""

_LATER_S = 2.0
"""How long `end` waits for the driver."""

REFUSALS = (
    *(AgentSettingsError, JudgeSettingsError, SuiteError, SettingsError),
    *(SnapshotError, GatewayUnreachableError, EngineError),
)
"""Errors with which a player can't begin; they end the run as they would end one without Ray."""


@dataclass(frozen=True, slots=True)
class Leased:
    """An episode to play: the id of its task, its repeat, and its checkpoints from before the run
    was interrupted. One that was played whole and lacks a judgement has its record.
    """

    task: str
    repeat: int
    begun: Sequence[Checkpoint] = ()
    record: EpisodeRecord | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A player that can begin. `about` is where the answers of its calls come from, for `run.json`;
    `software` must be that of the head. `setting` is the agent's name.
    """

    node: str
    software: dict[str, str]
    about: dict[str, Any]
    setting: str
    goes_on: bool


@dataclass(slots=True)
class Handover:
    """What a player gives: a batch, and how it is. `client` counts the calls to a gateway at a URL
    since the player began, and `cpu_s` the time of its processor. `failure` says why it can't go
    on, `is_over` that nothing more comes.
    """

    batch: Batch
    gone_on: dict[str, int] = field(default_factory=dict)
    client: dict[str, Any] = field(default_factory=dict)
    cpu_s: float = 0.0
    failure: TraceError | ModelDownError | None = None
    is_over: bool = False


def software(work: Work) -> dict[str, str]:
    """What must be the same at the head and at its players."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"finport": version("finport"), "python": python, "catalog": work.catalog.revision}


class Player:
    """Plays episodes. The methods are called by the head, through Ray, in this order: `open`,
    `exchange` again and again, `end`, `exchange` until all is given.
    """

    def __init__(self, work: Work, number: int, name: str) -> None:
        self._work = work
        self._number = number
        self._name = name
        self._tasks = {task.id: task for task in work.plan.suite.tasks}
        self._owed: asyncio.Queue[Owed] = asyncio.Queue()
        plan = work.plan
        self._collector = Collector(type(plan.suite), is_transcribed=plan.is_transcribed)
        self._opened: Opened | None = None
        self._is_open = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._driver: Driver | None = None
        self._cpu_before_s = 0.0
        self._given = _Counters(work.plan.suite.name)

    async def open(self) -> Opened | Exception:
        """Make ready to play. Returns one of `REFUSALS` where that can't be."""
        logging.basicConfig(
            stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
        )
        raise_file_limit()
        self._running = asyncio.create_task(self._run())
        self._running.add_done_callback(lambda _: self._ended())
        await self._is_open.wait()
        if self._opened is not None:
            log.info("%s is ready", self._name)
            return self._opened
        error = None if self._running.cancelled() else self._running.exception()
        log.error("%s can't begin: %s", self._name, error and words_of(error))
        if isinstance(error, REFUSALS):
            return type(error)(*error.args)
        return EngineError(words_of(error) if error else "a player ended as it began")

    async def exchange(self, leased: Sequence[Leased], linger_s: float) -> Handover:
        """Take further episodes, and give some that have ended; wait for them for `linger_s` after
        the first, and for `HEARTBEAT_S` at most.
        """
        self._take(leased)
        await self._collector.until_enough(HEARTBEAT_S, linger_s)
        batch = self._collector.take()
        self._given.count(batch)
        driver = self._driver
        gone_on = driver.gone_on if driver else {}
        return Handover(
            batch,
            gone_on={name: gone_on.pop(name) for name in batch.names if name in gone_on},
            client=driver.figures.get("gateway_calls", {}) if driver else {},
            cpu_s=time.process_time() - self._cpu_before_s,
            failure=self._failure(),
            is_over=self._is_over,
        )

    async def hosts(self) -> dict[str, dict[str, Any]]:
        """The states of the gateway's upstream hosts."""
        return await self._driver.hosts() if self._driver else {}

    async def end(self) -> None:
        """Give no agent a further turn. Episodes that wait for their judge end without it."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running}, timeout=_LATER_S)

    def _take(self, leased: Sequence[Leased]) -> None:
        names = [f"{one.task}.{one.repeat}" for one in leased]
        if names:
            text = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
            log.info("%s plays %d episodes: %s", self._name, len(names), text)
        self._collector.awaited += len(leased)
        for one in leased:
            task = self._tasks[one.task]
            if one.begun:
                self._collector.begun[name_of(task, one.repeat)] = [*one.begun]
            if one.record is not None:
                self._collector.unjudged[one.record.episode] = one.record
            self._owed.put_nowait((task, one.repeat))

    async def _run(self) -> None:
        """Open all that is needed, play until cancelled, and close it."""
        work = self._work
        settings, plan, catalog = work.settings_of(self._number), work.plan, work.catalog
        async with here(plan, settings, catalog) as start, start(self._collector) as driver:
            self._driver, about = driver, dict(self._collector.about)
            self._opened = Opened(
                socket.gethostname(), software(work), about, driver.agent.name, driver.goes_on
            )
            self._is_open.set()
            self._cpu_before_s = time.process_time()
            await driver.play(self._owed.get, most=plan.concurrency)

    def _ended(self) -> None:
        self._is_open.set()
        self._collector.over()

    @property
    def _is_over(self) -> bool:
        return self._running is not None and self._running.done() and self._collector.is_taken

    def _failure(self) -> TraceError | ModelDownError | None:
        """Why the driver ended by itself, which it never should."""
        if self._running is None or not self._running.done() or self._running.cancelled():
            return None
        error = self._running.exception()
        if isinstance(error, TraceError | ModelDownError):
            return type(error)(*error.args)
        return TraceError("the driver ended" if error is None else words_of(error))


class _Counters:
    """Counters for Ray's own metrics, which its nodes export for Prometheus."""

    def __init__(self, suite: str) -> None:
        from ray.util.metrics import Counter as RayCounter

        self._tags = {"suite": suite}
        self._episodes = RayCounter(
            "finbench_episodes", "Episodes that have ended.", tag_keys=("suite", "ending")
        )
        self._calls = RayCounter("finbench_calls", "Calls of these.", tag_keys=("suite",))

    def count(self, batch: Batch) -> None:
        if batch.metrics is None:
            return
        with suppress(ValueError):  # of Ray's: a counter never ends a run
            for ending, episodes in batch.metrics.usage.endings.items():
                self._episodes.inc(episodes, {**self._tags, "ending": ending})
            if calls := batch.metrics.traffic.latency_ms.count:
                self._calls.inc(calls, self._tags)
