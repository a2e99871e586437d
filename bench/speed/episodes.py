"""Episodes of measurements, and what they cost.

An episode makes three different calls of one tool, one a round, all of them answered from the
cache, and then answers. Every reply is compared with the earlier answer to the same call. At the
end every episode must have passed and every record must be on disk, else `MeasurementError` is
raised and nothing is reported.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.agents import Agent, Episode, ErrorRates, ScriptedAgent, Turn
from bench.client import HttpClient, ToolClient
from bench.judges.registry import JudgeSettings, judge_named, open_judge
from bench.runs.directory import RunDirectory
from bench.runs.driver import Driver
from bench.speed.harness import Figures, MeasurementError
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.task import LabelledCall, Task
from bench.wire import WireClient
from gateway import CallContext, Gateway, GatewaySettings
from gateway.telemetry.vitals import Vitals
from manifests import Catalog
from manifests.common.collector import calmed_collector
from manifests.common.memory import peak_rss_bytes, rss_bytes

TOOL = "stock_zh_a_hist"
ARGUMENTS = tuple(
    {"symbol": "600519", "start_date": f"2024010{day}", "end_date": f"2024011{day}"}
    for day in (1, 2, 3)
)
"""The arguments of an episode's calls, one call a round."""

QUESTION = "Case {}: in which of three weeks of January 2024 did Kweichow Moutai close highest?"
ANSWER = f"{len(ARGUMENTS)} of {len(ARGUMENTS)} calls answered"
TASKS = 1_500
STARTS_PER_S = 1_000_000.0


class CheckedAgent:
    """Wraps another agent and checks its replies and its answer.

    Before each turn it lets all other episodes go first, as an agent that waits for a model does.
    Cached calls wait for nothing, so otherwise each episode would run to its end before the next.
    """

    def __init__(self, agent: Agent, expected: Sequence[bytes], answer: str) -> None:
        self.name = agent.name
        self._agent = agent
        self._expected = expected
        self._answer = answer

    async def act(self, episode: Episode) -> Turn:
        made = episode.history
        if made and made[-1].replies[0].data != self._expected[len(made) - 1]:
            raise MeasurementError("a reply is not what the same call brought before")
        await asyncio.sleep(0)
        turn = await self._agent.act(episode)
        if not turn.calls and turn.answer != self._answer:
            raise MeasurementError(f"the agent answered {turn.answer!r}")
        return turn


