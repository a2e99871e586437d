"""A run from settings to files: the code that `finbench run` and `finbench demo` share.

An engine says where the episodes are played: `here` in this process, `bench/engines/run.py` on Ray.
"""

import contextlib
import os
import platform
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import orjson
from anyio import to_thread

from adapters.fault import UpstreamFault
from bench.agents.registry import AgentSettings, open_agent
from bench.environment import GATEWAY_KEY
from bench.judges.registry import JudgeSettings, open_judge
from bench.models.client import ErrorStreak
from bench.models.prices import Prices
from bench.own import code_of, words_of
from bench.runs.about import RunInfo
from bench.runs.directory import RunDirectory
from bench.runs.driver import Driver, Limits, Offer, RunRecords, owed
from bench.runs.episode import name_of
from bench.runs.live import Live, Progress
from bench.runs.metrics import Tally
from bench.runs.resume import Resuming
from bench.suites.suite import Suite, SuiteError
from bench.task import Task
from bench.wire import WireClient
from gateway import Gateway, GatewaySettings
from gateway.search.finder import ToolFinder
from gateway.server.process import raise_file_limit
from gateway.telemetry.vitals import Vitals
from gateway.trace import Trace
from manifests import Catalog, Manifest
from manifests.common.collector import calmed_collector
from manifests.common.nearest import did_you_mean
from manifests.fintoolbench import Card

RECORDED = "recorded"
"""The upstream of a run whose suite has recorded answers, whatever that of its gateway is."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What to run. `gateway` is `embedded` or the URL of a running gateway. `top_k` is how many
    tools are retrieved for each task and offered to its agent; 0 offers the task's labelled tools,
    None offers none. `retrieval` says how they are found: `dense` by vectors alone, `bm25` by words
    alone, `fused` by both, or by default as the gateway searches; `all` offers all tools that may
    be called. `environment` are arguments with which the environments of episodes are
    opened, beside the suite's own. With `transcripts` all that goes to models and comes from them
    is kept. `prices` are those of models. After `max_model_errors` that are the same a model is
    down and the run ends; 0: never.
    """

    suite: Suite
    gateway: str
    episodes: int
    concurrency: int
    agent: AgentSettings = field(default_factory=AgentSettings.of)
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    limits: Limits = field(default_factory=Limits)
    starts_per_s: float = 10_000.0
    top_k: int | None = None
    retrieval: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    transcripts: bool = True
    prices: Prices | None = None
    max_model_errors: int = 20

    @property
    def is_transcribed(self) -> bool:
        """Whether it has transcripts: they are wanted, and a model is asked."""
        return self.transcripts and (self.agent.model is not None or self.judge.needs_model)

    def about(self, catalog: Catalog, settings: GatewaySettings) -> dict[str, Any]:
        """The first fields of `run.json`, which must be equal in a comparable run. Reads the files
        of the user's own code.
        """
        judge = self.judge.type.name if self.judge.type else ""
        own_code = code_of(self.suite.name, self.agent.type.name, judge)
        return {
            "suite": self.suite.name,
            "suite_digest": self.suite.digest,
            "tasks": len(self.suite.tasks),
            **({"selection": dict(self.suite.selection)} if self.suite.selection else {}),
            **self.agent.about(),
            **self.judge.about(),
            "top_k": self.top_k,
            **({"retrieval": self.retrieval} if self.retrieval else {}),
            **({"cards": _digest(catalog.cards)} if catalog.cards else {}),
            "limits": asdict(self.limits),
            **({"environment": dict(self.environment)} if self.environment else {}),
            **({"notes": list(self.suite.notes)} if self.suite.notes else {}),
            "gateway": self.gateway,
            "episodes": self.episodes,
            "concurrency": self.concurrency,
            "starts_per_s": self.starts_per_s,
            "catalog_revision": catalog.revision,
            "finport": version("finport"),
            "python": platform.python_version(),
            **({"own_code": own_code} if own_code else {}),
            "started_at": round(time.time(), 3),
            "embeddings": settings.embeddings_model if self.top_k else None,
            **({"prices": self.prices.model_dump()} if self.prices else {}),
        }

    def streaks(self) -> tuple[ErrorStreak | None, ErrorStreak | None]:
        """The errors of the agent's model, and of the judge's, from now on; None without one."""
        asked, judge, most = self.agent.model, self.judge, self.max_model_errors
        return (
            ErrorStreak("agent", asked.base_url, most) if asked and most else None,
            ErrorStreak("judge", judge.base_url, most) if judge.needs_model and most else None,
        )

    def names(self, before: int = 0) -> set[str]:
        """The names of all its episodes, and of those that it had when it was to have `before`."""
        episodes = owed(self.suite, max(self.episodes, before))
        return {name_of(task, repeat) for task, repeat in episodes}


