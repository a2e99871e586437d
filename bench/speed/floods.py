"""The gateway under requests of callers without a key, and under more calls than it can make.

First a client with a key makes cached calls at a fixed rate, while callers without a key, in their
own process, send as many requests as they can. Each kind is measured in turns with an idle gateway.

Then calls with a key arrive that no cache can answer. The upstream process takes 50 ms and may be
asked 32 times at once, so the limits bind before the processor does, as an operator should set
them. The peak is the best throughput of clients that wait for their answers. After that, calls
arrive at two and five times that rate, whether answered or not.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from itertools import count

from aiohttp import web

from bench.processes import server
from bench.speed.bare_server import Handler, answering
from bench.speed.harness import (
    Figures,
    Harness,
    Measure,
    MeasurementError,
    asked,
    log,
    program,
    until,
)
from bench.speed.load import Clients, request

KEY = "made-for-the-measurement"
TOOL, BODY = "get_coin", b'{"uuid":"x"}'

LATENCY_S, PER_HOST, PENDING = 0.05, 32, 64
AT_PEAK = (32, 64)
LOADS, LOADED_S, OPEN = (2, 5), 5.0, 1_000

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
    """The 99th percentile of a client's cached calls in ms, idle and under each flood; calls a
    second answered and refused at each load.
    """
    gateway = await harness.gateway(
        rapidapi_base_url=await harness.serve(upstream),
        rapidapi_keys=KEY,
        api_keys=KEY,
        max_pending_calls=PENDING,
        max_concurrency_per_host=PER_HOST,
    )
    return await _flooded(harness, gateway) | await _loaded(harness, gateway)


def _call(gateway: str, body: bytes) -> bytes:
    return request("POST", f"{gateway}/v1/tools/{TOOL}", body, {"Authorization": f"Bearer {KEY}"})


async def _flooded(harness: Harness, gateway: str) -> Figures:
    async def idle() -> Figures:
        async with Clients.open(gateway, partial(_call, gateway, BODY), CALLERS) as clients:
            await clients.open_loop(CALLS_PER_S, harness.seconds(SECONDS), DRAIN_S)
        if clients.first_other or clients.lost:
            raise MeasurementError(f"a call was not answered: {clients.first_other or 'at all'}")
        return {"p99_ms": clients.quantile_ms(0.99)}

    async def flooded(kind: str) -> Figures:
        async with server(harness.folder, *program(flood, gateway, kind)) as flooding:
            return {**await idle(), **await asked(await harness.client(), flooding.url)}

    await idle()  # the first calls are not cached
    figures: Figures = {}
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


async def _loaded(harness: Harness, gateway: str) -> Figures:
    numbers, seconds, peak = count(), harness.seconds(LOADED_S), 0.0

    def call() -> bytes:
        return _call(gateway, b'{"uuid":"x","referencecurrencyuuid":"%d"}' % next(numbers))

    for connections in AT_PEAK:
        log.info("%d clients that wait for their answers", connections)
        async with Clients.open(gateway, call, connections) as clients:
            await clients.closed_loop(seconds, warm_up_s=seconds / 5)
            peak = max(peak, clients.per_s())
    figures: Figures = {"per_host": PER_HOST, "pending": PENDING, "peak_calls_per_s": peak}
    for times in LOADS:
        log.info("%g times as many calls as at the peak", times)
        async with Clients.open(gateway, call, OPEN) as load:
            await load.open_loop(times * peak, seconds)
        others = load.took_s.keys() - {"200", "503"}
        figures |= {
            f"at_{times}x_goodput_share": load.per_s() / peak,
            f"at_{times}x_answered_per_s": load.per_s(),
            f"at_{times}x_refused_per_s": load.per_s("503"),
            f"at_{times}x_unsent_per_s": load.unsent / load.lasted_s,
            f"at_{times}x_others_per_s": sum(map(load.per_s, others)) + load.lost / load.lasted_s,
        }
    return figures


async def upstream() -> Handler:
    return answering(b'{"data":{"coin":{"price":"1.5","symbol":"SIM"}}}', after_s=LATENCY_S)
