"""How five hanging AkShare hosts affect the healthy ones: ms a call, beside the same calls alone.

All hosts are one upstream process, which answers one of AkShare's functions at once and no other.
The five hang with as many calls as a host may have under way.
"""

import asyncio
import time
from contextlib import suppress
from importlib.util import find_spec

from aiohttp import web

from adapters.akshare.adapter import AkShareAdapter
from adapters.fault import UpstreamFault
from adapters.host import registrable_domain
from adapters.simulator import FUNCTIONS
from bench.speed.akshare import DAYS, SOURCE, TOOL, bars
from bench.speed.bare_server import Handler, answering
from bench.speed.harness import Figures, Harness, NotMeasured, latencies, log
from gateway import GatewaySettings
from manifests import Catalog, Manifest, Signature

HANGING = 5
CALLS = 200
SETTLE_S = 2.0


async def measure(harness: Harness) -> Figures:
    """Latencies with the default threads and the default deadline of an attempt."""
    if find_spec("akshare") is None:
        raise NotMeasured("AkShare is not installed")
    settings = {name: field.default for name, field in GatewaySettings.model_fields.items()}
    healthy, hanging = _tools(Catalog.load())
    opened = AkShareAdapter.open(
        [TOOL, *(tool.name for tool in hanging)],
        base_url=await harness.serve(upstream),
        workers=settings["akshare_workers"],
        threads=settings["akshare_threads"],
    )
    adapter = await harness.parts.enter_async_context(opened)

    async def took_s() -> float:
        started = time.perf_counter()
        await adapter.fetch(healthy, {"symbol": "600519", **DAYS}, 600)
        return time.perf_counter() - started

    async def hang(tool: Manifest) -> None:
        arguments = Signature(tool).bind(tool.sample())
        while True:
            with suppress(UpstreamFault):
                await adapter.fetch(tool, arguments, settings["attempt_timeout_s"])

    await asyncio.gather(*(took_s() for _ in range(16)))
    log.info("a healthy host alone")
    calls = range(max(harness.number(CALLS), 2))
    alone = latencies([await took_s() for _ in calls])
    a_host = range(settings["max_concurrency_per_host"])
    tasks = [asyncio.create_task(hang(tool)) for tool in hanging for _ in a_host]
    await asyncio.sleep(SETTLE_S)
    log.info("the same beside %d hosts that hang", HANGING)
    beside = latencies([await took_s() for _ in calls])
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "hanging_hosts": HANGING,
        "hanging_calls": len(tasks),
        "threads": settings["akshare_workers"] * settings["akshare_threads"],
        **{f"alone_{name}": value for name, value in alone.items()},
        **{f"beside_{name}": value for name, value in beside.items()},
    }


def _tools(catalog: Catalog) -> tuple[Manifest, list[Manifest]]:
    """The healthy tool, and one tool of each host that hangs."""
    known = {tool.name: tool for tool in catalog if tool.name in FUNCTIONS}
    by_host = {
        registrable_domain(tool.upstream): tool
        for _, tool in sorted(known.items())
        if tool.upstream != "unknown"
    }
    del by_host[registrable_domain(known[TOOL].upstream)]
    return known[TOOL], list(by_host.values())[:HANGING]


async def upstream() -> Handler:
    answer = answering(*bars())

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path != SOURCE[1]:
            await asyncio.Event().wait()
        return await answer(request)

    return handle
