"""What is left of the gateway's throughput when more calls come than it can make.

Every call is one that no kept answer serves, to an upstream process that takes 50 ms and may be
asked 32 times at once: the limits bind before the processor does, as an operator should set them.
Peak is the best that clients see who wait for their answers; then calls come at twice and five
times that rate whether answered or not. Run as a program, this module is the upstream.
"""

import asyncio
import logging
import statistics
import sys
import tempfile
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import orjson
import uvloop
from aiohttp import web

from bench.speed.servers import server

log = logging.getLogger("finbench.speed")

TOOL = "get_coin"
LATENCY_S = 0.05
PER_HOST, PENDING = 32, 64
CLIENTS = (32, 64)
CONNECTIONS = 1_000
SECONDS = 5.0
LOADS = (2, 5)
TICK_S = 0.005

Figures = dict[str, float | str]


async def overload(seconds: float = SECONDS) -> Figures:
    """Calls a second answered and refused at each load, and ms to the 99th percentile of both."""
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        folder = Path(name)
        settings = {
            "FINPORT_CACHE_DIR": str(folder / "cache"),
            "FINPORT_RAPIDAPI_KEYS": "made-for-the-measurement",
            "FINPORT_MAX_PENDING_CALLS": str(PENDING),
            "FINPORT_MAX_CONCURRENCY_PER_HOST": str(PER_HOST),
        }
        python = (sys.executable, "-P", "-m")
        serve = (*python, "gateway.cli.main", "serve", "--port", "0", "--until-stdin-closes")
        async with server(folder, *python, "bench.speed.overload") as upstream:
            settings["FINPORT_RAPIDAPI_BASE_URL"] = upstream
            async with server(folder, *serve, **settings) as url:
                load = _Load(url)
                peaks = []
                for clients in CLIENTS:
                    log.info("%d clients that wait for their answers", clients)
                    peaks.append(await load.closed(clients, seconds))
                figures: Figures = {
                    "per_host": PER_HOST,
                    "pending": PENDING,
                    "upstream_ms": LATENCY_S * 1e3,
                    "peak_calls_per_s": max(peaks),
                }
                for times in LOADS:
                    log.info("%g times as many calls as at the peak", times)
                    seen = await load.open(times * max(peaks), seconds)
                    share = seen["answered_per_s"] / max(peaks)
                    told = {"goodput_share": share, **seen}
                    figures |= {f"at_{times}x_{name}": value for name, value in told.items()}
                return figures


class _Connection(asyncio.Protocol):
    """One keep-alive connection with one call under way at most."""

    def __init__(self, load: "_Load") -> None:
        self.transport: asyncio.Transport
        self._load = load
        self._received = b""
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._load.statuses["lost"] += 1

    def send(self) -> None:
        self._sent_at = time.perf_counter()
        self.transport.write(self._load.next_request())

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        _, _, after = head.lower().partition(b"content-length: ")
        if len(body) >= int(after.partition(b"\r\n")[0]):
            self._received = b""
            took_ms = (time.perf_counter() - self._sent_at) * 1e3
            self._load.ended(self, head[9:12].decode(), took_ms)


class _Load:
    """Clients of one gateway; every call is another one."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._head = f"POST /v1/tools/{TOOL} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        self._numbers = count()
        self._free: list[_Connection] = []
        self._again = False
        self.statuses: Counter[str] = Counter()
        self._took_ms: dict[str, list[float]] = {}

    def next_request(self) -> bytes:
        arguments = {"uuid": "x", "referencecurrencyuuid": str(next(self._numbers))}
        body = orjson.dumps(arguments)
        return f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def ended(self, connection: _Connection, status: str, took_ms: float) -> None:
        self.statuses[status] += 1
        self._took_ms.setdefault(status, []).append(took_ms)
        if self._again:
            connection.send()
        else:
            self._free.append(connection)

    async def closed(self, clients: int, seconds: float) -> float:
        """Calls a second that are answered when `clients` wait for their answers."""
        connections = await self._connect(clients)
        self._again = True
        for connection in connections:
            connection.send()
        await asyncio.sleep(seconds / 5)
        self.statuses.clear()
        started = time.perf_counter()
        await asyncio.sleep(seconds)
        rate = self.statuses["200"] / (time.perf_counter() - started)
        self._close(connections)
        return rate

    async def open(self, per_second: float, seconds: float) -> dict[str, float]:
        """What comes of `per_second` calls a second, answered or not."""
        connections = await self._connect(CONNECTIONS)
        self._free = list(connections)
        self._again = False
        sent = unsent = 0
        started = time.perf_counter()
        self.statuses.clear()
        self._took_ms.clear()
        while (passed := time.perf_counter() - started) < seconds:
            for _ in range(int(passed * per_second) - sent - unsent):
                if self._free:
                    self._free.pop().send()
                    sent += 1
                else:
                    unsent += 1
            await asyncio.sleep(TICK_S)
        lasted_s = time.perf_counter() - started
        rates = {status: number / lasted_s for status, number in self.statuses.items()}
        self._close(connections)
        return {
            "offered_per_s": (sent + unsent) / lasted_s,
            "unsent_per_s": unsent / lasted_s,
            "answered_per_s": rates.pop("200", 0.0),
            "refused_per_s": rates.pop("503", 0.0),
            "others_per_s": sum(rates.values()),
            "answered_p99_ms": _p99(self._took_ms.get("200", [])),
            "refused_p99_ms": _p99(self._took_ms.get("503", [])),
        }

    async def _connect(self, number: int) -> list[_Connection]:
        loop, connections = asyncio.get_running_loop(), []
        for _ in range(number):
            _, one = await loop.create_connection(lambda: _Connection(self), *self._address)
            connections.append(one)
        return connections

    def _close(self, connections: list[_Connection]) -> None:
        self._again = False
        for connection in connections:
            connection.transport.abort()


def _p99(took_ms: list[float]) -> float:
    return statistics.quantiles(took_ms, n=100)[98] if len(took_ms) > 1 else 0.0


async def _serve_upstream() -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(LATENCY_S)
        return web.json_response({"data": {"coin": {"price": "1.5", "symbol": "SIM"}}})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    url = "http://127.0.0.1:{1}".format(*runner.addresses[0])
    print(f"upstream ready on {url}", flush=True)  # noqa: T201
    ended = asyncio.Event()  # with the process that started this one
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(_serve_upstream())
