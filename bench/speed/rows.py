"""The cost of a million rows that arrive as 11 KB: memory, and how long the event loop is blocked.

A process of its own opens a gateway, asks an upstream process for one small answer, then for
1,000,000 records in gzip. Peaks of memory are the system's high-water marks (VmHWM), so Linux
is required. Run as a program, this module is the upstream, or with its URL the measured process.
"""

import asyncio
import contextlib
import gzip
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import uvloop
from aiohttp import web
from anyio import to_thread
from pydantic import SecretStr

from bench.speed.baselines.bare_server import serve
from bench.speed.servers import server
from gateway import Gateway, GatewaySettings

log = logging.getLogger("finbench.speed")

TOOL = "get_coin"
ROWS = 1_000_000
SMALL, LARGE = "small", "large"
TICK_S = 0.001
LOOK_S = 0.01
WARM_UP_S = 0.2

Figures = dict[str, float | str]


async def rows() -> Figures:
    """MiB of the gateway's process before and at its peak, MiB of the process that reads, ms."""
    if sys.platform != "linux":
        return {"rows": "not measured: it reads Linux's /proc"}
    python = (sys.executable, "-P", "-m", "bench.speed.rows")
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        log.info("%d rows are asked for", ROWS)
        async with server(Path(name), *python) as upstream:
            measured = await asyncio.create_subprocess_exec(
                *(*python, upstream), cwd=name, stdout=asyncio.subprocess.PIPE
            )
            said, _ = await measured.communicate()
    figures: Figures = orjson.loads(said)
    return figures


async def _measure(upstream: str) -> Figures:
    settings = GatewaySettings(
        upstream="live",
        cache_dir=Path("cache"),
        rapidapi_base_url=upstream,
        rapidapi_keys=(SecretStr("made-for-the-measurement"),),
    )
    async with Gateway.open(settings) as gateway:
        await gateway.call(TOOL, {"uuid": SMALL, "referencecurrencyuuid": "x"})
        before = _peak_bytes(os.getpid())
        async with _watching() as seen:
            started = time.perf_counter()
            result = await gateway.call(TOOL, {"uuid": LARGE, "referencecurrencyuuid": "x"})
            took_s = time.perf_counter() - started
    return {
        "rows": result.rows or 0,
        "call_s": took_s,
        "loop_stood_ms": seen["loop_s"] * 1e3,
        "before_mib": before / 2**20,
        "peak_mib": _peak_bytes(os.getpid()) / 2**20,
        "children_peak_mib": seen["children_bytes"] / 2**20,
    }


@asynccontextmanager
async def _watching() -> AsyncIterator[dict[str, float]]:
    """The longest time that the loop was held, and the sum of the children's memory peaks."""
    seen = {"loop_s": 0.0, "children_bytes": 0.0}

    async def loop_stands() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_S)
            seen["loop_s"] = max(seen["loop_s"], time.perf_counter() - before - TICK_S)

    def children_grow() -> None:
        peaks: dict[int, int] = {}
        while not ended.is_set():
            for child in _children():
                with contextlib.suppress(OSError, StopIteration):
                    peaks[child] = _peak_bytes(child)
            time.sleep(LOOK_S)
        seen["children_bytes"] = sum(peaks.values())

    ended = asyncio.Event()
    tasks = [
        asyncio.create_task(loop_stands()),
        asyncio.create_task(to_thread.run_sync(children_grow)),
    ]
    try:
        await asyncio.sleep(WARM_UP_S)
        seen["loop_s"] = 0.0
        yield seen
    finally:
        ended.set()
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _children() -> Iterator[int]:
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            yield from map(int, (task / "children").read_text().split())


def _peak_bytes(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _large() -> bytes:
    return gzip.compress(b"[" + b",".join([b'{"a":1}'] * ROWS) + b"]", mtime=0)


async def _serve() -> None:
    large = _large()

    async def handle(request: web.Request) -> web.Response:
        if SMALL in request.path_qs:
            return web.Response(body=b'[{"a":1}]', content_type="application/json")
        headers = {"Content-Encoding": "gzip"}
        return web.Response(body=large, content_type="application/json", headers=headers)

    await serve("upstream", [web.get("/{path:.*}", handle)])


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.stdout.buffer.write(orjson.dumps(uvloop.run(_measure(sys.argv[1]))))
    else:
        uvloop.run(_serve())
