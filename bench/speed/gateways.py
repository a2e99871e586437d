"""Four gateways with one Redis under load, while Redis is killed, emptied, paused and read-only.

Each gateway is a process of its own with a cache folder of its own, as on a host of its own. They
share a simulated upstream in this process, which counts requests. `lost` counts calls without an
answer. A shared miss is one call to each gateway that none has cached; the ideal is one request.
"""

import asyncio
import contextlib
import logging
import os
import signal
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import aiohttp
import orjson

from adapters.simulator import Faults, SimulatedUpstream
from bench.speed.redis_server import RedisServer, is_installed, redis_server, until
from bench.speed.servers import ready
from manifests import Catalog

log = logging.getLogger("finbench.speed")

GATEWAYS = 4
TOOL, PARAMETER = "get_coin", "uuid"
QUOTA_TOOL, QUOTA_PARAMETER = "get_cryptocurrency_details", "crypto_name"
QUOTA_HOST = "crypto-update-live.p.rapidapi.com"
AT_ONCE = 16
HOT = 200
RETURN_S = 30.0

Figures = dict[str, float | str]


@dataclass(frozen=True, slots=True)
class Size:
    """How many misses, identical calls to each gateway, seconds a phase, and how large a quota."""

    misses: int = 1_000
    identical: int = 64
    phase_s: float = 5.0
    quota: int = 2_000


async def gateways(size: Size | None = None) -> Figures:
    """What of all this is lost, asked upstream more than once, or spent beyond the quota."""
    if not is_installed():
        return {"gateways": "not measured: redis-server is not installed"}
    size = size or Size()
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        folder = Path(name)
        async with (
            redis_server(folder) as redis,
            SimulatedUpstream.open(Catalog.load(), faults=Faults(latency_s=0.005)) as upstream,
            _fleet(folder, redis, upstream, size.quota) as fleet,
        ):
            figures: Figures = {}
            await fleet.know_each_other()
            log.info("shared misses, and what an answer costs")
            before_s = redis.cpu_s()
            figures |= await _misses(fleet, size, "before")
            figures["redis_cpu_us_a_miss"] = round((redis.cpu_s() - before_s) / size.misses * 1e6)
            figures["redis_bytes_an_answer"] = await _answer_bytes(redis, size)
            figures |= await _costs(fleet, size)
            log.info("identical misses on every gateway")
            figures |= await _identical(fleet, size)
            log.info("Redis goes and comes back under load")
            figures |= await _outages(fleet, redis, size)
            log.info("a quota of %d, while Redis is killed and begins empty", size.quota)
            figures |= await _quota(fleet, redis, size)
            log.info("a gateway is killed while the others wait for it")
            figures |= await _killed(fleet)
            return figures


@dataclass(frozen=True, slots=True)
class _Gateway:
    process: Process
    url: str


class _Fleet:
    """The gateways, a client for them, and the upstream that they share."""

    def __init__(
        self, every: Sequence[_Gateway], client: aiohttp.ClientSession, upstream: SimulatedUpstream
    ) -> None:
        self.every = [*every]
        self.upstream = upstream
        self._client = client
        self._names = count(1)

    def new_names(self, number: int) -> list[str]:
        """Names of coins that nobody has asked for."""
        return [f"coin-{next(self._names)}" for _ in range(number)]

    async def call(
        self, gateway: _Gateway, name: str, tool: str = TOOL, parameter: str = PARAMETER
    ) -> str:
        """`ok` or the error's code; `lost` for a call without an answer."""
        try:
            url = f"{gateway.url}/v1/tools/{tool}"
            async with self._client.post(url, data=orjson.dumps({parameter: name})) as response:
                said = orjson.loads(await response.read())
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return "lost"
        return "ok" if response.status == 200 else str(said["error"]["code"])

    async def know_each_other(self) -> None:
        """Until every gateway knows of all, and may write to Redis."""
        async with asyncio.timeout(RETURN_S):
            for gateway in self.every:
                await until(partial(self._knows_all, gateway), 0.05)

    async def _knows_all(self, gateway: _Gateway) -> bool:
        async with self._client.get(f"{gateway.url}/healthz") as response:
            said = orjson.loads(await response.read())
        return (said["redis"], said["together"]["gateways"]) == ("ok", len(self.every))

    def requests(self, host: str | None = None) -> int:
        """Requests to the upstream so far, or to one of its hosts."""
        asked = self.upstream.requests.items()
        return sum(number for (of, _), number in asked if host is None or of == host)


