"""Four gateways with one Redis under load, while Redis is killed, emptied, paused and read-only.

Each gateway is a process of its own with a cache folder of its own, as on a host of its own. They
share a simulated upstream in this process, which counts requests. `lost` counts calls without an
answer. A shared miss is one call to each gateway that none has cached; the ideal is one request.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import aiohttp

from adapters.simulator import Faults, SimulatedUpstream
from bench import processes
from bench.speed.harness import Figures, Harness, NotMeasured, asked, each, latencies, log
from manifests import Catalog
from tests.support.redis_server import RedisServer, is_installed, redis_server

GATEWAYS = 4
MISSES, IDENTICAL = 1_000, 64
"""Names that are asked of every gateway, and identical calls to each."""
PHASE_S = 5.0
AT_ONCE = 16
HOT = 200
RETURN_S = 30.0


async def measure(harness: Harness) -> Figures:
    """What of all this is lost, or asked upstream more than once."""
    if not is_installed():
        raise NotMeasured("redis-server is not installed")
    enter, every = harness.parts.enter_async_context, []
    redis = await enter(redis_server(harness.folder))
    simulated = SimulatedUpstream.open(Catalog.load(), faults=Faults(latency_s=0.005))
    upstream = await enter(simulated)
    settings: dict[str, Any] = {
        "rapidapi_keys": "no-real-key",
        "rapidapi_base_url": upstream.base_url,
        "akshare_base_url": upstream.base_url,
        "redis_url": redis.url,
        "max_concurrency_per_host": 64,
    }
    for number in range(GATEWAYS):
        own = harness.folder / f"gateway-{number}"
        own.mkdir()
        every.append(await enter(processes.gateway(own, quiet=True, **settings)))
    fleet = _Fleet(every, await harness.client(), upstream, harness.number(MISSES))
    await fleet.know_each_other()
    log.info("shared misses, and what an answer costs")
    before_s = await _cpu_s(redis)
    figures = await fleet.ask_all("before", fleet.misses)
    spent_s = await _cpu_s(redis) - before_s
    figures["redis_cpu_us_a_miss"] = round(spent_s / fleet.misses * 1e6)
    await asyncio.sleep(0.5)  # answers are written behind the calls
    held = int((await redis.info("memory"))["used_memory_dataset"])
    figures["redis_bytes_an_answer"] = round(held / fleet.misses)
    figures |= await _waits(fleet)
    log.info("identical misses on every gateway")
    figures |= await fleet.ask_all("identical", 1, times=harness.number(IDENTICAL))
    log.info("Redis goes and comes back under load")
    return figures | await _outages(fleet, redis, harness.seconds(PHASE_S))


async def _cpu_s(redis: RedisServer) -> float:
    spent = await redis.info("cpu")
    return float(spent["used_cpu_user"]) + float(spent["used_cpu_sys"])


@dataclass(slots=True)
class _Fleet:
    """The gateways, a client for them, and the upstream that they share."""

    every: list[processes.Server]
    client: aiohttp.ClientSession
    upstream: SimulatedUpstream
    misses: int
    named: int = 0

    def new_name(self) -> str:
        """The name of a coin that nobody has asked for."""
        self.named += 1
        return f"coin-{self.named}"

    def requests(self) -> int:
        """Requests to the upstream so far."""
        return sum(self.upstream.requests.values())

    async def call(self, url: str, name: str) -> bool:
        """Whether a call is answered."""
        try:
            said = await asked(
                self.client, f"{url}/v1/tools/get_coin", b'{"uuid":"%b"}' % name.encode()
            )
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return False
        return bool(said["ok"])

    async def know_each_other(self) -> None:
        """Until every gateway knows of all, and may write to Redis."""
        async with asyncio.timeout(RETURN_S):
            for gateway in self.every:
                known: Any = ()
                while known != ("ok", len(self.every)):
                    await asyncio.sleep(0.05)
                    said = await asked(self.client, f"{gateway.url}/healthz")
                    known = (said["redis"], said["together"]["gateways"])

    async def ask_all(self, name: str, coins: int, times: int = 1) -> Figures:
        """Each of so many new coins is asked for that often of every gateway at once."""
        before, outcomes = self.requests(), list[bool]()

        async def ask(coin: str) -> None:
            calls = (self.call(url, coin) for url, _ in self.every * times)
            outcomes.extend(await asyncio.gather(*calls))

        await each([self.new_name() for _ in range(coins)], AT_ONCE, ask)
        return {
            f"{name}_calls": len(outcomes),
            f"{name}_requests": self.requests() - before,
            f"{name}_lost": outcomes.count(False),
        }


async def _waits(fleet: _Fleet) -> Figures:
    """How long one caller waits, by where the answer is."""
    (one, _), (other, _) = fleet.every[:2]
    took_ms: dict[str, list[float]] = {"upstream": [], "redis": [], "memory": []}
    for _ in range(max(fleet.misses // 4, 10)):
        coin = fleet.new_name()
        for (place, took), url in zip(took_ms.items(), (one, other, other), strict=True):
            began = time.perf_counter()
            await fleet.call(url, coin)
            took.append((time.perf_counter() - began) * 1e3)
            if place == "upstream":
                await asyncio.sleep(0.005)  # it is written to Redis behind the answer
    return {f"{place}_p50_ms": round(statistics.median(ms), 2) for place, ms in took_ms.items()}


async def _outages(fleet: _Fleet, redis: RedisServer, seconds: float) -> Figures:
    async def nothing() -> None: ...

    phases: dict[str, Callable[[], Awaitable[object]]] = {
        "there": nothing,
        "killed": redis.kill,
        "begun_empty": redis.start,
        "paused": partial(asyncio.to_thread, redis.pause),
        "resumed": partial(asyncio.to_thread, redis.resume),
        "read_only": partial(redis.tell, "REPLICAOF", "127.0.0.1", "1"),
        "writable": partial(redis.tell, "REPLICAOF", "NO", "ONE"),
    }
    figures: Figures = {"outage_calls": 0, "outage_lost": 0}
    for name, happens in phases.items():
        took_s, lost = await _phase(fleet, happens, seconds)
        figures["outage_calls"] += len(took_s)
        figures["outage_lost"] += lost
        figures[f"{name}_p99_ms"] = round(latencies(took_s)["p99_ms"], 1)
        if name in ("begun_empty", "resumed", "writable"):
            await fleet.know_each_other()
            figures |= await fleet.ask_all(f"after_{name}", fleet.misses)
    return figures


async def _phase(
    fleet: _Fleet, happens: Callable[[], Awaitable[object]], seconds: float
) -> tuple[list[float], int]:
    """Seconds of calls while something happens and for some time after it, and how many failed. One
    call in five is a miss.
    """
    took_s: list[float] = []
    lost, over = 0, asyncio.Event()

    async def caller(url: str, number: int) -> None:
        nonlocal lost
        while not over.is_set():
            coin = f"hot-{number * 7 % HOT}" if number % 5 else fleet.new_name()
            began = time.perf_counter()
            lost += not await fleet.call(url, coin)
            took_s.append(time.perf_counter() - began)
            number += 1

    async with asyncio.TaskGroup() as callers:
        for (url, _), number in product(fleet.every, range(AT_ONCE)):
            callers.create_task(caller(url, number))
        await happens()
        await asyncio.sleep(seconds)
        over.set()
    return took_s, lost
