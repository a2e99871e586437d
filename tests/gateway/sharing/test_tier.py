"""The shared tier and the leases, on a real Redis."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import pytest

from cache import Entry
from gateway.sharing.leases import Ended, Held, Lease, Leases
from gateway.sharing.store import BUCKETS, Places, SharedStore, StoreError
from gateway.sharing.tier import SharedTier
from tests.support.redis import RedisServer, needs_redis, redis_server, relayed
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, needs_redis]


def entry(data: bytes = b'{"a":1}', at: float = 1.0) -> Entry:
    return Entry(data, None, None, at, 1.0, "simulated", tool="get_coin")


class Opened:
    def __init__(self, store: SharedStore, places: Places, leases: Leases, tier: SharedTier):
        self.store, self.places, self.leases, self.tier = store, places, leases, tier

    async def written(self) -> None:
        await until(lambda: not self.tier.state()["queued"])


@asynccontextmanager
async def opened(
    redis: RedisServer, most: int = 2**30, url: str | None = None
) -> AsyncIterator[Opened]:
    async with SharedStore.open(url or redis.url) as store:
        places = Places(store, "simulated-0")
        async with (
            Leases.open(store, places) as leases,
            SharedTier.open(store, places, most) as tier,
        ):
            yield Opened(store, places, leases, tier)


async def test_what_one_process_puts_another_gets(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, opened(redis) as one, opened(redis) as other:
        kept = entry(b'{"text":"' + b"x" * 300_000 + b'"}')
        one.tier.put("k", kept, 60.0)
        await one.written()
        found = await other.tier.get("k")
        assert found == kept
        assert await other.tier.get("another") is None


async def test_a_changed_frame_is_refused_and_counted(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, opened(redis) as one:
        one.tier.put("k", entry(), 60.0)
        await one.written()
        place = one.places.of("answer", "k")
        frame = bytearray(await one.store.ask("GET", place))
        frame[-1] ^= 1
        await one.store.ask("SET", place, bytes(frame))
        assert await one.tier.get("k") is None
        for other in (b"", entry().encode("other")):
            await one.store.ask("SET", place, other)
            assert await one.tier.get("k") is None
        assert one.tier.refused == 3
        await one.store.ask("DEL", place)
        await one.store.ask("HSET", place, "of", "another type")
        assert await one.tier.get("k") is None


async def test_the_tier_keeps_to_its_bytes_and_forgets_what_ends_first(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, opened(redis, most=BUCKETS * 10_000) as one:
        names = [f"k{n}" for n in range(40_000) if one.places.bucket_of(f"k{n}") == 0][:60]
        for number, name in enumerate(names):
            one.tier.put(name, entry(), 1_000.0 + number)
            if number % 20 == 19:
                await one.written()
        found = [name for name in names if await one.tier.get(name) is not None]
        assert found == names[-len(found) :], "the first to end are gone"
        assert 5 < len(found) < 60
        sizes = await one.store.ask("HGET", one.places.of_bucket("sizes", 0), "")
        assert int(sizes) <= 10_000


async def test_an_entry_ends_after_its_time(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, opened(redis) as one:
        one.tier.put("k", entry(), 0.2)
        await one.written()
        assert await one.tier.get("k") is not None
        async with asyncio.timeout(10):
            while await one.tier.get("k") is not None:
                await asyncio.sleep(0.05)


async def test_one_process_has_the_lease_and_the_others_learn_the_outcome(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, opened(redis) as one, opened(redis) as other:
        lease = await one.leases.acquire("k")
        assert isinstance(lease, Lease)
        held = await other.leases.acquire("k")
        assert held == Held(lease.fence)
        await one.leases.release(lease, b"answered")
        assert await other.leases.acquire("k", lease.fence) == Ended(b"answered")
        later = await other.leases.acquire("k")
        assert isinstance(later, Lease), "who did not wait begins anew"
        assert later.fence > lease.fence
        await other.leases.release(later, b"")
        assert isinstance(await one.leases.acquire("k", later.fence), Lease), "nothing was said"


async def test_a_lease_that_was_lost_ends_no_later_one_and_its_answer_replaces_none(
    tmp_path: Path,
) -> None:
    async with redis_server(tmp_path) as redis, opened(redis) as one, opened(redis) as other:
        lost = await one.leases.acquire("k")
        assert isinstance(lost, Lease)
        await redis.tell("DEL", one.places.of("lease", "k"))  # as if its process had stood still
        later = await other.leases.acquire("k")
        assert isinstance(later, Lease)
        other.tier.under(later)
        other.tier.put("k", entry(b'"new"', 2.0), 60.0)
        await other.written()
        one.tier.under(lost)
        one.tier.put("k", entry(b'"old"', 1.0), 60.0)
        await one.written()
        await one.leases.release(lost, b"answered")
        assert await one.leases.acquire("k") == Held(later.fence)
        found = await other.tier.get("k")
        assert found is not None
        assert found.data == b'"new"'


async def test_a_large_answer_on_its_way_delays_neither_leases_nor_beats(tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path) as redis,
        relayed(redis) as relay,
        opened(redis) as near,
        opened(redis, url=relay.url) as far,
    ):
        near.tier.put("large", entry(b'"%b"' % token_hex(2**20).encode()), 60.0)
        await near.written()
        relay.most = 2**19
        reading = asyncio.create_task(far.tier.get("large"))
        await until(lambda: relay.stuck)
        for number in range(10):
            assert isinstance(await far.leases.acquire(f"k{number}"), Lease)
        lease = await far.leases.acquire("large")
        assert isinstance(lease, Lease)
        assert (lease.entry, lease.is_large) == (None, True)
        assert await reading is None
        relay.heard.clear()
        await until(lambda: relay.heard.count(b"gateways}") + relay.heard.count(b":gateways") > 2)
        assert not far.store.is_away
        assert not far.store.failures["lost"]


async def test_a_lease_is_renewed_while_it_is_held(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, opened(redis) as one, opened(redis) as other:
        lease = await one.leases.acquire("k")
        assert isinstance(lease, Lease)
        await redis.tell("PEXPIRE", one.places.of("lease", "k"), "2000")
        async with asyncio.timeout(10):
            while int(await redis.tell("PTTL", one.places.of("lease", "k"))) <= 2_000:
                await asyncio.sleep(0.05)
        assert await other.leases.acquire("k") == Held(lease.fence)


async def test_more_commands_than_may_wait_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.sharing.store.MOST_WAITING", 10)
    async with redis_server(tmp_path) as redis, SharedStore.open(redis.url) as store:
        asked = (store.ask("PING") for _ in range(50))
        said = await asyncio.gather(*asked, return_exceptions=True)
        refused = [one for one in said if isinstance(one, StoreError)]
        assert len(refused) == 40
        assert len(said) - len(refused) == 10


async def test_a_connection_that_was_closed_is_made_again_at_once(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, SharedStore.open(redis.url) as store:
        for number in range(6):
            await redis.tell("CLIENT", "KILL", "TYPE", "normal")
            await store.ask("SET", "{finport}:x", number)
            assert await store.ask("GET", "{finport}:x") == str(number).encode()
        assert not store.failures
