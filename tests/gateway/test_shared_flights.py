"""Several gateways with one Redis: an answer of one answers all, and each miss asks once."""

import asyncio
from pathlib import Path

import pytest

from adapters.simulator import Fault, Faults
from cache import CacheControl
from cache.shared.leases import LEASE_S
from cache.shared.place import Places
from gateway import CallContext, Gateway
from gateway.errors import ErrorCode
from manifests import Catalog
from tests.support.gateways import open_sharing_gateways
from tests.support.redis import needs_redis, redis_server
from tests.support.waiting import until

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
        assert one.answers.store is not None
        bound = one._binder.bind(*COIN)
        key = await _key(one, bound.key, "lease")
        await redis.tell("SET", key, "gone 1", "PX", str(int(LEASE_S * 1e3)))
        began = loop.time()
        result = await other.call(*COIN)
        assert result.ok
        assert loop.time() - began >= LEASE_S - 0.5
        assert upstream.requests.total() == 1


async def _key(gateway: Gateway, call_key: str, kind: str) -> str:
    assert gateway.answers.store is not None
    return Places(gateway.answers.store, gateway.settings.cache_name).of(kind, call_key)


@pytest.mark.parametrize("said", ["", "answered", "[]", '{"code": "x"}', "\\xff"])
async def test_no_outcome_in_redis_spoils_a_call(
    catalog: Catalog, tmp_path: Path, said: str
) -> None:
    async with (
        redis_server(tmp_path) as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 1) as (_, (gateway,)),
    ):
        lease, ended = [
            await _key(gateway, gateway._binder.bind(*COIN).key, kind)
            for kind in ("lease", "ended")
        ]
        await redis.tell("SET", lease, "gone 7", "PX", "300")
        await redis.tell("HSET", ended, "fence", "7", "outcome", said)
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
