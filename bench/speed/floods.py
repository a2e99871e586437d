"""The effect of callers without a key on clients with one, on a gateway with keys.

A client with a key makes cached calls at a fixed rate. Each call is timed from when it was due, so
that a stalled gateway shows in the figures. Meanwhile callers without a key, in their own process,
send as many requests as they can on many connections. Each kind of flood is measured in turns with
an idle gateway.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from urllib.parse import urlsplit

from aiohttp import web

from bench import processes
from bench.speed.bare_server import Handler
from bench.speed.harness import Figures, Harness, MeasurementError, asked, in_turns, program, until
from bench.speed.load import Clients, Load, request

KEY = "made-for-the-measurement"
TOOL, BODY = "get_coin", b'{"uuid":"x"}'
CALLERS, CALLS_PER_S = 64, 400
CONNECTIONS, AT_ONCE = 40, 16
SECONDS, ROUNDS = 2.0, 3
DRAIN_S = 10.0
LARGE = bytes(2**20)

FLOODS = (
    *("selections", "description", "searches", "refusals"),
    *("bodies", "connections", "malformed"),
)

_OPEN, _TASKS = AsyncExitStack(), set[asyncio.Task[Load]]()
"""What lives as long as the process."""


async def measure(
    harness: Harness,
    seconds: float = SECONDS,
    rounds: int = ROUNDS,
    floods: tuple[str, ...] = FLOODS,
) -> Figures:
    """The 99th percentile of a client's cached calls in ms, idle and under each flood."""
    gateway = await harness.gateway(upstream="simulated", api_keys=KEY)
    await _idle(gateway, seconds)  # the first calls are not cached
    figures: Figures = {"connections": CONNECTIONS, "calls_per_s": CALLS_PER_S}
    for kind in floods:
        sides = {
            f"{kind}_idle": partial(_idle, gateway, seconds),
            kind: partial(_flooded, harness, gateway, kind, seconds),
        }
        turns = await in_turns(rounds, sides)
        figures |= turns.medians()
        figures[f"{kind}_times_idle"] = turns.ratio("p99_ms", kind, f"{kind}_idle")
    return figures


async def _idle(gateway: str, seconds: float) -> Figures:
    """The 99th percentile of a client's calls."""
    url = f"{gateway}/v1/tools/{TOOL}"
    call = request("POST", url, BODY, Authorization=f"Bearer {KEY}")
    async with Clients.open(url, lambda: call, CALLERS) as clients:
        load = await clients.open_loop(CALLS_PER_S, seconds, drain_s=DRAIN_S)
    if clients.first_other or load.lost:
        raise MeasurementError(f"a call was not answered: {clients.first_other or 'no answer'}")
    return {"p99_ms": load.quantile_ms(0.99)}


async def _flooded(harness: Harness, gateway: str, kind: str, seconds: float) -> Figures:
    async with processes.server(harness.folder, *program(flood), gateway, kind) as flooding:
        seen = await _idle(gateway, seconds)
        return seen | await asked(await harness.client(), flooding.url)


async def flood(gateway: str, kind: str) -> Handler:
    """Flood the gateway, and tell how many answers a second that has brought so far."""
    requests, at_once = _requests(kind, gateway), AT_ONCE if kind == "refusals" else 1
    opened = Clients.open(gateway, partial(next, requests), CONNECTIONS, at_once=at_once)
    clients = await _OPEN.enter_async_context(opened)
    _TASKS.add(asyncio.create_task(clients.closed_loop()))
    started = time.perf_counter()
    await until(lambda: clients.answers > 0)

    async def handle(_: web.Request) -> web.Response:
        per_s = clients.answers / (time.perf_counter() - started)
        return web.json_response({"answered_per_s": per_s})

    return handle


def _requests(kind: str, gateway: str) -> Iterator[bytes]:
    end = f"HTTP/1.1\r\nHost: {urlsplit(gateway).netloc}\r\n"
    for number in count():
        match kind:
            case "selections":
                names = f"source:akshare,rapidapi;names:get_coin,t{number}"
                target = "/openapi.json" + (f"?tools={names}" if number % 2 else "?tools=all")
                yield f"GET {target} {end}Accept-Encoding: gzip\r\n\r\n".encode()
            case "description":
                yield f"GET /openapi.json {end}Accept-Encoding: gzip\r\n\r\n".encode()
            case "searches":
                yield f"GET /?q=treasury+yields+of+China+{number} {end}\r\n".encode()
            case "bodies":
                head = f"POST /v1/tools/{TOOL} {end}Content-Length: {len(LARGE)}\r\n\r\n"
                yield head.encode() + LARGE
            case "malformed":
                yield f"GET / {end}No header\r\n\r\n".encode()
            case "connections":
                yield f"GET /v1/tools {end}Connection: close\r\n\r\n".encode()
            case _:
                yield f"POST /v1/tools/{TOOL} {end}Content-Length: 2\r\n\r\n{{}}".encode()
