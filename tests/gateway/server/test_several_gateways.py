"""Several `finport serve` with one Redis, over HTTP: sessions, keys, health and metrics."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from gateway import CallContext, ErrorCode
from tests.support.markets import DATES, DAYS, act, day, market_gateway, opened, write_market
from tests.support.redis import RedisServer, needs_redis, redis_server, relayed
from tests.support.servers import Server, asked, server
from tests.support.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.anyio, needs_redis]


@asynccontextmanager
async def servers(
    redis: RedisServer, folder: Path, number: int, *options: str
) -> AsyncIterator[list[Server]]:
    async with AsyncExitStack() as parts:
        folders = [folder / f"host-{n}" for n in range(number)]
        yield [
            await parts.enter_async_context(server(one, *options, FINPORT_REDIS_URL=redis.url))
            for one in folders
        ]


async def call(url: str, tool: str, **arguments: object) -> tuple[int, dict[str, Any]]:
    return await asked(f"{url}/v1/tools/{tool}", arguments)


async def get(url: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = (await asked(url + path))[1]
    return found


async def test_a_session_is_reached_through_every_gateway_and_every_worker(tmp_path: Path) -> None:
    market = str(write_market(tmp_path / "market"))
    options = ("--market", market, "--workers", "2")
    async with (
        redis_server(tmp_path) as redis,
        servers(redis, tmp_path, 2, *options) as (one, other),
    ):
        begun = [await call(one.url, "market_open", symbols="AAA", **DATES) for _ in range(4)]
        sessions = [answer["data"]["session"] for _, answer in begun]
        for number in range(DAYS):
            for session in sessions:
                status, seen = await call(other.url, "market_observe", session=session)
                assert (status, seen["data"]["date"]) == (200, day(number))
                traded = await call(
                    (one, other)[number % 2].url,
                    "market_trade",
                    session=session,
                    date=day(number),
                    action="buy",
                )
                assert traded[0] == 200
        status, late = await call(other.url, "market_observe", session=sessions[0])
        assert late["error"]["message"].startswith("the session is over"), late
        ended = f"{'0' * 16}.0-{'0' * 32}"
        status, gone = await call(other.url, "market_observe", session=ended)
        assert (status, gone["error"]["code"]) == (404, "not_found")


async def test_a_killed_gateway_takes_no_session_of_another_with_it(tmp_path: Path) -> None:
    market = str(write_market(tmp_path / "market"))
    async with (
        redis_server(tmp_path) as redis,
        servers(redis, tmp_path, 2, "--market", market) as (one, other),
    ):
        own, lost = [
            (await call(running.url, "market_open", symbols="AAA", **DATES))[1]["data"]["session"]
            for running in (one, other)
        ]
        other.process.kill()
        calls = [
            asyncio.create_task(call(one.url, "market_observe", session=lost)) for _ in range(40)
        ]
        async with asyncio.timeout(PATIENCE_S / 2):
            for number in range(DAYS):
                status, seen = await call(one.url, "market_observe", session=own)
                assert (status, seen["data"]["date"]) == (200, day(number))
                trade = {"session": own, "date": day(number), "action": "buy"}
                assert (await call(one.url, "market_trade", **trade))[0] == 200
            ended = {
                (status, said["error"]["code"]) for status, said in await asyncio.gather(*calls)
            }
        assert ended == {(404, "not_found")}
        assert "market" not in (await get(one.url, "/healthz"))["hosts"]


async def test_an_emptied_redis_ends_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a living gateway could show itself again, its sessions are not called gone."""
    monkeypatch.setattr("gateway.sharing.sessions.ALIVE_MS", 60_000)
    market = write_market(tmp_path / "market")
    async with (
        redis_server(tmp_path) as redis,
        relayed(redis) as relay,
        market_gateway(market, tmp_path / "a", redis_url=SecretStr(redis.url)) as one,
        market_gateway(market, tmp_path / "b", redis_url=SecretStr(relay.url)) as other,
    ):
        session = await opened(other)
        relay.open.clear()
        await redis.kill()
        await until(lambda: one.answers.store and one.answers.store.is_away)
        await redis.start()
        await until(lambda: one.answers.store and not one.answers.store.is_away)
        early = await act(one, "observe", session=session)
        assert early.error is not None
        assert early.error.code is ErrorCode.UPSTREAM_UNREACHABLE
        relay.open.set()
        async with asyncio.timeout(PATIENCE_S):
            soon = CallContext(deadline_s=2)  # a message may be lost with its connection
            while not (await one.call("market_observe", {"session": session}, soon)).ok:
                await asyncio.sleep(0.05)


async def test_health_counts_all_gateways_and_says_when_redis_is_away(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, servers(redis, tmp_path, 2) as (one, other):
        for running in (one, other):
            assert (await call(running.url, "get_coin", uuid="Qwsogvtv82FCd"))[0] == 200
        async with asyncio.timeout(PATIENCE_S):
            while True:
                health = await get(one.url, "/healthz")
                if health["together"]["calls"] == {"simulated": 1, "cached": 1}:
                    break
                await asyncio.sleep(0.1)
        assert health["redis"] == "ok"
        assert health["together"]["gateways"] == 2
        assert (await get(other.url, "/readyz")) == {"status": "ready", "redis": "ok"}
        await redis.kill()
        async with asyncio.timeout(PATIENCE_S):
            while (await get(one.url, "/readyz"))["redis"] == "ok":
                await asyncio.sleep(0.05)
        assert (await get(one.url, "/readyz")) == {"status": "ready", "redis": "away"}
        assert (await call(one.url, "get_coin", uuid="other"))[0] == 200
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"{one.url}/metrics") as response,
        ):
            figures = await response.text()
        assert "finport_redis_trouble 1.0" in figures
        assert 'finport_redis_failures_total{kind="lost"}' in figures


async def test_a_gateway_starts_while_redis_is_away(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis:
        await redis.kill()
        async with servers(redis, tmp_path, 1) as (one,):
            assert (await call(one.url, "get_coin", uuid="Qwsogvtv82FCd"))[0] == 200
            await redis.start()
            async with asyncio.timeout(PATIENCE_S):
                while (await get(one.url, "/readyz"))["redis"] != "ok":
                    await asyncio.sleep(0.05)
