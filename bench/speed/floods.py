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

from aiohttp import web

from bench.processes import server
from bench.speed.bare_server import Handler
from bench.speed.harness import Figures, Harness, Measure, MeasurementError, asked, program, until
from bench.speed.load import Clients, request

KEY = "made-for-the-measurement"
TOOL, BODY = "get_coin", b'{"uuid":"x"}'
CALLERS, CALLS_PER_S = 64, 400
CONNECTIONS, AT_ONCE = 40, 16
SECONDS, ROUNDS = 2.0, 3
DRAIN_S = 10.0

FLOODS = (
    *("selections", "description", "searches", "refusals"),
    *("bodies", "connections", "malformed"),
)

_OPEN, _TASKS = AsyncExitStack(), set[asyncio.Task[object]]()
"""What lives as long as the process of a flood."""


async def measure(harness: Harness) -> Figures:
    """The 99th percentile of a client's cached calls in ms, idle and under each flood."""
    gateway = await harness.gateway(upstream="simulated", api_keys=KEY)
    call = request("POST", f"{gateway}/v1/tools/{TOOL}", BODY, {"Authorization": f"Bearer {KEY}"})

    async def idle() -> Figures:
        async with Clients.open(gateway, lambda: call, CALLERS) as clients:
            await clients.open_loop(CALLS_PER_S, harness.seconds(SECONDS), DRAIN_S)
        if clients.first_other or clients.lost:
            raise MeasurementError(f"a call was not answered: {clients.first_other or 'at all'}")
        return {"p99_ms": clients.quantile_ms(0.99)}

    async def flooded(kind: str) -> Figures:
        async with server(harness.folder, *program(flood, gateway, kind)) as flooding:
            return {**await idle(), **await asked(await harness.client(), flooding.url)}

    await idle()  # the first calls are not cached
    figures: Figures = {"connections": CONNECTIONS, "calls_per_s": CALLS_PER_S}
    for kind in FLOODS:
        sides: dict[str, Measure] = {f"{kind}_idle": idle, kind: partial(flooded, kind)}
        turns = await harness.in_turns(ROUNDS, sides)
        figures |= turns.medians()
        figures[f"{kind}_times_idle"] = turns.ratio("p99_ms", kind, f"{kind}_idle")
    return figures


async def flood(gateway: str, kind: str) -> Handler:
    """Flood the gateway, and tell how many answers a second that has brought so far."""
    requests, at_once = _requests(gateway, kind), AT_ONCE if kind == "refusals" else 1
    opened = Clients.open(gateway, partial(next, requests), CONNECTIONS, at_once=at_once)
    clients = await _OPEN.enter_async_context(opened)
    _TASKS.add(asyncio.create_task(clients.closed_loop()))
    started = time.perf_counter()
    await until(lambda: clients.answers > 0)

    async def handle(_: web.Request) -> web.Response:
        per_s = clients.answers / (time.perf_counter() - started)
        return web.json_response({"answered_per_s": per_s})

    return handle


def _requests(gateway: str, kind: str) -> Iterator[bytes]:
    large, url = bytes(2**20), f"{gateway}/v1/tools/{TOOL}"
    described, zipped = f"{gateway}/openapi.json", {"Accept-Encoding": "gzip"}
    for number in count():
        match kind:
            case "selections":
                names = f"source:akshare,rapidapi;names:get_coin,t{number}" if number % 2 else "all"
                yield request("GET", f"{described}?tools={names}", headers=zipped)
            case "description":
                yield request("GET", described, headers=zipped)
            case "searches":
                yield request("GET", f"{gateway}/?q=treasury+yields+of+China+{number}")
            case "bodies":
                yield request("POST", url, large)
            case "malformed":
                yield b"GET / HTTP/1.1\r\nNo header\r\n\r\n"
            case "connections":
                yield request("GET", f"{gateway}/v1/tools", headers={"Connection": "close"})
            case _:
                yield request("POST", url, b"{}")
