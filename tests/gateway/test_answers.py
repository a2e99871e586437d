"""Kept answers: fresh, stale while a newer one comes, stale in place of an error."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web

from cache import CacheControl
from gateway import CallContext, Gateway, Result
from gateway.pipeline.answers import PAUSE_S
from gateway.server import http
from manifests import Catalog, FreshnessOverride
from tests.support.gateways import ServedGateway, open_local_gateway
from tests.support.upstreams import upstream
from tests.support.waiting import PATIENCE_S, Held, Stepping, until

pytestmark = pytest.mark.anyio

COIN = ("get_coin", {"uuid": "Qwsogvtv82FCd"})


def aging(catalog: Catalog, **freshness: float) -> Catalog:
    """The catalogue, but for answers of `get_coin` that age faster."""
    override = FreshnessOverride(**freshness)  # type: ignore[arg-type]
    return Catalog(
        m.model_copy(update={"freshness": override}) if m.name == "get_coin" else m for m in catalog
    )


@dataclass
class Origin:
    """An upstream that numbers its answers, and fails or hangs when told to."""

    requests: int = 0
    status: int = 200
    latency_s: float = 0.0
    holds: bool = False
    answered: list[int] = field(default_factory=list)

    async def handle(self, _: web.Request) -> web.Response:
        self.requests += 1
        number = self.requests
        await asyncio.sleep(self.latency_s)
        await until(lambda: not self.holds)
        self.answered.append(number)
        return web.json_response({"number": number}, status=self.status)


@asynccontextmanager
async def numbered(
    catalog: Catalog, folder: Path, **settings: Any
) -> AsyncIterator[tuple[Gateway, Origin]]:
    origin = Origin()
    async with (
        upstream(origin.handle) as url,
        open_local_gateway(catalog, folder, rapidapi_base_url=url, retries=0, **settings) as local,
    ):
        yield local.gateway, origin


def number(result: Result) -> tuple[str, int]:
    assert result.ok, result.error
    return str(result.source), result.value["number"]


async def test_a_stale_answer_comes_at_once_and_a_newer_one_behind_it(
    catalog: Catalog, tmp_path: Path, later: Callable[[float], None]
) -> None:
    faster = aging(catalog, fresh_s=300.0, stale_while_revalidate_s=30_000.0)
    async with numbered(faster, tmp_path) as (gateway, origin):
        assert number(await gateway.call(*COIN)) == ("live", 1)
        assert number(await gateway.call(*COIN)) == ("cached", 1)
        later(300)
        origin.holds = True
        stale = [await gateway.call(*COIN) for _ in range(5)]
        assert {number(result) for result in stale} == {("stale", 1)}
        assert all(result.age_s >= 300 and result.attempts == 0 for result in stale)
        origin.holds = False
        await until(lambda: gateway.answers.under_way == 0)
        assert number(await gateway.call(*COIN)) == ("cached", 2)
        assert origin.requests == 2, "one refresh for five stale answers"


async def test_a_stale_answer_stands_in_for_an_error_for_a_while_and_not_longer(
    catalog: Catalog,
    tmp_path: Path,
    later: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.pipeline.answers.PAUSE_S", 500.0)
    faster = aging(catalog, fresh_s=100.0, stale_while_revalidate_s=0.0, stale_if_error_s=1e3)
    async with numbered(faster, tmp_path) as (gateway, origin):
        await gateway.call(*COIN)
        later(150)
        origin.status = 503
        result = await gateway.call(*COIN)
        assert (number(result), result.attempts) == (("stale", 1), 1)
        again = await gateway.call(*COIN)
        assert (number(again), again.attempts) == (("stale", 1), 0)
        assert origin.requests == 2, "an upstream that has just failed is left in peace"
        later(1_000)
        late = await gateway.call(*COIN)
        assert late.error is not None
        assert late.error.code == "upstream_error"
        origin.status = 200
        assert number(await gateway.call(*COIN)) == ("live", 4), "an error was not kept"


async def test_an_error_that_will_not_pass_is_told_and_no_stale_answer_hides_it(
    catalog: Catalog, tmp_path: Path
) -> None:
    faster = aging(catalog, fresh_s=0.0, stale_while_revalidate_s=0.0, stale_if_error_s=60.0)
    async with numbered(faster, tmp_path) as (gateway, origin):
        await gateway.call(*COIN)
        origin.status = 404
        error = (await gateway.call(*COIN)).error
        assert error is not None
        assert error.message == "the upstream answered 404"


async def test_a_stale_answer_stands_in_for_a_caller_that_can_wait_no_longer(
    catalog: Catalog, tmp_path: Path
) -> None:
    faster = aging(catalog, fresh_s=0.0, stale_while_revalidate_s=0.0, stale_if_error_s=60.0)
    async with numbered(faster, tmp_path) as (gateway, origin):
        await gateway.call(*COIN)
        origin.latency_s = 30
        assert number(await gateway.call(*COIN, CallContext(deadline_s=0.2))) == ("stale", 1)


async def test_a_failed_refresh_is_not_tried_again_at_once(
    catalog: Catalog,
    tmp_path: Path,
    later: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.pipeline.answers.PAUSE_S", 500.0)
    faster = aging(catalog, fresh_s=100.0, stale_while_revalidate_s=6_000.0)
    async with numbered(faster, tmp_path) as (gateway, origin):
        await gateway.call(*COIN)
        later(150)
        origin.status = 503
        for _ in range(20):
            assert number(await gateway.call(*COIN)) == ("stale", 1)
            await until(lambda: origin.requests == 2 and gateway.answers.under_way == 0)
        later(500)
        assert number(await gateway.call(*COIN)) == ("stale", 1)
        await until(lambda: origin.requests == 3)


async def test_another_process_may_have_put_a_newer_answer_on_disk(
    catalog: Catalog, tmp_path: Path, later: Callable[[float], None]
) -> None:
    faster = aging(catalog, fresh_s=200.0, stale_while_revalidate_s=0.0)
    origin = Origin()
    async with (
        upstream(origin.handle) as url,
        open_local_gateway(faster, tmp_path, rapidapi_base_url=url) as one,
        Gateway.open(one.settings, catalog=faster) as other,
    ):
        assert number(await one.gateway.call(*COIN)) == ("live", 1)
        await until(lambda: one.gateway.answers.state()["disk"]["queued"] == 0)
        later(250)
        assert number(await other.call(*COIN)) == ("live", 2)
        await until(lambda: other.answers.state()["disk"]["queued"] == 0)
        assert number(await one.gateway.call(*COIN)) == ("cached", 2)


async def test_what_a_caller_asks_for_in_python(
    catalog: Catalog, tmp_path: Path, later: Callable[[float], None]
) -> None:
    async with numbered(aging(catalog, fresh_s=600.0), tmp_path) as (gateway, origin):

        async def ask(**asked: Any) -> Result:
            return await gateway.call(*COIN, CallContext(cache=CacheControl(**asked)))

        none = await ask(only_if_cached=True)
        assert none.error is not None
        assert (none.error.code, none.error.code.http_status) == ("not_cached", 504)
        assert number(await ask(no_store=True)) == ("live", 1)
        assert number(await ask()) == ("live", 2), "the first answer was not kept"
        assert number(await ask(only_if_cached=True)) == ("cached", 2)
        assert number(await ask(max_age_s=100.0)) == ("cached", 2)
        assert number(await ask(no_cache=True)) == ("live", 3)
        assert number(await ask(min_fresh_s=1_000.0)) == ("live", 4)
        later(100)
        assert number(await ask(max_age_s=100.0)) == ("live", 5)
        assert number(await ask(max_stale_s=1.0)) == ("cached", 5)
        assert origin.requests == 5


async def test_what_a_caller_asks_for_over_http(served: ServedGateway) -> None:
    async def ask(directives: str) -> tuple[int, dict[str, Any]]:
        headers = {"Cache-Control": directives}
        url = f"{served.url}/v1/tools/get_coin"
        async with served.client.post(url, json=COIN[1], headers=headers) as response:
            return response.status, await response.json()

    status, answer = await ask("only-if-cached")
    assert (status, answer["error"]["code"]) == (504, "not_cached")
    sources = [
        (await ask(said))[1]["provenance"]["source"]
        for said in ("max-age=60", "max-age=60", "no-cache", "only-if-cached, max-stale")
    ]
    assert sources == ["live", "cached", "live", "cached"]
    status, answer = await ask("max-age=soon")
    assert (status, answer["error"]["code"]) == (400, "invalid_request")
    assert answer["error"]["message"] == (
        "Cache-Control: max-age needs whole seconds, as in max-age=60"
    )


@pytest.mark.parametrize("crowd_of", [2_000, pytest.param(10_000, marks=pytest.mark.soak)])
async def test_100_callers_a_key_with_random_cancellation(
    catalog: Catalog, tmp_path: Path, later: Callable[[float], None], crowd_of: int
) -> None:
    faster = aging(catalog, fresh_s=2e3, stale_while_revalidate_s=60e3)
    luck, keys, held = random.Random(4), crowd_of // 100, Held()
    async with (
        upstream(held.handle) as url,
        open_local_gateway(
            faster, tmp_path, rapidapi_base_url=url, max_pending_calls=crowd_of
        ) as local,
    ):

        async def caller(key: int) -> str:
            await asyncio.sleep(luck.uniform(0, 0.2))
            result = await local.gateway.call("get_coin", {"uuid": str(key)})
            assert result.ok
            return str(result.source)

        async def crowd() -> list[str]:
            callers = [asyncio.create_task(caller(n % keys)) for n in range(crowd_of)]
            # A call that nobody else waits for ends with its caller, so all are there first.
            await until(lambda: local.gateway.answers.pending == crowd_of or held.released.is_set())
            cancelled = luck.sample(callers, crowd_of // 2)
            for n, victim in enumerate(cancelled):
                victim.cancel()
                if n % 50 == 0:
                    await asyncio.sleep(0.002)
            held.released.set()
            async with asyncio.timeout(PATIENCE_S):
                ends = await asyncio.gather(*callers, return_exceptions=True)
            failures = [e for e in ends if isinstance(e, Exception)]
            assert failures == []
            return [e for e in ends if isinstance(e, str)]

        answered = await crowd()
        assert len(answered) >= crowd_of // 2
        assert held.asked == keys, "one upstream call a key"
        later(2e3)
        answered = await crowd()
        assert set(answered) <= {"stale", "cached"}
        await until(lambda: local.gateway.answers.under_way == 0)
        assert held.asked == 2 * keys, "and one a refresh"


async def test_when_the_leader_fails_all_get_its_error_and_nobody_tries_again(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with numbered(catalog, tmp_path) as (gateway, origin):
        origin.status, origin.holds = 503, True
        calls = [asyncio.create_task(gateway.call(*COIN)) for _ in range(500)]
        await until(lambda: gateway.answers.pending == 500)
        origin.holds = False
        results = await asyncio.gather(*calls)
        errors = {(r.error.code, r.error.message, r.attempts) for r in results if r.error}
        assert errors == {("upstream_error", "the upstream answered 503", 1)}
        assert origin.requests == 1


async def test_pages_of_a_shortened_answer_never_mix_with_another_one(
    catalog: Catalog, tmp_path: Path
) -> None:
    asked = 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.json_response([{"answer": (asked + 1) // 2, "row": n} for n in range(25)])

    async with (
        upstream(handler) as origin,
        open_local_gateway(catalog, tmp_path, rapidapi_base_url=origin) as local,
        http.serve(local.gateway, "127.0.0.1", 0) as url,
        aiohttp.ClientSession() as client,
    ):

        async def page(handle: str | None, offset: int) -> tuple[int, Any]:
            query = f"offset={offset}&limit=10"
            path = quote(str(handle), safe="")
            async with client.get(f"{url}/v1/results/{path}?{query}") as response:
                return response.status, (await response.json()).get("data")

        async def ask(**asked: bool) -> Result:
            return await local.gateway.call(*COIN, CallContext(None, 3, CacheControl(**asked)))

        short = await ask()
        pages = [await page(short.handle, offset) for offset in (0, 10, 20, 30)]
        assert [status for status, _ in pages] == [200] * 4
        assert [row["row"] for _, rows in pages for row in rows] == list(range(25))
        assert (await ask(no_cache=True)).handle == short.handle, "the same answer again"
        assert (await page(short.handle, 10))[0] == 200
        other = await ask(no_cache=True)
        assert other.handle != short.handle
        assert (await page(short.handle, 10))[0] == 404
        assert (await page(other.handle, 10))[1][0] == {"answer": 2, "row": 10}
        unkept = await ask(no_store=True, no_cache=True)
        assert (unkept.truncated, unkept.handle) == (True, None)
        for nonsense in ("x", "../..", f"{'0' * 32}-{'0' * 16}", "0" * 32):
            assert (await page(nonsense, 0))[0] == 404


@pytest.mark.parametrize("step_s", [-3_600.0, -60.0, 0.0, 60.0, 3_600.0, 400 * 86_400.0])
@pytest.mark.parametrize("memory_bytes", [2**20, 0], ids=["memory", "disk"])
async def test_no_step_of_the_clock_makes_an_answer_fresh_beyond_its_time(
    catalog: Catalog, tmp_path: Path, memory_bytes: int, step_s: float
) -> None:
    time_of_day = Stepping(time.time())
    faster = aging(catalog, fresh_s=600.0, stale_while_revalidate_s=0.0, stale_if_error_s=0.0)
    settings: dict[str, Any] = {"clock": time_of_day.clock, "memory_bytes": memory_bytes}
    async with numbered(faster, tmp_path, **settings) as (gateway, _):
        assert number(await gateway.call(*COIN)) == ("live", 1)
        time_of_day.go_on(300)
        time_of_day.step(step_s)
        kept = await gateway.call(*COIN)
        if memory_bytes or step_s <= 0:
            assert number(kept) == ("cached", 1)
            assert kept.age_s == pytest.approx(300, abs=1)
        time_of_day.go_on(301)
        assert number(await gateway.call(*COIN))[1] == 2


async def test_after_a_failed_refresh_a_step_of_the_clock_changes_nothing(
    catalog: Catalog, tmp_path: Path
) -> None:
    time_of_day = Stepping(time.time())
    faster = aging(catalog, fresh_s=60.0, stale_while_revalidate_s=0.0, stale_if_error_s=600.0)
    async with numbered(faster, tmp_path, clock=time_of_day.clock) as (gateway, origin):
        assert number(await gateway.call(*COIN)) == ("live", 1)
        origin.status = 500
        time_of_day.go_on(61)
        assert number(await gateway.call(*COIN)) == ("stale", 1)
        time_of_day.step(-3_600)
        time_of_day.go_on(PAUSE_S)
        origin.status = 200
        assert number(await gateway.call(*COIN)) == ("live", 3)


async def test_what_was_kept_before_the_clock_was_set_back_is_not_believed_by_the_next_process(
    catalog: Catalog, tmp_path: Path
) -> None:
    time_of_day = Stepping(time.time())
    async with numbered(catalog, tmp_path, clock=time_of_day.clock) as (gateway, _):
        assert number(await gateway.call(*COIN)) == ("live", 1)
    again = Stepping(time_of_day.wall - 3_600)
    async with numbered(catalog, tmp_path, clock=again.clock) as (gateway, _):
        assert number(await gateway.call(*COIN))[0] == "live"


async def test_an_answer_from_the_future_is_not_believed_twice(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with numbered(catalog, tmp_path) as (gateway, origin):
        result = await gateway.call(*COIN)
        ((key, kept),) = gateway.answers.memory._kept.items()
        gateway.answers.memory.drop(key)
        (disk,) = gateway.answers._cached._tiers
        later = replace(kept.entry, recorded_at=kept.entry.recorded_at + 86_400)
        disk.put(key, later, 60)
        origin.status = 503
        for _ in range(2):
            assert not (await gateway.call(*COIN)).ok
        assert result.ok


async def test_a_gateway_closes_while_callers_are_in_every_part_of_the_pipeline(
    catalog: Catalog, tmp_path: Path
) -> None:
    async def calls(gateway: Gateway, start: int) -> Result:
        for n in range(start, 10**6, 50):
            result = await gateway.call("get_coin", {"uuid": str(n)})
            if result.error is not None:
                break
        return result

    for attempt in range(3):
        async with asyncio.timeout(PATIENCE_S):
            async with numbered(catalog, tmp_path / str(attempt)) as (gateway, origin):
                origin.latency_s = 0.01
                callers = [asyncio.create_task(calls(gateway, n)) for n in range(50)]
                await until(lambda: origin.requests > 200)
                left = asyncio.create_task(gateway.call(*COIN))
            ended = await asyncio.gather(*callers, left, return_exceptions=True)
        for result in ended:  # cancelled in the pipeline, or refused at its start
            if isinstance(result, Result):
                assert result.error is not None
                assert result.error.code == "overloaded"
            else:
                assert isinstance(result, asyncio.CancelledError)


async def test_repeated_header_lines_count_together(served: ServedGateway) -> None:
    url = f"{served.url}/v1/tools/get_coin"
    await served.call(*COIN)
    headers = [("Cache-Control", "only-if-cached"), ("Cache-Control", "no-cache")]
    async with served.client.post(url, json=COIN[1], headers=headers) as response:
        assert response.status == 504
    async with served.client.get(url) as response:
        shown = (await response.json())["freshness"]
    assert shown == {"fresh_s": 15.0, "stale_while_revalidate_s": 15.0, "stale_if_error_s": 300.0}
