"""The gateway's throughput when more calls arrive than it can make.

No call can be answered from a cache. The upstream process takes 50 ms and may be asked 32 times at
once, so the limits bind before the processor does, as an operator should set them. The peak is the
best throughput of clients that wait for their answers. Then calls arrive at two and five times that
rate, whether answered or not. Run as a program, this module is the upstream.
"""

import asyncio
import logging
import sys
import tempfile
from itertools import count
from pathlib import Path

import orjson
import uvloop
from aiohttp import web

from bench.speed.baselines.bare_server import serve
from bench.speed.load import Clients
from bench.speed.servers import server

log = logging.getLogger("finbench.speed")

TOOL = "get_coin"
LATENCY_S = 0.05
PER_HOST, PENDING = 32, 64
CLIENTS = (32, 64)
CONNECTIONS = 1_000
SECONDS = 5.0
LOADS = (2, 5)

_NUMBERS = count()

Figures = dict[str, float | str]


async def overload(seconds: float = SECONDS) -> Figures:
    """Calls a second answered and refused at each load, and the 99th percentile of both in ms."""
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        folder = Path(name)
        settings = {
            "FINPORT_CACHE_DIR": str(folder / "cache"),
            "FINPORT_RAPIDAPI_KEYS": "made-for-the-measurement",
            "FINPORT_MAX_PENDING_CALLS": str(PENDING),
            "FINPORT_MAX_CONCURRENCY_PER_HOST": str(PER_HOST),
        }
        python = (sys.executable, "-P", "-m")
        gateway = (*python, "gateway.cli.main", "serve", "--port", "0", "--until-stdin-closes")
        async with server(folder, *python, "bench.speed.overload") as upstream:
            settings["FINPORT_RAPIDAPI_BASE_URL"] = upstream
            async with server(folder, *gateway, **settings) as url:
                calls = f"{url}/v1/tools/{TOOL}"
                peaks = []
                for clients in CLIENTS:
                    log.info("%d clients that wait for their answers", clients)
                    peaks.append(await _closed(calls, clients, seconds))
                figures: Figures = {
                    "per_host": PER_HOST,
                    "pending": PENDING,
                    "upstream_ms": LATENCY_S * 1e3,
                    "peak_calls_per_s": max(peaks),
                }
                for times in LOADS:
                    log.info("%g times as many calls as at the peak", times)
                    seen = await _open(calls, times * max(peaks), seconds)
                    share = seen["answered_per_s"] / max(peaks)
                    measured = {"goodput_share": share, **seen}
                    figures |= {f"at_{times}x_{name}": value for name, value in measured.items()}
                return figures


async def _closed(url: str, clients: int, seconds: float) -> float:
    """Answered calls a second of `clients` that wait for their answers."""
    async with Clients.open(url, _body, clients) as connections:
        return (await connections.closed_loop(seconds, seconds / 5)).per_s()


async def _open(url: str, per_s: float, seconds: float) -> dict[str, float]:
    """The results of `per_s` calls a second, answered or not."""
    async with Clients.open(url, _body, CONNECTIONS) as connections:
        load = await connections.open_loop(per_s, seconds)
    others = load.took_s.keys() - {"200", "503"}
    return {
        "offered_per_s": (load.sent + load.unsent) / load.lasted_s,
        "unsent_per_s": load.unsent / load.lasted_s,
        "answered_per_s": load.per_s(),
        "refused_per_s": load.per_s("503"),
        "others_per_s": sum(map(load.per_s, others)) + load.lost / load.lasted_s,
        "answered_p99_ms": load.quantile_ms(0.99),
        "refused_p99_ms": load.quantile_ms(0.99, "503"),
    }


def _body() -> bytes:
    """Arguments of a call, different each time."""
    return orjson.dumps({"uuid": "x", "referencecurrencyuuid": str(next(_NUMBERS))})


async def _serve_upstream() -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(LATENCY_S)
        return web.json_response({"data": {"coin": {"price": "1.5", "symbol": "SIM"}}})

    await serve("upstream", [web.get("/{path:.*}", answer)], backlog=1024)


if __name__ == "__main__":
    uvloop.run(_serve_upstream())