@dataclass(slots=True)
class Stage:
    """A run directory on disk and a gateway whose cache is warm; `expected` are the answers to an
    episode's calls, in order, and `played` counts episodes.
    """

    folder: Path
    directory: RunDirectory
    client: ToolClient
    catalog: Catalog
    expected: tuple[bytes, ...]
    played: int = 0

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        folder: Path,
        url: str | None = None,
        *,
        streams: bool = True,
        is_transcribed: bool = False,
    ) -> AsyncIterator["Stage"]:
        """A stage with a gateway in this process or the one at `url`, which is asked over streams
        or by one request a call; with transcripts if it `is_transcribed`. Raises
        `MeasurementError`.
        """
        catalog = Catalog.load()
        async with AsyncExitStack() as parts:
            opened = RunDirectory.open(folder / "run", {}, is_transcribed=is_transcribed)
            directory = await parts.enter_async_context(opened)
            client: ToolClient
            if url is None:
                settings = GatewaySettings(
                    upstream="simulated", cache_dir=folder / "cache", akshare_workers=1
                )
                embedded = Gateway.open(settings, catalog=catalog, trace=directory.calls)
                client = await parts.enter_async_context(embedded)
            else:
                kind = WireClient if streams else HttpClient
                client = await parts.enter_async_context(kind.open(url, directory.calls))
            expected = [await _warm(client, arguments) for arguments in ARGUMENTS]
            if len(set(expected)) < len(expected):
                raise MeasurementError("two different calls brought the same")
            yield cls(folder, directory, client, catalog, tuple(expected))

    async def play(
        self, agent: Agent, episodes: int, concurrency: int, answer: str = ANSWER, **options: Any
    ) -> Figures:
        """The cost of episodes until all records are in their files, with the garbage collector set
        as in a run. `options` are those of the driver. Raises `MeasurementError`.
        """
        driver = Driver(
            _suite(),
            CheckedAgent(agent, self.expected, answer),
            self.client,
            self.directory,
            concurrency=concurrency,
            starts_per_s=STARTS_PER_S,
            **options,
        )
        with calmed_collector():
            async with Vitals.watch() as vitals:
                before = rss_bytes()
                cpu, started = time.process_time(), time.perf_counter()
                await driver.run(episodes)
                of = self.directory
                for stream in (of.calls, of.episodes, of.transcripts):
                    if stream is not None:
                        await stream.written()
                wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu
        sockets, peak, most = _open_sockets(), peak_rss_bytes(), driver.most_in_flight
        self.played += episodes
        return {
            "most_in_flight": most,
            "episodes_per_s": episodes / wall_s,
            "calls_per_s": len(ARGUMENTS) * episodes / wall_s,
            "cpu_ms_per_episode": cpu_s / episodes * 1e3,
            "loop_lag_p99_ms": vitals.lag_ms.at(0.99) or 0.0,
            "peak_rss_mb": peak / 1e6,
            "kb_per_concurrent_episode": max(peak - before, 0) / most / 1e3,
            "log_bytes_per_episode": self._log_bytes() / self.played,
            "sockets": sockets,
        }

    def _log_bytes(self) -> int:
        """Bytes of the run directory. Raises `MeasurementError` unless all episodes have passed and
        are there with all their calls, including two warm-up calls of each kind.
        """
        passed = self.directory.metrics.rates()["passed"]
        if passed != self.played:
            raise MeasurementError(f"{passed} of {self.played} episodes passed")
        calls = len(ARGUMENTS) * (self.played + 2)
        for name, wanted in (("episodes", self.played), ("calls", calls)):
            with (self.folder / "run" / f"{name}.jsonl").open("rb") as lines:
                found = sum(1 for _ in lines)
            if found != wanted:
                raise MeasurementError(f"{found} of {wanted} {name} are on disk")
        return sum(file.stat().st_size for file in (self.folder / "run").iterdir())


async def scripted(
    folder: Path,
    episodes: int,
    concurrency: int,
    *,
    judge: str = "none",
    url: str | None = None,
    streams: bool = True,
) -> Figures:
    """The cost of scripted episodes. `judge` is one of the suite's, or `none`. The gateway is in
    this process or at `url`.
    """
    judging = JudgeSettings(judge_named(judge, LabelledTasks.judges))
    opened = Stage.open(folder, url, streams=streams)
    async with opened as stage, open_judge(judging, stage.catalog) as by:
        return await stage.play(scripted_agent(), episodes, concurrency, judge=by)


def scripted_agent() -> ScriptedAgent:
    """The agent that makes no mistakes."""
    return ScriptedAgent([TOOL], rates=ErrorRates(0, 0, 0))


async def _warm(client: ToolClient, arguments: dict[str, str]) -> bytes:
    """The answer, cached by now."""
    context = CallContext(episode="warm-up", step=0)
    await client.call(TOOL, arguments, context)
    reply = await client.call(TOOL, arguments, context)
    if reply.source != "cached":
        raise MeasurementError(f"{TOOL}: {reply.message or reply.source}")
    return reply.data


def _suite() -> LabelledTasks:
    """A suite of tasks with the same calls and different questions."""
    calls = tuple(LabelledCall(name=TOOL, arguments=dict(given)) for given in ARGUMENTS)
    tasks = (
        Task(
            id=f"speed_{n}", category="equity", question=QUESTION.format(n), tools=calls, answer="3"
        )
        for n in range(TASKS)
    )
    return LabelledTasks("speed", tasks)


def _open_sockets() -> int:
    """Also those that are not to a gateway."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # it was closed meanwhile
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return found
