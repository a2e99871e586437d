"""Four gateways with one Redis under load, while Redis is killed, emptied, paused and read-only.

Each gateway is a process of its own with a cache folder of its own, as on a host of its own. They
share a simulated upstream in this process, which counts requests. `lost` counts calls without an
answer. A shared miss is one call to each gateway that none has cached; the ideal is one request.
"""

import asyncio
import signal
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import aiohttp
import orjson

from adapters.simulator import Faults, SimulatedUpstream
from bench import processes
from bench.speed.harness import Figures, Harness, NotMeasured, asked, each, latencies, log, until
from manifests import Catalog
from tests.support.redis_server import RedisServer, is_installed, redis_server

GATEWAYS = 4
TOOL, PARAMETER = "get_coin", "uuid"
QUOTA_TOOL, QUOTA_PARAMETER = "get_cryptocurrency_details", "crypto_name"
QUOTA_HOST = "crypto-update-live.p.rapidapi.com"
AT_ONCE = 16
HOT = 200
RETURN_S = 30.0


@dataclass(frozen=True, slots=True)
class Size:
    """How many misses, identical calls to each gateway, seconds a phase, and how large a quota."""

    misses: int = 1_000
    identical: int = 64
    phase_s: float = 5.0
    quota: int = 2_000


DEFAULT = Size()


async def measure(harness: Harness, size: Size = DEFAULT) -> Figures:
    """What of all this is lost, asked upstream more than once, or spent beyond the quota."""
    if not is_installed():
        raise NotMeasured("redis-server is not installed")
    enter = harness.parts.enter_async_context
    redis = await enter(redis_server(harness.folder))
    simulated = SimulatedUpstream.open(Catalog.load(), faults=Faults(latency_s=0.005))
    upstream = await enter(simulated)
    settings = {
        "rapidapi_keys": "no-real-key",
        "rapidapi_base_url": upstream.base_url,
        "akshare_base_url": upstream.base_url,
        "redis_url": redis.url,
        "max_concurrency_per_host": 64,
        "hosts": orjson.dumps({QUOTA_HOST: {"per_month": size.quota}}).decode(),
    }
    every = []
    for number in range(GATEWAYS):
        own = harness.folder / f"gateway-{number}"
        own.mkdir()
        every.append(await enter(processes.gateway(own, quiet=True, **settings)))
    fleet = _Fleet(every, await harness.client(), upstream, size)
    await fleet.know_each_other()
    log.info("shared misses, and what an answer costs")
    before_s = await _cpu_s(redis)
    figures = await fleet.misses("before")
    spent_s = await _cpu_s(redis) - before_s
    figures["redis_cpu_us_a_miss"] = round(spent_s / size.misses * 1e6)
    await asyncio.sleep(0.5)  # answers are written behind the calls
    held = int((await redis.info("memory"))["used_memory_dataset"])
    figures["redis_bytes_an_answer"] = round(held / size.misses)
    figures |= await fleet.waits()
    log.info("identical misses on every gateway")
    figures |= await fleet.identical()
    log.info("Redis goes and comes back under load")
    figures |= await _outages(fleet, redis)
    log.info("a quota of %d, while Redis is killed and begins empty", size.quota)
    figures |= await _quota(fleet, redis)
    log.info("a gateway is killed while the others wait for it")
    return figures | await _killed(fleet)


async def _cpu_s(redis: RedisServer) -> float:
    spent = await redis.info("cpu")
    return float(spent["used_cpu_user"]) + float(spent["used_cpu_sys"])


