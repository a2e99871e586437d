"""The engine that plays the episodes of a run on Ray."""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from bench.engines.cluster import ADDRESS, Cluster, EngineError, own_modules, ray_module
from bench.engines.head import Head
from bench.engines.work import Work, check_options
from bench.runs.directory import RunDirectory
from bench.runs.run import RunPlan
from gateway import GatewaySettings
from manifests import Catalog


@asynccontextmanager
async def on_ray(
    plan: RunPlan,
    settings: GatewaySettings,
    catalog: Catalog,
    *,
    players: int | None = None,
    dashboard: bool = False,
) -> AsyncIterator[Callable[[RunDirectory], AbstractAsyncContextManager[Head]]]:
    """An engine of `players` processes of a Ray cluster; None stands for one for each of its CPUs.

    Raises `EngineError`, and so does what it gives.
    """
    ray = ray_module()
    check_options(plan)
    _check_gateway(plan, settings)

    @asynccontextmanager
    async def start(directory: RunDirectory) -> AsyncIterator[Head]:
        began = time.perf_counter()
        joined = Cluster.open(ray, dashboard=dashboard, modules=own_modules(Path.cwd()))
        async with joined as cluster:
            asked = players or await cluster.cpus()
            left = plan.episodes - len(directory.finished)
            planned = max(1, min(asked, plan.concurrency, left))
            work = Work.of(plan, settings, catalog, planned)
            fixed = planned if players or planned < asked else None
            head = Head(cluster, work, await cluster.put(work), directory, players=fixed)
            yield head
            await head.complete_figures(since=began)

    yield start


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
