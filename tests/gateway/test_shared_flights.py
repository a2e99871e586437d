"""Several gateways with one Redis: an answer of one answers all, and each miss asks once."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import pytest

from adapters.simulator import Fault, Faults
from cache import CacheControl, Clock, Entry
from gateway import CallContext, Gateway
from gateway.errors import ErrorCode
from gateway.sharing.leases import DECODED_AT_ONCE, LEASE_S
from gateway.sharing.store import Places
from manifests import Catalog
from tests.support.gateways import open_sharing_gateways, sharing_settings
from tests.support.redis import RedisServer, needs_redis, redis_server, relayed
from tests.support.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.anyio, needs_redis]

COIN = ("get_coin", {"uuid": "Qwsogvtv82FCd"})


def coin(number: int) -> tuple[str, dict[str, str]]:
    return "get_coin", {"uuid": f"coin-{number}"}


async def test_an_answer_of_one_gateway_answers_the_others(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 2) as (upstream, (one, other)),
    ):
        first = await one.call(*COIN)
        await until(lambda: not one.answers.state()["redis"]["queued"])
        second = await other.call(*COIN)
        assert (first.source, second.source) == ("live", "cached")
        assert first.digest == second.digest
        assert upstream.requests.total() == 1


async def test_identical_misses_of_all_gateways_ask_upstream_once(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 4, Faults(latency_s=0.3)) as (
            upstream,
            gateways,
        ),
    ):
        results = await asyncio.gather(*(g.call(*COIN) for g in gateways for _ in range(64)))
        assert all(result.ok for result in results)
        assert upstream.requests.total() == 1


async def test_an_error_that_upstream_made_is_shared_with_those_that_waited_for_it(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 3, Faults(latency_s=0.3)) as (
            upstream,
            gateways,
        ),
    ):
        upstream.play("*", Fault.ERROR_OBJECT)
        results = await asyncio.gather(*(g.call(*COIN) for g in gateways))
        errors = [result.error for result in results]
        assert upstream.requests.total() == 1
        assert len({(error.code, error.message) for error in errors if error}) == 1
        again = await gateways[0].call(*COIN)
        assert again.ok, "an error is not kept"


async def test_a_call_that_wants_a_new_answer_is_not_given_the_shared_one(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 2) as (upstream, (one, other)),
    ):
        await one.call(*COIN)
        await until(lambda: not one.answers.state()["redis"]["queued"])
        context = CallContext(cache=CacheControl(no_cache=True))
        again = await other.call(*COIN, context)
        assert (again.source, upstream.requests.total()) == ("live", 2)


@pytest.mark.parametrize("gone", ["away", "paused", "read-only", "full"])
async def test_without_redis_every_gateway_goes_on_by_itself(
    catalog: Catalog, tmp_path: Path, gone: str
) -> None:
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 2) as (upstream, gateways),
    ):
        match gone:
            case "away":
                await redis.kill()
            case "paused":
                redis.pause()
            case "read-only":
                await redis.tell("REPLICAOF", "127.0.0.1", "1")
            case _:
                await redis.tell("CONFIG", "SET", "maxmemory", "1")
        results = await asyncio.gather(*(g.call(*coin(n)) for g in gateways for n in range(20)))
        assert all(result.ok for result in results)
        assert upstream.requests.total() == 40
        await until(lambda: all(g.answers.store.trouble for g in gateways if g.answers.store))
        match gone:
            case "away":
                await redis.start()
            case "paused":
                redis.resume()
            case "read-only":
                await redis.tell("REPLICAOF", "NO", "ONE")
            case _:
                await redis.tell("CONFIG", "SET", "maxmemory", "0")
        await until(lambda: not any(g.answers.store.trouble for g in gateways if g.answers.store))
        calls = [g.call(*coin(n)) for n in range(100, 120) for g in gateways]
        assert all(result.ok for result in await asyncio.gather(*calls))
        assert upstream.requests.total() == 60, "misses are shared again"


async def test_a_gateway_that_ends_while_it_asks_costs_the_others_one_lease(
    catalog: Catalog, tmp_path: Path
) -> None:
    """A closing gateway releases its lease at once; one that was killed does not."""
    loop = asyncio.get_running_loop()
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 2) as (upstream, (one, other)),
    ):
        await redis.tell("SET", place_of("lease", one), "gone 1", "PX", str(int(LEASE_S * 1e3)))
        began = loop.time()
        result = await other.call(*COIN)
        assert result.ok
        assert loop.time() - began >= LEASE_S - 0.5
        assert upstream.requests.total() == 1


def place_of(kind: str, gateway: Gateway, call: tuple[str, dict[str, str]] = COIN) -> str:
    """Where Redis has what belongs to a call."""
    assert gateway.answers.store is not None
    key = gateway._binder.bind(*call).key
    return Places(gateway.answers.store, gateway.settings.cache_name).of(kind, key)


async def plant_flight(redis: RedisServer, gateway: Gateway, outcome: str) -> None:
    """Another gateway has the lease of `COIN`, and its flight has ended."""
    await redis.tell("SET", place_of("lease", gateway), "gone 7", "PX", "300")
    await redis.tell("HSET", place_of("ended", gateway), "fence", "7", "outcome", outcome)


@pytest.mark.parametrize("said", ["", "answered", "[]", '{"code": "x"}', "\\xff"])
async def test_no_outcome_in_redis_spoils_a_call(
    catalog: Catalog, tmp_path: Path, said: str
) -> None:
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 1) as (_, (gateway,)),
    ):
        await plant_flight(redis, gateway, said)
        result = await gateway.call(*COIN)
        assert (result.ok, result.source) == (True, "live")


async def test_a_follower_keeps_its_own_deadline(catalog: Catalog, tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 2, Faults(latency_s=2.0)) as (
            upstream,
            (one, other),
        ),
    ):
        leading = asyncio.create_task(one.call(*COIN))
        await until(lambda: upstream.requests.total() == 1)
        late = await other.call(*COIN, CallContext(deadline_s=0.3))
        assert late.error is not None
        assert late.error.code is ErrorCode.TIMEOUT
        assert (await leading).ok
        assert upstream.requests.total() == 1


async def test_a_caller_that_leaves_while_its_lease_is_taken_leaves_none_behind(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("connection.ANSWER_S", "store.LIMIT_S", "store.SLOW_S", "leases.LEASE_S"):
        monkeypatch.setattr(f"gateway.sharing.{limit}", 10 * PATIENCE_S)
    async with (
        redis_server(tmp_path) as redis,
        relayed(redis) as relay,
        open_sharing_gateways(catalog, tmp_path, redis.url, 1) as (upstream, (other,)),
        far_gateway(catalog, tmp_path, other, relay.url) as far,
    ):
        lease = place_of("lease", far)
        relay.until = lease
        calling = asyncio.create_task(far.call(*COIN))
        async with asyncio.timeout(PATIENCE_S):
            while await redis.tell("EXISTS", lease) != "1":
                await asyncio.sleep(0.01)
        calling.cancel()
        await asyncio.wait([calling])
        relay.until = None
        relay.open.set()
        async with asyncio.timeout(PATIENCE_S):
            assert (await other.call(*COIN)).ok
        assert upstream.requests.total() == 1


@asynccontextmanager
async def far_gateway(
    catalog: Catalog, folder: Path, near: Gateway, redis_url: str, clock: Clock | None = None
) -> AsyncIterator[Gateway]:
    """A gateway that shares the upstream of another, but reaches Redis in its own way."""
    base_url = near.settings.rapidapi_base_url
    assert base_url is not None
    settings = sharing_settings(folder / "far", base_url, redis_url)
    async with Gateway.open(settings, catalog=catalog, clock=clock) as far:
        yield far


async def test_calls_do_not_wait_for_a_redis_that_is_slow(catalog: Catalog, tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path) as redis,
        relayed(redis) as relay,
        open_sharing_gateways(catalog, tmp_path, redis.url, 1) as (_, (other,)),
        far_gateway(catalog, tmp_path, other, relay.url) as far,
    ):
        store = far.answers.store
        assert store is not None
        relay.delay_s = 0.9
        await until(lambda: store.readiness == "slow")
        relay.heard.clear()
        lease = place_of("lease", far, coin(1))
        assert all([(await far.call(*coin(number))).source == "live" for number in range(5)])
        assert not relay.asked(lease)
        assert store.failures["slow"] >= 5
        relay.delay_s = 0.0
        await until(lambda: store.readiness == "ok")
        lease = place_of("lease", far, coin(6))
        assert (await far.call(*coin(6))).ok
        assert relay.asked(lease), "calls are shared again"
        relay.delay_s = 0.9
        async with far_gateway(catalog, tmp_path / "new", other, relay.url) as new:
            assert new.answers.store is not None
            assert new.answers.store.readiness != "ok", "from its start"


async def put(gateway: Gateway, entry: Entry) -> None:
    """Keep an answer to `COIN` in Redis."""
    assert gateway.answers.store is not None
    frame = entry.encode(gateway._binder.bind(*COIN).key)
    await gateway.answers.store.ask("SET", place_of("answer", gateway), frame, "PX", 600_000)


def dated(value: str, recorded_at: float) -> Entry:
    return Entry(f'"{value}"'.encode(), None, None, recorded_at, 1.0, "live", tool="get_coin")


@pytest.mark.parametrize("waited", [False, True])
async def test_an_answer_from_the_future_is_not_used(
    catalog: Catalog, tmp_path: Path, waited: bool
) -> None:
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 1) as (upstream, (gateway,)),
    ):
        await put(gateway, dated("future", time.time() + 600))
        if waited:
            await plant_flight(redis, gateway, "answered")
        result = await gateway.call(*COIN)
        assert (result.source, upstream.requests.total()) == ("live", 1)


async def test_ages_are_counted_by_the_time_of_redis(catalog: Catalog, tmp_path: Path) -> None:
    """A wrong clock on one host changes nothing."""
    ahead = Clock(wall=lambda: time.time() + 3_600)
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 1) as (upstream, (right,)),
        far_gateway(catalog, tmp_path, right, redis.url, ahead) as wrong,
    ):
        assert (await wrong.call(*COIN)).source == "live"
        await until(lambda: not wrong.answers.state()["redis"]["queued"])
        assert (await right.call(*COIN)).source == "cached"
        assert upstream.requests.total() == 1
    for age_s, source in ((0.0, "cached"), (60.0, "live")):
        folder = tmp_path / source
        async with (
            redis_server(folder) as redis,
            open_sharing_gateways(catalog, folder, redis.url, 1) as (_, (right,)),
            far_gateway(catalog, folder, right, redis.url, ahead) as wrong,
        ):
            await put(right, dated("kept", time.time() - age_s))
            assert (await wrong.call(*COIN)).source == source


async def test_a_large_answer_that_came_meanwhile_is_read_apart_from_its_lease(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 1) as (upstream, (gateway,)),
    ):
        lease = place_of("lease", gateway)
        await redis.tell("SET", lease, "gone 7", "PX", "60000")
        calling = asyncio.create_task(gateway.call(*COIN))
        await until(lambda: gateway.answers.under_way)
        large = token_hex(2 * DECODED_AT_ONCE)
        await put(gateway, dated(large, time.time()))
        await redis.tell("DEL", lease)
        result = await calling
        assert (result.source, upstream.requests.total()) == ("cached", 0)
        assert result.value == large