@dataclass(slots=True)
class _Fleet:
    """The gateways, a client for them, and the upstream that they share."""

    every: list[processes.Server]
    client: aiohttp.ClientSession
    upstream: SimulatedUpstream
    size: Size
    named: int = 0

    def new_name(self) -> str:
        """The name of a coin that nobody has asked for."""
        self.named += 1
        return f"coin-{self.named}"

    def requests(self, host: str | None = None) -> int:
        """Requests to the upstream so far, or to one of its hosts."""
        seen = self.upstream.requests.items()
        return sum(number for (of, _), number in seen if host is None or of == host)

    async def call(self, url: str, name: str, tool: str = TOOL, parameter: str = PARAMETER) -> str:
        """`ok` or the error's code; `lost` for a call without an answer."""
        body = orjson.dumps({parameter: name})
        try:
            said = await asked(self.client, f"{url}/v1/tools/{tool}", body)
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return "lost"
        return "ok" if said["ok"] else str(said["error"]["code"])

    async def know_each_other(self) -> None:
        """Until every gateway knows of all, and may write to Redis."""

        async def knows_all(url: str) -> bool:
            said = await asked(self.client, f"{url}/healthz")
            return (said["redis"], said["together"]["gateways"]) == ("ok", len(self.every))

        async with asyncio.timeout(RETURN_S):
            for gateway in self.every:
                await until(partial(knows_all, gateway.url), 0.05)

    async def misses(self, name: str) -> Figures:
        """Each name is asked of every gateway at once."""
        before, outcomes = self.requests(), list[str]()

        async def ask(coin: str) -> None:
            calls = (self.call(gateway.url, coin) for gateway in self.every)
            outcomes.extend(await asyncio.gather(*calls))

        await each([self.new_name() for _ in range(self.size.misses)], AT_ONCE, ask)
        return {
            f"{name}_misses": self.size.misses,
            f"{name}_requests": self.requests() - before,
            f"{name}_lost": sum(outcome != "ok" for outcome in outcomes),
        }

    async def waits(self) -> Figures:
        """How long one caller waits, by where the answer is."""
        one, other = self.every[:2]
        took_ms: dict[str, list[float]] = {"upstream": [], "redis": [], "memory": []}
        for _ in range(max(self.size.misses // 4, 10)):
            coin = self.new_name()
            for place, gateway in (("upstream", one), ("redis", other), ("memory", other)):
                began = time.perf_counter()
                await self.call(gateway.url, coin)
                took_ms[place].append((time.perf_counter() - began) * 1e3)
                if place == "upstream":
                    await asyncio.sleep(0.005)  # it is written to Redis behind the answer
        return {f"{place}_p50_ms": round(statistics.median(ms), 2) for place, ms in took_ms.items()}

    async def identical(self) -> Figures:
        before, coin = self.requests(), self.new_name()
        each_gateway = range(self.size.identical)
        calls = (self.call(gateway.url, coin) for gateway in self.every for _ in each_gateway)
        outcomes = await asyncio.gather(*calls)
        return {
            "identical_calls": len(outcomes),
            "identical_requests": self.requests() - before,
            "identical_lost": sum(outcome != "ok" for outcome in outcomes),
        }

    async def under_load(self, happens: Callable[[], Awaitable[Any]]) -> tuple[list[float], int]:
        """Seconds that calls took while something happened and for a phase after it, and how many
        failed. One in five is a miss.
        """
        took_s: list[float] = []
        failed, over = 0, asyncio.Event()

        async def caller(url: str, first: int) -> None:
            nonlocal failed
            for number in count(first):
                if over.is_set():
                    return
                coin = f"hot-{number * 7 % HOT}" if number % 5 else self.new_name()
                began = time.perf_counter()
                outcome = await self.call(url, coin)
                took_s.append(time.perf_counter() - began)
                failed += outcome != "ok"

        async with asyncio.TaskGroup() as callers:
            for gateway in self.every:
                for number in range(AT_ONCE):
                    callers.create_task(caller(gateway.url, number))
            await happens()
            await asyncio.sleep(self.size.phase_s)
            over.set()
        return took_s, failed


async def _outages(fleet: _Fleet, redis: RedisServer) -> Figures:
    async def nothing() -> None: ...

    async def pause() -> None:
        redis.pause()

    async def resume() -> None:
        redis.resume()

    phases: dict[str, Callable[[], Awaitable[Any]]] = {
        "there": nothing,
        "killed": redis.kill,
        "begun_empty": redis.start,
        "paused": pause,
        "resumed": resume,
        "read_only": partial(redis.tell, "REPLICAOF", "127.0.0.1", "1"),
        "writable": partial(redis.tell, "REPLICAOF", "NO", "ONE"),
    }
    figures: Figures = {}
    calls = lost = 0
    for name, happens in phases.items():
        took_s, failed = await fleet.under_load(happens)
        calls, lost = calls + len(took_s), lost + failed
        figures[f"{name}_p99_ms"] = round(latencies(took_s)["p99_ms"], 1)
        if name in ("begun_empty", "resumed", "writable"):
            await fleet.know_each_other()
            figures |= await fleet.misses(f"after_{name}")
    return {"outage_calls": calls, "outage_lost": lost, **figures}


async def _quota(fleet: _Fleet, redis: RedisServer) -> Figures:
    """Calls until every gateway refuses; a third of the way Redis is killed and begun empty."""
    quota, outcomes = fleet.size.quota, list[str]()
    names = iter([fleet.new_name() for _ in range(quota + 40 * GATEWAYS)])

    async def ask(url: str) -> None:
        for coin in names:
            outcome = "overloaded"
            while outcome == "overloaded":  # its part is used up while Redis is away
                outcome = await fleet.call(url, coin, QUOTA_TOOL, QUOTA_PARAMETER)
            outcomes.append(outcome)

    async with asyncio.TaskGroup() as callers:
        for gateway in fleet.every:
            for _ in range(AT_ONCE):
                callers.create_task(ask(gateway.url))
        await until(lambda: len(outcomes) >= quota // 3)
        await redis.kill()
        await asyncio.sleep(2)
        await redis.start()
    await fleet.know_each_other()
    return {
        "quota": quota,
        "quota_requests": fleet.requests(QUOTA_HOST),
        "quota_refused": outcomes.count("quota_exhausted"),
        "quota_lost": sum(outcome not in ("ok", "quota_exhausted") for outcome in outcomes),
    }


async def _killed(fleet: _Fleet) -> Figures:
    """The gateway that asks upstream is killed; the others wait for it, and then ask themselves."""
    leader, *others = fleet.every
    object.__setattr__(fleet.upstream, "faults", Faults(latency_s=1.0))
    before, coin = fleet.requests(), fleet.new_name()
    leading = asyncio.create_task(fleet.call(leader.url, coin))
    await until(lambda: fleet.requests() > before)
    waiting = [asyncio.create_task(fleet.call(gateway.url, coin)) for gateway in others]
    await asyncio.sleep(0.1)
    leader.process.send_signal(signal.SIGKILL)
    killed_at = time.perf_counter()
    async with asyncio.timeout(RETURN_S):
        await until(lambda: fleet.requests() >= before + 2)
    second_s = time.perf_counter() - killed_at
    answered = [await call for call in waiting].count("ok")
    return {
        "killed_leader_calls": await leading,
        "killed_second_request_after_s": round(second_s, 2),
        "killed_requests": fleet.requests() - before,
        "killed_others_answered": f"{answered} of {len(others)}",
    }
