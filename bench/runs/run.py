"""A run from settings to files: the code that `finbench run` and `finbench demo` share."""

import asyncio
import contextlib
import os
import platform
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from anyio import to_thread

from bench.agents import Agent
from bench.agents.registry import AgentSettings, open_agent
from bench.client import EmbeddedClient, ToolClient
from bench.environment import GATEWAY_KEY
from bench.judges import Judge
from bench.judges.registry import JudgeSettings, open_judge
from bench.own import code_of, words_of
from bench.runs.about import RunInfo
from bench.runs.directory import RunDirectory
from bench.runs.driver import Driver, Limits, Offer, Records, owed
from bench.runs.episode import name_of
from bench.runs.live import HostStates, Live, Progress
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

YOUNG = 200_000
"""How many new objects trigger a search for reference cycles. Episodes make no cycles, and a search
walks through everything in flight: 0.2 s with 10,000 episodes.
"""


RECORDED = "recorded"
"""The upstream of a run whose suite has recorded answers, whatever that of its gateway is."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What to run. `gateway` is `embedded` or the URL of a running gateway. `top_k` is how many
    tools are retrieved for each task and offered to its agent; 0 offers the task's labelled tools,
    None offers none. `environment` are arguments with which the environments of episodes are
    opened, beside the suite's own.
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
    environment: Mapping[str, Any] = field(default_factory=dict)

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
            **self.agent.about(),
            **self.judge.about(),
            "top_k": self.top_k,
            "limits": asdict(self.limits),
            **({"environment": dict(self.environment)} if self.environment else {}),
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
        }

    def names(self, before: int = 0) -> set[str]:
        """The names of all its episodes, and of those that it had when it was to have `before`."""
        episodes = owed(self.suite, max(self.episodes, before))
        return {name_of(task, repeat) for task, repeat in episodes}


async def run(
    plan: RunPlan,
    out: Path,
    settings: GatewaySettings,
    *,
    show: bool,
    resuming: Resuming | None = None,
    catalog: Catalog | None = None,
) -> RunInfo:
    """Run `plan` into the directory `out`, or go on with the run there (`RunDirectory.open`), and
    return the content of its `run.json`.

    `settings` are those of an embedded gateway. `catalog` holds the tools, by default the project's
    own. Raises `RunDirectoryError`, `TraceError`, `SnapshotError`, `AgentSettingsError`,
    `JudgeSettingsError`, `SuiteError`, and `GatewayUnreachableError` where no gateway answers at
    the plan's URL.
    """
    raise_file_limit()
    settings, catalog = with_suite(plan.suite, settings, catalog or Catalog.load())
    async with AsyncExitStack() as parts:
        agent = await parts.enter_async_context(open_agent(plan.agent, catalog))
        judge = await parts.enter_async_context(open_judge(plan.judge, catalog))
        opened = RunDirectory.open(
            out,
            await to_thread.run_sync(plan.about, catalog, settings),
            suite=type(plan.suite),
            resuming=resuming,
            named=plan.names,
        )
        directory = await parts.enter_async_context(opened)
        async with client_of(plan, settings, catalog, directory.calls) as client:
            directory.about = directory.about.updated(
                await upstream_of(client, settings, plan.suite)
            )
            offer = await offer_of(plan, settings, catalog)
            directory.check_comparable()
            await directory.save()
            calls, episodes = directory.metrics.traffic.latency_ms.count, len(directory.finished)
            driver = driver_of(plan, catalog, agent, judge, client, directory, offer)
            started = time.perf_counter()
            with calmed_collector(YOUNG):
                shown = shown_if(show, directory, driver, plan.episodes, client.hosts)
                async with Vitals.watch() as vitals, shown:
                    await driver.run(plan.episodes)
            took_s = time.perf_counter() - started
        figures = {
            "episodes": driver.done,
            "episodes_before": episodes,
            "took_s": round(took_s, 3),
            "episodes_per_s": round((driver.done - episodes) / took_s, 1),
            "calls_per_s": round((directory.metrics.traffic.latency_ms.count - calls) / took_s, 1),
            "most_in_flight": driver.most_in_flight,
            "first_errors": driver.first_errors,
            "judged": driver.judged,
            "failed_judgements": driver.failed_judgements,
            "driver": vitals.result(),
        }
        goes_on = bool(getattr(agent, "goes_on", False))
        figures |= gone_on(directory, driver.gone_on, goes_on=goes_on)
        if isinstance(client, WireClient):
            figures["gateway_calls"] = {
                "made": client.made,
                "unanswered": client.unanswered,
                "first_silence": client.first_silence,
                "no_streams": client.plain,
            }
        if isinstance(client, EmbeddedClient):
            figures["snapshot"] = client.gateway.snapshot_id  # a recorded one has its id by now
        await directory.complete(figures)
    return directory.about


def gone_on(directory: RunDirectory, moves: Mapping[str, int], *, goes_on: bool) -> dict[str, Any]:
    """What became of the interrupted episodes of a suite whose sessions have a state, for
    `run.json`: `moves` has how many calls were made again for those that went on.
    """
    again = directory.interrupted if directory.metrics.suite.moving_tools and not goes_on else 0
    if not moves and not again:
        return {}
    calls = sum(moves.values())
    return {"gone_on": {"episodes": len(moves), "calls": calls, "begun_again": again}}


def with_suite(
    suite: Suite, settings: GatewaySettings, catalog: Catalog
) -> tuple[GatewaySettings, Catalog]:
    """The settings of an embedded gateway and the tools that a suite needs. Raises `SuiteError`."""
    settings = settings.model_copy(update=dict(suite.gateway_settings))
    if settings.market is not None:
        catalog = catalog.with_market()
    suite.check_labels(catalog)
    return settings, catalog


def driver_of(
    plan: RunPlan,
    catalog: Catalog,
    agent: Agent,
    judge: Judge | None,
    client: ToolClient,
    records: Records,
    offer: Offer | None,
) -> Driver:
    return Driver(
        plan.suite,
        agent,
        client,
        records,
        concurrency=plan.concurrency,
        limits=plan.limits,
        starts_per_s=plan.starts_per_s,
        offer=offer,
        judge=judge,
        judge_s=plan.judge.wall_s,
        environment=plan.environment,
        withheld={tool.name for tool in catalog.select(intent="transactional")},
    )


async def offer_of(plan: RunPlan, settings: GatewaySettings, catalog: Catalog) -> Offer | None:
    """The plan's offer of tools; it searches for a task's tools once."""
    suite = plan.suite
    if plan.top_k is None and not (suite.offers_tools and plan.agent.type.reads_answers):
        return None
    names_of = _names_offered(suite, catalog) if suite.offers_tools else {}
    finder, top_k = ToolFinder.of(catalog, settings), plan.top_k
    offered: dict[str, tuple[Manifest, ...]] = {}
    if top_k:  # the first search builds the index, whose time must not count for an episode
        await finder.find(suite.tasks[0].question, top_k)

    async def offer(task: Task) -> tuple[Manifest, ...]:
        tools = offered.get(task.id)
        if tools is None:
            names = names_of.get(task.id)
            if names is None and top_k:
                tools = tuple(await finder.find(task.question, top_k))
            else:
                names = [call.name for call in task.tools] if names is None else names
                found = map(catalog.get, dict.fromkeys(names))
                tools = tuple(tool for tool in found if tool is not None)
            offered[task.id] = tools
        return tools

    return offer


def _names_offered(suite: Suite, catalog: Catalog) -> dict[str, Sequence[str]]:
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
    client: ToolClient, settings: GatewaySettings, suite: Suite
) -> dict[str, Any]:
    """Where the answers of a run come from, for `run.json`. Raises `SuiteError` for a gateway whose
    tools are not those of the suite.
    """
    if isinstance(client, WireClient):
        health = await client.health()
        expected = await to_thread.run_sync(lambda: suite.gateway_health)
        for name, wanted in expected.items():
            if (found := health.get(name)) != wanted:
                text = f"the gateway's {name} is {found}, that of the dataset is {wanted}"
                raise SuiteError(f"{suite.name}: {text}")
        said = {name: health.get(name) for name in ("upstream", "mode", "snapshot")}
        return said | ({"upstream": RECORDED} if suite.is_recorded else {})
    if suite.is_recorded:
        return {"upstream": RECORDED, "mode": settings.mode}
    about: dict[str, Any] = {"upstream": settings.upstream, "mode": settings.mode}
    if isinstance(client, EmbeddedClient):
        about["upstream"] = client.gateway.answers.upstream
        about["snapshot"] = client.gateway.snapshot_id
    if settings.upstream == "simulated":
        names = ("seed", "latency_s", "failure_rate", "hang_rate")
        about |= {f"simulated_{n}": getattr(settings, f"simulated_{n}") for n in names}
    return about


@asynccontextmanager
async def client_of(
    plan: RunPlan, settings: GatewaySettings, catalog: Catalog, trace: Trace
) -> AsyncIterator[ToolClient]:
    """The client of the plan's gateway, whose calls are recorded in `trace`."""
    async with AsyncExitStack() as parts:
        if plan.gateway == "embedded":
            opened = Gateway.open(settings, catalog=catalog, trace=trace)
            yield EmbeddedClient(await parts.enter_async_context(opened))
        else:
            once = {tool.name for tool in catalog if tool.is_for_one}
            key = os.environ.get(GATEWAY_KEY)
            wire = WireClient.open(plan.gateway, trace, key, once=once)
            yield await parts.enter_async_context(wire)


@asynccontextmanager
async def shown_if(
    show: bool,
    directory: RunDirectory,
    driver: Progress,
    episodes: int,
    hosts: Callable[[], Awaitable[HostStates]],
) -> AsyncIterator[None]:
    """Show progress on the terminal while the context is open, if it is to be shown."""
    if not show:
        yield
        return
    metrics = directory.metrics
    with Live(metrics, driver, episodes, hosts, unsaved=lambda: directory.unsaved) as live:
        watcher = asyncio.create_task(live.refresh_repeatedly())
        try:
            yield
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher
