"""The memory that a million rows cost that arrive as 11 KB.

A process of its own opens a gateway, asks an upstream process for one small answer, then for
1,000,000 records in gzip. Peaks of memory are the system's high-water marks (VmHWM), so Linux is
required.
"""

import asyncio
import gzip
import sys
import time
from pathlib import Path

from aiohttp import web
from pydantic import SecretStr

from bench.speed.bare_server import Handler, answering
from bench.speed.harness import Figures, Harness, NotMeasured, in_process, log
from gateway import Gateway, GatewaySettings
from manifests.common.memory import children_peak_rss_bytes, peak_rss_bytes

TOOL = "get_coin"
ROWS = 1_000_000
LOOK_S = 0.01


async def measure(harness: Harness) -> Figures:
    """MiB of the gateway's process before and at its peak, MiB of the process that reads."""
    if sys.platform != "linux":
        raise NotMeasured("it reads Linux's /proc")
    rows = harness.number(ROWS)
    log.info("%d rows are asked for", rows)
    return await in_process(_rows, await harness.serve(upstream, str(rows)))


async def _rows(folder: Path, upstream: str) -> Figures:
    settings = GatewaySettings(
        upstream="live",
        cache_dir=folder,
        rapidapi_base_url=upstream,
        rapidapi_keys=(SecretStr("made-for-the-measurement"),),
    )
    children = 0

    async def look_at_children() -> None:
        nonlocal children
        while True:
            children = max(children, children_peak_rss_bytes() or 0)
            await asyncio.sleep(LOOK_S)

    async with Gateway.open(settings) as gateway:
        await gateway.call(TOOL, {"uuid": "small", "referencecurrencyuuid": "x"})
        looking = asyncio.create_task(look_at_children())
        before = peak_rss_bytes()
        started = time.perf_counter()
        result = await gateway.call(TOOL, {"uuid": "large", "referencecurrencyuuid": "x"})
        took_s = time.perf_counter() - started
        looking.cancel()
    return {
        "rows": result.rows or 0,
        "call_s": took_s,
        "before_mib": before / 2**20,
        "peak_mib": peak_rss_bytes() / 2**20,
        "children_peak_mib": children / 2**20,
    }


async def upstream(rows: str) -> Handler:
    many = gzip.compress(b"[" + b",".join([b'{"a":1}'] * int(rows)) + b"]", mtime=0)
    small, large = answering(b'[{"a":1}]'), answering(many, headers={"Content-Encoding": "gzip"})

    async def handle(request: web.Request) -> web.StreamResponse:
        return await (small if "small" in request.path_qs else large)(request)

    return handle
