"""The environment for the episodes of `finbench speed driver`, and the measurement of their cost.

A stage is a run directory on disk and a gateway whose cache is warm. Every reply is compared with
the earlier answer to the same call. After a run every episode must have passed and every record
must be on disk, else `MeasurementError` is raised and nothing is reported.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.agents import Agent, Episode, Turn
from bench.client import HttpClient, ToolClient
from bench.runs.directory import RunDirectory
from bench.runs.run import YOUNG
from bench.speed.measurement import MeasurementError
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.suites.suite import Suite
from bench.task import LabelledCall, Task
from bench.wire import WireClient
from gateway import CallContext, Gateway, GatewaySettings
from manifests import Catalog
from manifests.common.collector import calm_collector
from manifests.common.memory import forget_peak, peak_rss_bytes, rss_bytes

TOOL = "stock_zh_a_hist"
ARGUMENTS = tuple(
    {"symbol": "600519", "start_date": f"2024010{day}", "end_date": f"2024011{day}"}
    for day in (1, 2, 3)
)
"""The arguments of an episode's calls, one call a round."""

QUESTION = "Case {}: in which of three weeks of January 2024 did Kweichow Moutai close highest?"
GOLD = "3"
TASKS = 1_500
UNBOUND_STARTS_PER_S = 1_000_000.0

Figures = dict[str, float]


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


@dataclass(frozen=True, slots=True)
class Stage:
    """All that a driver needs; `expected` are the answers to an episode's calls, in order."""

    directory: RunDirectory
    client: ToolClient
    catalog: Catalog
    expected: tuple[bytes, ...]

    @classmethod
    @asynccontextmanager
    async def open(
        cls, folder: Path, url: str | None = None, *, streams: bool = False
    ) -> AsyncIterator["Stage"]:
        """A stage with a gateway in this process or the one at `url`, which is asked over streams
        or by one request a call. Raises `MeasurementError`.
        """
        catalog = Catalog.load()
        async with AsyncExitStack() as parts:
            opened = RunDirectory.open(folder / "run", {})
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
            yield cls(directory, client, catalog, tuple(expected))

    async def written(self) -> None:
        """Wait until all records are in their files."""
        await self.directory.calls.written()
        await self.directory.episodes.written()

    def check(self, episodes: int) -> None:
        """Raises `MeasurementError` unless `episodes` episodes have passed with all their calls."""
        seen = self.directory.metrics
        passed, calls = seen.rates()["passed"], seen.traffic.sources().total()
        if passed != episodes or calls != _calls_of(episodes):
            text = f"{passed} of {episodes} episodes passed, with {calls} of {_calls_of(episodes)}"
            raise MeasurementError(f"{text} calls")


def log_bytes(folder: Path, episodes: int) -> int:
    """Bytes of the run directory, which is closed. Raises `MeasurementError` unless it holds
    `episodes` episodes and all their calls.
    """
    for name, wanted in (("episodes", episodes), ("calls", _calls_of(episodes))):
        with (folder / "run" / f"{name}.jsonl").open("rb") as lines:
            found = sum(1 for _ in lines)
        if found != wanted:
            raise MeasurementError(f"{found} of {wanted} {name} are on disk")
    return sum(file.stat().st_size for file in (folder / "run").iterdir())


def _calls_of(episodes: int) -> int:
    """Including two warm-up calls of each kind."""
    return len(ARGUMENTS) * (episodes + 2)


async def _warm(client: ToolClient, arguments: dict[str, str]) -> bytes:
    """The answer, cached by now."""
    context = CallContext(episode="warm-up", step=0)
    await client.call(TOOL, arguments, context)
    reply = await client.call(TOOL, arguments, context)
    if reply.source != "cached":
        raise MeasurementError(f"{TOOL}: {reply.message or reply.source}")
    return reply.data


def suite() -> Suite:
    """A suite of tasks with the same calls and different questions."""
    calls = tuple(LabelledCall(name=TOOL, arguments=dict(given)) for given in ARGUMENTS)
    tasks = (
        Task(
            id=f"speed_{n}",
            category="equity",
            question=QUESTION.format(n),
            tools=calls,
            answer=GOLD,
        )
        for n in range(TASKS)
    )
    return LabelledTasks("speed", tasks)


@dataclass(slots=True)
class Cost:
    """Seconds, CPU seconds of all threads, and the peak memory beyond what was held before
    (bytes).
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory_bytes: int = 0

    def of(self, episodes: int, concurrency: int) -> Figures:
        return {
            "episodes_per_s": episodes / self.wall_s,
            "cpu_ms_per_episode": self.cpu_s / episodes * 1e3,
            "kb_per_concurrent_episode": self.memory_bytes / min(concurrency, episodes) / 1e3,
        }


@contextmanager
def costing() -> Iterator[Cost]:
    """The cost of what runs in the context, with the garbage collector set as in a run. It is
    filled in when the context ends.
    """
    calm_collector(YOUNG)
    forget_peak()
    cost, before = Cost(), rss_bytes()
    cpu, started = time.process_time(), time.perf_counter()
    yield cost
    cost.wall_s, cost.cpu_s = time.perf_counter() - started, time.process_time() - cpu
    cost.memory_bytes = max(peak_rss_bytes() - before, 0)