@asynccontextmanager
async def _fleet(
    folder: Path, redis: RedisServer, upstream: SimulatedUpstream, quota: int
) -> AsyncIterator[_Fleet]:
    async with AsyncExitStack() as parts:
        every = []
        for number in range(GATEWAYS):
            own = folder / f"gateway-{number}"
            own.mkdir()
            started = _started(own, redis, upstream, quota)
            every.append(await parts.enter_async_context(started))
        limits = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=60)
        client = await parts.enter_async_context(
            aiohttp.ClientSession(connector=limits, timeout=timeout)
        )
        yield _Fleet(every, client, upstream)


@asynccontextmanager
async def _started(
    folder: Path, redis: RedisServer, upstream: SimulatedUpstream, quota: int
) -> AsyncIterator[_Gateway]:
    settings = {
        "CACHE_DIR": str(folder / "cache"),
        "CLIENTS_FILE": str(folder / "clients.json"),
        "RAPIDAPI_KEYS": "no-real-key",
        "RAPIDAPI_BASE_URL": upstream.base_url,
        "AKSHARE_BASE_URL": upstream.base_url,
        "REDIS_URL": redis.url,
        "MAX_CONCURRENCY_PER_HOST": "64",
        "HOSTS": orjson.dumps({QUOTA_HOST: {"per_month": quota}}).decode(),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FINPORT_")}
    with (folder / "log").open("wb") as log_file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "gateway.cli.main", "serve", "--port", "0"),
            "--until-stdin-closes",
            env=kept | {f"FINPORT_{name}": value for name, value in settings.items()},
            stdin=PIPE,
            stdout=PIPE,
            stderr=log_file,
            start_new_session=True,
        )
    try:
        yield _Gateway(process, await ready(process))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _misses(fleet: _Fleet, size: Size, name: str) -> Figures:
    """Each name is asked of every gateway at once."""
    before = fleet.requests()
    outcomes: list[str] = []
    names = iter(fleet.new_names(size.misses))

    async def ask() -> None:
        for coin in names:
            outcomes.extend(
                await asyncio.gather(*(fleet.call(gateway, coin) for gateway in fleet.every))
            )

    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    return {
        f"{name}_misses": size.misses,
        f"{name}_requests": fleet.requests() - before,
        f"{name}_lost": sum(outcome != "ok" for outcome in outcomes),
    }


async def _answer_bytes(redis: RedisServer, size: Size) -> float:
    """What Redis holds, with its indices, for each answer."""
    await asyncio.sleep(0.5)  # answers are written behind the calls
    facts = dict(
        line.split(":", 1) for line in (await redis.tell("INFO", "memory")).splitlines()[1:]
    )
    return round(int(facts["used_memory_dataset"]) / size.misses)


