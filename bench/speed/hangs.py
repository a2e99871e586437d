"""How five hanging AkShare hosts affect the healthy ones: ms a call, beside the same calls alone.

All hosts are one upstream process, which answers one of AkShare's functions at once and no other.
The five hang with as many calls as a host may have under way. Run as a program, this module is the
upstream.
"""

import asyncio
import logging
import random
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from importlib.util import find_spec
from pathlib import Path

import uvloop
from aiohttp import web

from adapters.akshare.adapter import AkShareAdapter
from adapters.fault import UpstreamFault
from adapters.host import registrable_domain
from adapters.simulator import FUNCTIONS
from adapters.simulator.akshare import PAYLOADS
from bench.speed.akshare import DAYS, SOURCE, TOOL
from bench.speed.baselines.bare_server import serve
from bench.speed.servers import server
from gateway.settings import GatewaySettings
from manifests import Catalog, Manifest, Signature

log = logging.getLogger("finbench.speed")

HANGING = 5
CALLS = 200
SETTLE_S = 2.0

Figures = dict[str, float | str]


async def hangs() -> Figures:
    """Measure as described above, with the default threads and the default deadline of an
    attempt.
    """
    if find_spec("akshare") is None:
        return {"hangs": "not measured: AkShare is not installed"}
    settings = {name: field.default for name, field in GatewaySettings.model_fields.items()}
    catalog = Catalog.load()
    healthy, hanging = _tools(catalog)
    async with AsyncExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="finport-speed-")))
        command = (sys.executable, "-P", "-m", "bench.speed.hangs")
        upstream = await parts.enter_async_context(server(folder, *command))
        adapter = await parts.enter_async_context(
            AkShareAdapter.open(
                [TOOL, *(tool.name for tool in hanging)],
                base_url=upstream,
                workers=settings["akshare_workers"],
                threads=settings["akshare_threads"],
            )
        )
        await asyncio.gather(*(_took_ms(adapter, healthy) for _ in range(16)))
        log.info("a healthy host alone")
        alone = [await _took_ms(adapter, healthy) for _ in range(CALLS)]
        tasks = [
            asyncio.create_task(_hang(adapter, tool, settings["attempt_timeout_s"]))
            for tool in hanging
            for _ in range(settings["max_concurrency_per_host"])
        ]
        await asyncio.sleep(SETTLE_S)
        log.info("the same beside %d hosts that hang", HANGING)
        beside = [await _took_ms(adapter, healthy) for _ in range(CALLS)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "hanging_hosts": HANGING,
        "hanging_calls": len(tasks),
        "threads": settings["akshare_workers"] * settings["akshare_threads"],
        "alone_p50_ms": statistics.median(alone),
        "alone_p99_ms": statistics.quantiles(alone, n=100)[98],
        "beside_p50_ms": statistics.median(beside),
        "beside_p99_ms": statistics.quantiles(beside, n=100)[98],
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


async def _took_ms(adapter: AkShareAdapter, tool: Manifest) -> float:
    started = time.perf_counter()
    await adapter.fetch(tool, {"symbol": "600519", **DAYS}, 600)
    return (time.perf_counter() - started) * 1e3


async def _hang(adapter: AkShareAdapter, tool: Manifest, timeout_s: float) -> None:
    arguments = Signature(tool).bind(tool.sample())
    while True:
        with suppress(UpstreamFault):
            await adapter.fetch(tool, arguments, timeout_s)


async def _serve() -> None:
    query = {"secid": "1.600519", "beg": DAYS["start_date"], "end": DAYS["end_date"]}
    payload = PAYLOADS[SOURCE](query, random.Random(0))  # noqa: S311 - sample data

    async def handle(request: web.Request) -> web.Response:
        if request.path != SOURCE[1]:
            await asyncio.Event().wait()
        return web.Response(body=payload.body, content_type=payload.content_type)

    await serve("upstream", [web.route("*", "/{path:.*}", handle)])


if __name__ == "__main__":
    uvloop.run(_serve())
