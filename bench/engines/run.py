"""A run on Ray, from settings to files: what `bench/runs/run.py` is for one process."""

import os
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from anyio import to_thread

from bench.engines.cluster import ADDRESS, Cluster, own_modules, ray_module
from bench.engines.errors import EngineError
from bench.engines.head import Head
from bench.engines.player import Opened
from bench.engines.work import Work, check_options
from bench.runs.about import RunInfo
from bench.runs.directory import RunDirectory
from bench.runs.driver import owed
from bench.runs.resume import Resuming
from bench.runs.run import RunPlan, gone_on, shown_if, with_suite
from gateway import GatewaySettings
from gateway.telemetry.vitals import Vitals
from manifests import Catalog


async def run_on_ray(
    plan: RunPlan,
    out: Path,
    settings: GatewaySettings,
    *,
    show: bool,
    resuming: Resuming | None = None,
    catalog: Catalog | None = None,
    players: int | None = None,
    dashboard: bool = False,
) -> RunInfo:
    """Run `plan` as `bench.runs.run.run` does, with `players` processes of a Ray cluster; None
    stands for one for each of its CPUs.

    Also raises `EngineError`.
    """
    ray = ray_module()
    check_options(plan)
    _check_gateway(plan, settings)
    settings, catalog = with_suite(plan.suite, settings, catalog or Catalog.load())
    began = time.perf_counter()
    async with AsyncExitStack() as parts:
        opened = RunDirectory.open(
            out,
            await to_thread.run_sync(plan.about, catalog, settings),
            suite=type(plan.suite),
            resuming=resuming,
            named=plan.names,
        )
        directory = await parts.enter_async_context(opened)
        modules = own_modules(Path.cwd())
        joined = Cluster.open(dashboard=dashboard, modules=modules)
        cluster = await parts.enter_async_context(joined)
        calls, episodes = directory.metrics.traffic.latency_ms.count, len(directory.finished)
        asked = players or await cluster.cpus()
        planned = max(1, min(asked, plan.concurrency, plan.episodes - episodes))
        work = Work.of(plan, settings, catalog, planned)
        ready: list[float] = []

        def begin(first: Opened) -> None:
            ready.extend((time.perf_counter(), time.process_time()))
            directory.about = directory.about.updated(first.about)
            directory.check_comparable()

        head = Head(
            cluster,
            work,
            await cluster.put(work),
            directory,
            owed(plan.suite, plan.episodes, directory.finished),
            players=planned if players or planned < asked else None,
            lost_with=(ray.exceptions.RayError,),
            fatal=(ray.exceptions.RayTaskError,),
            begin=begin,
        )
        shown = shown_if(show, directory, head, plan.episodes, head.hosts)
        async with Vitals.watch() as vitals, shown:
            await head.run()
        started = ready[0] if ready else time.perf_counter()
        took_s = time.perf_counter() - started
        head_cpu_s = time.process_time() - ready[1] if ready else 0.0
        made = directory.metrics.traffic.latency_ms.count - calls
        figures: dict[str, Any] = {
            "episodes": head.done,
            "episodes_before": episodes,
            "took_s": round(took_s, 3),
            "episodes_per_s": round((head.done - episodes) / took_s, 1),
            "calls_per_s": round(made / took_s, 1),
            "most_in_flight": head.most_in_flight,
            "first_errors": head.first_errors,
            "judged": head.judged,
            "failed_judgements": head.failed_judgements,
            "driver": vitals.result(),
            "engine": {
                "name": "ray",
                "version": ray.__version__,
                "start_s": round(started - began, 3),
                "nodes": await cluster.nodes(),
                "most_players": head.most_players,
                "lost_players": head.lost_players,
                "lost_episodes": head.leases.lost,
                "given_up": head.given_up,
                "head_cpu_s": round(head_cpu_s, 3),
                "players_cpu_s": round(head.players_cpu_s, 3),
            },
        }
        figures |= gone_on(directory, head.gone_on, goes_on=head.goes_on)
        if of_gateway := head.calls():
            figures["gateway_calls"] = of_gateway
        await directory.complete(figures)
    return directory.about


def _check_gateway(plan: RunPlan, settings: GatewaySettings) -> None:
    """Raises `EngineError` for a gateway that must not be embedded in many processes."""
    if plan.gateway != "embedded":
        return
    if settings.mode == "record":
        raise EngineError(
            "--engine ray can't record: a snapshot is written by one process; record with "
            "--engine local, or run with --gateway URL at a gateway in mode record"
        )
    is_live = settings.upstream == "live" and settings.mode != "offline"
    if is_live and not plan.suite.is_recorded and os.environ.get(ADDRESS):
        raise EngineError(
            "gateways embedded on several nodes can't share the quotas of live upstreams; run with "
            "--gateway URL, which all nodes reach"
        )