async def _costs(fleet: _Fleet, size: Size) -> Figures:
    """How long one caller waits, by where the answer is."""
    one, other = fleet.every[:2]
    took: dict[str, list[float]] = {"upstream": [], "redis": [], "memory": []}
    for coin in fleet.new_names(max(size.misses // 4, 10)):
        for place, gateway in (("upstream", one), ("redis", other), ("memory", other)):
            began = time.perf_counter()
            await fleet.call(gateway, coin)
            took[place].append((time.perf_counter() - began) * 1e3)
            if place == "upstream":
                await asyncio.sleep(0.005)  # it is written to Redis behind the answer
    return {f"{place}_p50_ms": round(statistics.median(ms), 2) for place, ms in took.items()}


async def _identical(fleet: _Fleet, size: Size) -> Figures:
    before, (coin,) = fleet.requests(), fleet.new_names(1)
    calls = (fleet.call(g, coin) for g in fleet.every for _ in range(size.identical))
    outcomes = await asyncio.gather(*calls)
    return {
        "identical_calls": len(outcomes),
        "identical_requests": fleet.requests() - before,
        "identical_lost": sum(outcome != "ok" for outcome in outcomes),
    }


async def _outages(fleet: _Fleet, redis: RedisServer, size: Size) -> Figures:
    async def wait() -> None:
        await asyncio.sleep(size.phase_s)

    async def restart() -> None:
        await redis.start()
        await wait()

    async def pause() -> None:
        redis.pause()
        await wait()

    async def resume() -> None:
        redis.resume()
        await wait()

    async def read_only() -> None:
        await redis.tell("REPLICAOF", "127.0.0.1", "1")
        await wait()

    async def writable() -> None:
        await redis.tell("REPLICAOF", "NO", "ONE")
        await wait()

    async def kill() -> None:
        await redis.kill()
        await wait()

    phases: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
        ("there", wait),
        ("killed", kill),
        ("begun_empty", restart),
        ("paused", pause),
        ("resumed", resume),
        ("read_only", read_only),
        ("writable", writable),
    )
    figures: Figures = {}
    calls = lost = 0
    for name, phase in phases:
        took, failed = await _loaded(fleet, phase)
        calls, lost = calls + len(took), lost + failed
        figures[f"{name}_p99_ms"] = round(statistics.quantiles(took, n=100)[98], 1)
        if name in ("begun_empty", "resumed", "writable"):
            await fleet.know_each_other()
            figures |= await _misses(fleet, size, f"after_{name}")
    return {"outage_calls": calls, "outage_lost": lost, **figures}


async def _loaded(fleet: _Fleet, phase: Callable[[], Awaitable[None]]) -> tuple[list[float], int]:
    """What calls took in ms during a phase, and how many failed. One in five is a miss."""
    took: list[float] = []
    failed, over = 0, asyncio.Event()
    hot = [f"hot-{number}" for number in range(HOT)]

    async def caller(gateway: _Gateway, first: int) -> None:
        nonlocal failed
        for number in count(first):
            if over.is_set():
                return
            coin = hot[number * 7 % HOT] if number % 5 else fleet.new_names(1)[0]
            began = time.perf_counter()
            outcome = await fleet.call(gateway, coin)
            took.append((time.perf_counter() - began) * 1e3)
            failed += outcome != "ok"

    callers = [
        asyncio.create_task(caller(gateway, number))
        for gateway in fleet.every
        for number in range(AT_ONCE)
    ]
    try:
        await phase()
    finally:
        over.set()
        await asyncio.gather(*callers)
    return took, failed


async def _quota(fleet: _Fleet, redis: RedisServer, size: Size) -> Figures:
    """Calls until every gateway refuses; a third of the way Redis is killed and begun empty."""
    outcomes: list[str] = []
    names = iter(fleet.new_names(size.quota + 40 * GATEWAYS))

    async def ask(gateway: _Gateway) -> None:
        for coin in names:
            outcome = "overloaded"
            while outcome == "overloaded":  # its part is used up while Redis is away
                outcome = await fleet.call(gateway, coin, QUOTA_TOOL, QUOTA_PARAMETER)
            outcomes.append(outcome)

    async def interrupt() -> None:
        await until(lambda: _now(len(outcomes) >= size.quota // 3))
        await redis.kill()
        await asyncio.sleep(2)
        await redis.start()

    callers = (ask(gateway) for gateway in fleet.every for _ in range(AT_ONCE))
    await asyncio.gather(interrupt(), *callers)
    await fleet.know_each_other()
    return {
        "quota": size.quota,
        "quota_requests": fleet.requests(QUOTA_HOST),
        "quota_refused": outcomes.count("quota_exhausted"),
        "quota_lost": sum(outcome not in ("ok", "quota_exhausted") for outcome in outcomes),
    }


async def _killed(fleet: _Fleet) -> Figures:
    """The gateway that asks upstream is killed; the others wait for it, and then ask themselves."""
    leader, *others = fleet.every
    object.__setattr__(fleet.upstream, "faults", Faults(latency_s=1.0))
    before, (coin,) = fleet.requests(), fleet.new_names(1)
    leading = asyncio.create_task(fleet.call(leader, coin))
    await until(lambda: _now(fleet.requests() > before), 0.001)
    waiting = [asyncio.create_task(fleet.call(gateway, coin)) for gateway in others]
    await asyncio.sleep(0.1)
    leader.process.send_signal(signal.SIGKILL)
    killed_at = time.perf_counter()
    async with asyncio.timeout(RETURN_S):
        await until(lambda: _now(fleet.requests() >= before + 2), 0.001)
    second_s = time.perf_counter() - killed_at
    answered = [await call for call in waiting].count("ok")
    return {
        "killed_leader_calls": await leading,
        "killed_second_request_after_s": round(second_s, 2),
        "killed_requests": fleet.requests() - before,
        "killed_others_answered": f"{answered} of {len(others)}",
    }


async def _now(is_so: bool) -> bool:
    return is_so