class Playing(Progress, Protocol):
    """What an engine plays the episodes of a run with, as `Driver` does. `figures` are what it adds
    to `run.json`, complete once it is closed.
    """

    tally: Tally
    gone_on: dict[str, int]
    goes_on: bool
    most_in_flight: int
    began: float | None

    @property
    def figures(self) -> dict[str, Any]: ...

    async def run(self, episodes: int) -> None: ...


Start = Callable[[RunDirectory], AbstractAsyncContextManager[Playing]]
Engine = Callable[["RunPlan", GatewaySettings, Catalog], AbstractAsyncContextManager[Start]]
"""Opens what a run needs before it has a directory, and gives what opens its player."""


async def run(
    plan: RunPlan,
    out: Path,
    settings: GatewaySettings,
    *,
    show: bool,
    resuming: Resuming | None = None,
    catalog: Catalog | None = None,
    engine: Engine | None = None,
) -> RunInfo:
    """Run `plan` into the directory `out`, or go on with the run there (`RunDirectory.open`), and
    return the content of its `run.json`.

    `settings` are those of an embedded gateway. `catalog` holds the tools, by default the project's
    own. Raises `RunDirectoryError`, `TraceError`, `ModelDownError`, `SnapshotError`,
    `AgentSettingsError`, `JudgeSettingsError`, `SuiteError`, `GatewayUnreachableError` where no
    gateway answers at the plan's URL, and what the `engine` raises, which is `here` by default.
    """
    raise_file_limit()
    settings, catalog = made_ready(plan, settings, catalog or Catalog.load())
    async with AsyncExitStack() as parts:
        start = await parts.enter_async_context((engine or here)(plan, settings, catalog))
        opened = RunDirectory.open(
            out,
            await to_thread.run_sync(plan.about, catalog, settings),
            suite=type(plan.suite),
            resuming=resuming,
            named=plan.names,
            is_transcribed=plan.is_transcribed,
        )
        directory = await parts.enter_async_context(opened)
        calls, episodes = directory.metrics.traffic.latency_ms.count, len(directory.finished)
        async with start(directory) as player:
            shown = Live(directory, player, plan.episodes) if show else contextlib.nullcontext()
            async with Vitals.watch() as vitals, shown:
                await player.run(plan.episodes)
            began = player.began or time.perf_counter()
            took_s = time.perf_counter() - began
        figures = {
            "episodes": player.done,
            "episodes_before": episodes,
            "took_s": round(took_s, 3),
            "episodes_per_s": round((player.done - episodes) / took_s, 1),
            "calls_per_s": round((directory.metrics.traffic.latency_ms.count - calls) / took_s, 1),
            "most_in_flight": player.most_in_flight,
            **asdict(player.tally),
            "driver": vitals.result(),
            **_gone_on(directory, player),
            **player.figures,
        }
        await directory.complete(figures)
    return directory.about


def made_ready(
    plan: RunPlan, settings: GatewaySettings, catalog: Catalog
) -> tuple[GatewaySettings, Catalog]:
    """The settings and the tools with what the suite needs. Raises `SuiteError`."""
    settings = settings.model_copy(update={"listings": False, **plan.suite.gateway_settings})
    if settings.market is not None:
        catalog = catalog.with_market()
    plan.suite.check_labels(catalog)
    return settings, catalog


@asynccontextmanager
async def here(
    plan: RunPlan, settings: GatewaySettings, catalog: Catalog
) -> AsyncIterator[Callable[[RunRecords], AbstractAsyncContextManager[Driver]]]:
    """The engine that plays all episodes in this process."""
    streaks = plan.streaks()
    async with (
        open_agent(plan.agent, catalog, streak=streaks[0]) as agent,
        open_judge(plan.judge, catalog, streak=streaks[1]) as judge,
    ):

        @asynccontextmanager
        async def start(records: RunRecords) -> AsyncIterator[Driver]:
            async with client_of(plan, settings, catalog, records.calls) as client:
                await records.begin(await upstream_of(client, settings, plan.suite))
                driver = Driver(
                    plan.suite,
                    agent,
                    client,
                    records,
                    concurrency=plan.concurrency,
                    limits=plan.limits,
                    starts_per_s=plan.starts_per_s,
                    offer=await _offer_of(plan, settings, catalog),
                    judge=judge,
                    judge_s=plan.judge.wall_s,
                    environment=plan.environment,
                    withheld={tool.name for tool in catalog.select(intent="transactional")},
                    streaks=[streak for streak in streaks if streak is not None],
                )
                with calmed_collector():
                    yield driver

        yield start


def _gone_on(directory: RunDirectory, player: Playing) -> dict[str, Any]:
    """What became of the interrupted episodes of a suite whose sessions have a state, for
    `run.json`, with how many calls were made again for those that went on.
    """
    moves, has_state = player.gone_on, bool(directory.metrics.suite.moving_tools)
    again = directory.interrupted if has_state and not player.goes_on else 0
    if not moves and not again:
        return {}
    calls = sum(moves.values())
    return {"gone_on": {"episodes": len(moves), "calls": calls, "begun_again": again}}


