"""Quotas and rates that several machines share through Redis."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from cache import Clock
from gateway.errors import ErrorCode
from gateway.sharing.allotments import Allotments
from gateway.sharing.pace import SharedPace
from gateway.sharing.store import SharedStore
from gateway.upstreams.hosts import NotAdmitted
from gateway.upstreams.quota import Ledger
from manifests import PlanLimits
from tests.support.redis import RedisServer, Relay, needs_redis, redis_server, relayed
from tests.support.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.anyio, needs_redis]

SETTLE_S = 1.2
"""Two beats, in which every gateway notices that Redis was emptied."""

HOST = "coinranking1.p.rapidapi.com"


@asynccontextmanager
async def ledger(redis: RedisServer | Relay, folder: Path, quota: int) -> AsyncIterator[Ledger]:
    """The ledger of a machine whose files are in that folder."""
    plans = {HOST: PlanLimits(per_month=quota)}
    async with SharedStore.open(redis.url) as store:
        opened = Ledger.open(
            folder / "quota.sqlite",
            ["k"],
            plans,
            Clock(store.wall),
            Allotments(store, "live", SETTLE_S),
        )
        async with opened as ledger:
            yield ledger


@asynccontextmanager
async def ledgers(
    redis: RedisServer, folder: Path, number: int, quota: int
) -> AsyncIterator[list[Ledger]]:
    async with AsyncExitStack() as parts:
        yield [
            await parts.enter_async_context(ledger(redis, folder / f"machine-{n}", quota))
            for n in range(number)
        ]


async def sent(ledger: Ledger, most: int = 10_000) -> int:
    """How many requests a machine may send until it is refused."""
    for number in range(most):
        try:
            await ledger.take(HOST, 30.0)
        except NotAdmitted as refusal:
            if refusal.error.code in (ErrorCode.QUOTA_EXHAUSTED, ErrorCode.OVERLOADED):
                return number
            raise
    return most


async def test_machines_together_send_what_the_quota_allows(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, ledgers(redis, tmp_path, 4, 300) as machines:
        counts = await asyncio.gather(*map(sent, machines))
        assert sum(counts) == 300
        assert all(counts), counts


async def test_without_redis_a_machine_sends_its_part_and_no_more(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, ledgers(redis, tmp_path, 3, 300) as machines:
        for machine in machines:
            await machine.take(HOST, 30.0)
        await redis.kill()
        counts = await asyncio.gather(*map(sent, machines))
        assert all(counts), "each has a part for such times"
        assert sum(counts) + 3 < 300
        await redis.start()
        await until(lambda: not any(m._allotments.store.is_away for m in machines if m._allotments))
        rest = await asyncio.gather(*map(sent, machines))
        assert sum(counts) + sum(rest) + 3 == 300, "the emptied Redis was told of all parts"


async def test_what_a_machine_did_not_send_is_for_the_others(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis:
        async with ledger(redis, tmp_path / "one", 100) as one:
            await one.take(HOST, 30.0)
        async with ledger(redis, tmp_path / "two", 100) as two:
            assert await sent(two) == 99


async def test_a_machine_that_returns_goes_on_with_its_part(tmp_path: Path) -> None:
    """Also if it was killed: here its store goes away before it could give anything back."""
    async with redis_server(tmp_path) as redis:
        async with ledger(redis, tmp_path / "one", 100) as one:
            await one.take(HOST, 30.0)
            await redis.kill()
            await until(lambda: one._allotments and one._allotments.store.is_away)
        await redis.start()
        async with ledger(redis, tmp_path / "one", 100) as again:
            assert await sent(again) == 99


async def test_an_emptied_redis_learns_of_a_machine_that_is_stopped_from_another(
    tmp_path: Path,
) -> None:
    async with redis_server(tmp_path) as redis, ledger(redis, tmp_path / "one", 200) as one:
        async with ledger(redis, tmp_path / "two", 200) as two:
            assert await sent(two, most=60) == 60
            await one.take(HOST, 30.0)
            await redis.kill()
            await until(lambda: two._allotments and two._allotments.store.is_away)
        await redis.start()  # "two" is not there to report
        await until(lambda: one._allotments and not one._allotments.store.is_away)
        assert await sent(one) + 1 + 60 <= 200


async def test_a_copied_ledger_spends_nothing_twice(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis:
        async with ledger(redis, tmp_path / "one", 200) as one:
            assert await sent(one, most=40) == 40
            shutil.copytree(tmp_path / "one", tmp_path / "two")  # while it has a part
            async with ledger(redis, tmp_path / "two", 200) as two:
                counts = await asyncio.gather(sent(one), sent(two))
        assert 40 + sum(counts) <= 200


async def test_a_clock_that_is_set_back_stops_no_host(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, SharedStore.open(redis.url) as store:
        await store.ask("SET", "{p}:pace", f"{(time.time() + 3_600) * 1e6:.0f}")
        pace = SharedPace(store, "{p}:pace", 10.0)
        async with asyncio.timeout(5):
            await pace.start()
        await pace.close()


async def test_starts_at_a_rate_are_spaced_over_all_gateways(tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path) as redis,
        SharedStore.open(redis.url) as one,
        SharedStore.open(redis.url) as two,
    ):
        paces = [SharedPace(store, "{p}:pace", 50.0) for store in (one, two)]
        began = time.monotonic()
        await asyncio.gather(*(pace.start() for pace in paces for _ in range(20)))
        assert time.monotonic() - began >= 39 / 50 - 0.02
        for pace in paces:
            await pace.close()


async def test_a_caller_that_leaves_uses_no_start_up(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, SharedStore.open(redis.url) as store:
        pace = SharedPace(store, "{p}:pace", 10.0)
        await pace.start()
        leaving = [asyncio.create_task(pace.start()) for _ in range(1_000)]
        await asyncio.sleep(0)
        for task in leaving:
            task.cancel()
        await asyncio.wait(leaving)
        async with asyncio.timeout(5):  # 1,000 starts would take 100 s
            await pace.start()
        await pace.close()


async def test_without_redis_each_gateway_keeps_to_its_share_of_the_rate(tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path) as redis,
        SharedStore.open(redis.url) as one,
        SharedStore.open(redis.url) as two,
    ):
        await until(lambda: one.gateways == two.gateways == 2)
        await redis.kill()
        await until(lambda: one.is_away and two.is_away)
        paces = [SharedPace(store, "{p}:pace", 50.0) for store in (one, two)]
        began = time.monotonic()
        await asyncio.gather(*(pace.start() for pace in paces for _ in range(20)))
        assert time.monotonic() - began >= 19 / 25 - 0.02
        for pace in paces:
            await pace.close()


async def test_a_caller_that_leaves_while_a_part_is_allotted_loses_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("connection.ANSWER_S", "store.LIMIT_S"):
        monkeypatch.setattr(f"gateway.sharing.{limit}", 10 * PATIENCE_S)
    async with redis_server(tmp_path) as redis, relayed(redis) as relay:

        async def part() -> int:
            (account,) = (await redis.tell("KEYS", "*:quota:*")).split()
            return int(await redis.tell("HVALS", account))

        async with ledger(relay, tmp_path, 100) as machine:
            await machine.take(HOST, 10.0)
            first = await part()
            for _ in range(first - 1):
                await machine.take(HOST, 10.0)
            relay.until = ":quota:"
            taking = asyncio.create_task(machine.take(HOST, 10.0))
            async with asyncio.timeout(PATIENCE_S):
                while await part() == first:
                    await asyncio.sleep(0.01)
            taking.cancel()
            await asyncio.wait([taking])
            relay.until = None
            relay.open.set()
        assert await part() == first, "what was not sent was given back"