async def _offer_of(plan: RunPlan, settings: GatewaySettings, catalog: Catalog) -> Offer | None:
    """The plan's offer of tools; it searches for a task's tools once."""
    suite = plan.suite
    if plan.top_k is None and not (suite.offers_tools and plan.agent.type.reads_answers):
        return None
    names_of = names_offered(suite, catalog) if suite.offers_tools else {}
    finder, top_k = ToolFinder.of(catalog, settings), plan.top_k
    offered: dict[str, tuple[Manifest, ...]] = {}
    find = {"dense": finder.find_by_vectors, "bm25": finder.find_by_words}.get(
        plan.retrieval, finder.find
    )
    if plan.retrieval == "all":
        every = tuple(tool.name for tool in catalog if not tool.unavailable)
        names_of = {task.id: every for task in suite.tasks}
    elif top_k:  # the first search builds the index, whose time must not count for an episode
        try:
            await find(suite.tasks[0].question, top_k)
        except UpstreamFault as fault:
            raise SuiteError(f"{suite.name}: tools can't be retrieved: {fault.message}") from fault

    async def offer(task: Task) -> tuple[Manifest, ...]:
        tools = offered.get(task.id)
        if tools is None:
            names = names_of.get(task.id)
            if names is None and top_k:
                tools = tuple(await find(task.question, top_k))
            else:
                names = [call.name for call in task.tools] if names is None else names
                found = map(catalog.get, dict.fromkeys(names))
                tools = tuple(tool for tool in found if tool is not None)
            offered[task.id] = tools
        return tools

    return offer


def _digest(cards: Mapping[str, Card]) -> str:
    """16 hex digits: a hash of all cards."""
    text = orjson.dumps([cards[name] for name in sorted(cards)])
    return blake2b(text, digest_size=8).hexdigest()


def names_offered(suite: Suite, catalog: Catalog) -> dict[str, Sequence[str]]:
    """By task, the tools that its suite offers. Raises `SuiteError` for what is no tool."""
    found: dict[str, Sequence[str]] = {}
    for task in suite.tasks:
        try:
            if (names := suite.offered(task)) is None:
                continue
            found[task.id] = tuple(names)
        except Exception as error:
            text = f"{suite.name}: the tools of task {task.id}: {words_of(error)}"
            raise SuiteError(text) from error
        for name in found[task.id]:
            if catalog.get(name) is None:
                hint = did_you_mean(str(name), [tool.name for tool in catalog])
                text = f"task {task.id} offers {name!r}, which is no tool{hint}"
                raise SuiteError(f"{suite.name}: {text}")
    return found


async def upstream_of(
    client: Gateway | WireClient, settings: GatewaySettings, suite: Suite
) -> dict[str, Any]:
    """Where the answers of a run come from, for `run.json`. Raises `SuiteError` for a gateway whose
    tools are not those of the suite.
    """
    if isinstance(client, WireClient):
        health = await client.health()
        await to_thread.run_sync(suite.check_gateway, health)
        about = {name: health.get(name) for name in ("upstream", "mode", "snapshot")}
        return about | ({"upstream": RECORDED} if suite.is_recorded else {})
    if suite.is_recorded:
        return {"upstream": RECORDED, "mode": settings.mode}
    upstream = {"upstream": client.answers.upstream, "mode": settings.mode}
    return {**upstream, "snapshot": client.snapshot_id, **simulation_of(settings)}


def simulation_of(settings: GatewaySettings) -> dict[str, Any]:
    """The settings of the simulated upstream of an embedded gateway, for `run.json`."""
    about: dict[str, Any] = {}
    if settings.upstream == "simulated":
        names = ("seed", "latency_s", "failure_rate", "hang_rate")
        about |= {f"simulated_{n}": getattr(settings, f"simulated_{n}") for n in names}
        about["simulated_now"] = settings.simulated_now.isoformat()
        if settings.simulated_lies:
            about["simulated_lies"] = settings.simulated_lies
            about["simulated_lie_kinds"] = sorted(settings.simulated_lie_kinds)
    return about


@asynccontextmanager
async def client_of(
    plan: RunPlan, settings: GatewaySettings, catalog: Catalog, trace: Trace
) -> AsyncIterator[Gateway | WireClient]:
    """The plan's gateway or its client, whose calls are recorded in `trace`."""
    if plan.gateway == "embedded":
        async with Gateway.open(settings, catalog=catalog, trace=trace) as gateway:
            yield gateway
    else:
        once = {tool.name for tool in catalog if tool.is_for_one}
        key = os.environ.get(GATEWAY_KEY)
        async with WireClient.open(plan.gateway, trace, key, once=once) as client:
            yield client
