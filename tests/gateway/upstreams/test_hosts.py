"""Manners towards upstream hosts, through the gateway: limits, retries, breakers, overload."""

import asyncio
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from adapters.fault import LONGEST_PAUSE_S
from adapters.simulator import Fault, Faults
from cache import CacheControl, Snapshot
from gateway import CallContext, Gateway, Result
from gateway.settings import GatewaySettings, SettingsError
from gateway.upstreams.hosts import RETRY_REFILL_S, RETRY_RESERVE
from gateway.upstreams.quota import standings
from manifests import Catalog
from tests.support.gateways import PLANTED_KEY, ServedGateway, open_local_gateway
from tests.support.upstreams import Closing, upstream
from tests.support.waiting import PATIENCE_S, Held, until

pytestmark = pytest.mark.anyio

HOST = "coinranking1.p.rapidapi.com"
SLOW = {Fault.HANG, Fault.HANG_IN_BODY, Fault.DRIP}


def waiting(gateway: Gateway) -> int:
    """How many wait for a slot at the host."""
    return int(gateway.answers.hosts.state()[HOST]["waiting"])


async def coin(gateway: Gateway, number: object, **context: Any) -> Result:
    return await gateway.call("get_coin", {"uuid": str(number)}, CallContext(**context))


MATRIX: dict[Fault, tuple[str, str, int]] = {
    Fault.SERVER_ERROR: ("upstream_error", "tool", 3),
    Fault.UNAVAILABLE: ("upstream_error", "tool", 3),
    Fault.BUSY: ("upstream_error", "tool", 3),
    Fault.RATE_LIMITED: ("rate_limited", "quota", 3),
    Fault.QUOTA_EXHAUSTED: ("quota_exhausted", "quota", 1),
    Fault.KEY_REFUSED: ("not_configured", "gateway", 1),
    Fault.NOT_SUBSCRIBED: ("not_subscribed", "tool", 1),
    Fault.NOT_FOUND: ("upstream_error", "tool", 1),
    Fault.RESET: ("upstream_unreachable", "tool", 3),
    Fault.RESET_IN_BODY: ("upstream_unreachable", "tool", 3),
    Fault.HANG: ("timeout", "tool", 3),
    Fault.HANG_IN_BODY: ("timeout", "tool", 3),
    Fault.DRIP: ("timeout", "tool", 3),
    Fault.TRUNCATED: ("upstream_invalid", "tool", 1),
    Fault.HTML: ("upstream_invalid", "tool", 1),
    Fault.EMPTY: ("upstream_empty", "tool", 3),
    Fault.ERROR_OBJECT: ("upstream_error", "tool", 1),
    Fault.HUGE: ("too_large", "tool", 1),
    Fault.GZIP_BOMB: ("too_large", "tool", 1),
    Fault.REDIRECT: ("upstream_error", "tool", 1),
    Fault.REDIRECT_LOOP: ("upstream_error", "tool", 1),
    Fault.WRONG_CHARSET: ("upstream_invalid", "tool", 1),
}


async def test_the_fault_matrix(catalog: Catalog, tmp_path: Path) -> None:
    """Each fault ends in its code, whose fault it is, and so many attempts."""

    async def end(fault: Fault) -> tuple[str, str, int]:
        faults = Faults(rates={fault: 1.0})
        hasty: dict[str, Any] = {"attempt_timeout_s": 0.5} if fault in SLOW else {}
        async with open_local_gateway(catalog, tmp_path / fault, faults, **hasty) as local:
            result = await coin(local.gateway, "x")
            assert result.error is not None, fault
            # An attempt that is over so soon may not have been sent.
            sent = local.simulator.requests.total()
            assert sent <= result.attempts if fault in SLOW else sent == result.attempts
            assert PLANTED_KEY.encode() not in result.to_json()
        ended = (result.error.code.value, result.error.fault, result.attempts)
        sys.stdout.write(f"{fault:16} {ended} {result.elapsed_ms / 1e3:.2f} s\n")
        return ended

    ends = await asyncio.gather(*map(end, MATRIX))
    assert dict(zip(MATRIX, ends, strict=True)) == MATRIX


async def test_once_bad_then_fine_is_healed(catalog: Catalog, tmp_path: Path) -> None:
    async with open_local_gateway(catalog, tmp_path) as local:
        for fault in (Fault.BAD_GATEWAY, Fault.RESET, Fault.EMPTY):
            local.simulator.play(HOST, fault)
            result = await coin(local.gateway, fault)
            assert (result.ok, result.attempts) == (True, 2), fault
    async with open_local_gateway(catalog, tmp_path, attempt_timeout_s=1.0, retries=9) as local:
        local.simulator.play(HOST, Fault.HANG)
        result = await coin(local.gateway, Fault.HANG)
        assert result.ok
        assert result.attempts >= 2


async def test_nobody_listens_and_no_such_name(catalog: Catalog, tmp_path: Path) -> None:
    for url, text in (("http://127.0.0.1:9", "refuses"), ("http://nowhere.invalid", "no address")):
        settings: dict[str, Any] = {"rapidapi_base_url": url, "retries": 1}
        async with open_local_gateway(catalog, tmp_path, **settings) as local:
            result = await coin(local.gateway, "x")
            assert result.error is not None
            assert (result.error.code, result.attempts) == ("upstream_unreachable", 2)
            assert text in result.error.message


async def test_a_used_up_key_gives_way_to_another(catalog: Catalog, tmp_path: Path) -> None:
    keys = (SecretStr("first-key"), SecretStr("second-key"))
    for fault in (Fault.QUOTA_EXHAUSTED, Fault.NOT_SUBSCRIBED):
        async with open_local_gateway(catalog, tmp_path / fault, rapidapi_keys=keys) as local:
            local.simulator.play(HOST, fault)
            result = await coin(local.gateway, "x")
            assert (result.ok, result.attempts) == (True, 2), fault
            assert (await coin(local.gateway, "y")).attempts == 1


async def test_no_quota_is_left(catalog: Catalog, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"hosts": {HOST: {"per_month": 2}}}
    demands = CacheControl(no_cache=True)
    async with open_local_gateway(catalog, tmp_path, **settings) as local:
        assert (await coin(local.gateway, 1)).ok
        assert (await coin(local.gateway, 2)).ok
        refused = await coin(local.gateway, 3)
        assert refused.error is not None
        assert (refused.error.code, refused.error.fault) == ("quota_exhausted", "quota")
        assert (refused.attempts, local.simulator.requests.total()) == (0, 2)
        assert refused.error.details["host"] == HOST
        assert refused.error.retry_after_s is not None
        asked = CacheControl(max_stale_s=float("inf"), max_age_s=0)
        stale = await coin(local.gateway, 1, cache=asked)
        assert (stale.ok, stale.attempts) == (True, 0), "what is kept stands in where allowed"
        assert not (await coin(local.gateway, 1, cache=demands)).ok
    async with open_local_gateway(catalog, tmp_path, **settings) as local:
        assert not (await coin(local.gateway, 4)).ok, "the next run knows it too"
        assert local.simulator.requests.total() == 0


async def test_what_was_never_asked_is_not_recorded(catalog: Catalog, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "mode": "record",
        "snapshot": tmp_path / "s.snap",
        "hosts": {HOST: {"per_month": 1}},
    }
    async with open_local_gateway(catalog, tmp_path, **settings) as local:
        assert (await coin(local.gateway, 1)).ok
        assert not (await coin(local.gateway, 2)).ok
    with Snapshot(tmp_path / "s.snap") as snapshot:
        assert snapshot.summary.rows == 1


async def test_two_runs_share_a_rate_fairly(catalog: Catalog, tmp_path: Path) -> None:
    order: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        order.append(request.path.rpartition("/")[2].rstrip("0123456789"))
        return web.json_response({"a": 1})

    settings: dict[str, Any] = {"hosts": {HOST: {"per_second": 50}}, "max_concurrency_per_host": 4}
    async with open_local_gateway(catalog, tmp_path, handler=handler, **settings) as local:
        began = time.monotonic()
        calls = [
            asyncio.create_task(coin(local.gateway, f"{run}{number}", client=run))
            for run, number in (
                *(("big", n) for n in range(200)),
                *(("small", n) for n in range(12)),
            )
        ]
        await until(lambda: len(order) >= 40)
        assert len(order) <= 2 + 50 * (time.monotonic() - began), "fifty a second"
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    # Those that had slots before the small run came, and then one for each of its own.
    assert order[: 4 + 2 * 12 + 4].count("small") == 12


async def test_who_gets_no_slot_in_time_is_told_so(catalog: Catalog, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"hosts": {HOST: {"concurrency": 1}}, "max_queue_per_host": 2}
    held = Held()
    async with open_local_gateway(catalog, tmp_path, handler=held.handle, **settings) as local:
        first = asyncio.create_task(coin(local.gateway, 1))
        await until(lambda: held.asked)
        waits = [asyncio.create_task(coin(local.gateway, n)) for n in (2, 3)]
        await until(lambda: waiting(local.gateway) == 2)
        full = await coin(local.gateway, 4)
        assert full.error is not None
        assert full.error.code == "overloaded"
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)
        lates = (coin(local.gateway, n, deadline_s=1.5) for n in (2, 3))
        for late in await asyncio.gather(*lates):
            assert late.error is not None
            assert (late.error.code, late.error.fault) == ("rate_limited", "quota")
            assert late.attempts == 0
        assert not first.done()
        held.released.set()
        assert (await first).ok
        assert held.asked == 1


async def test_a_caller_who_joins_lengthens_the_wait(catalog: Catalog, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"hosts": {HOST: {"concurrency": 1}}}
    held = Held()
    async with open_local_gateway(catalog, tmp_path, handler=held.handle, **settings) as local:
        first = asyncio.create_task(coin(local.gateway, 1))
        await until(lambda: held.asked)
        hasty = asyncio.create_task(coin(local.gateway, 2, deadline_s=0.5))
        await until(lambda: waiting(local.gateway) == 1 or hasty.done())
        patient = asyncio.create_task(coin(local.gateway, 2))
        assert not (await hasty).ok
        held.released.set()
        assert (await patient).ok
        assert (await first).ok
        assert held.asked == 2


async def test_a_failing_host_is_left_alone_and_others_are_not(served: ServedGateway) -> None:
    gateway, simulator = served.local.gateway, served.local.simulator
    served.local.settings.breaker_open_s = PATIENCE_S
    simulator.play(HOST, *[Fault.UNAVAILABLE] * 60)
    codes = Counter[str]()
    for number in range(40):
        result = await coin(gateway, number)
        codes[result.error.code.value if result.error else "ok"] += 1
    asked = simulator.requests.total()
    assert codes["circuit_open"] > 15
    assert asked < 60, "the script was not played to its end"
    status, body = await served.call("get_coin", {"uuid": "z"})
    assert (status, body["error"]["code"], body["error"]["fault"]) == (503, "circuit_open", "tool")
    assert 0 < body["error"]["retry_after_s"] <= PATIENCE_S
    assert simulator.requests.total() == asked, "a refusal costs nothing upstream"
    assert (await gateway.call("rates", {"base": "EUR"})).ok
    async with served.client.get(f"{served.url}/healthz") as response:
        hosts = (await response.json())["hosts"]
    assert hosts[HOST]["breaker"] == "open"
    assert hosts["currencyapi-net.p.rapidapi.com"]["breaker"] == "closed"


async def test_a_host_that_is_well_again_is_asked_again(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1e6
    monkeypatch.setattr("gateway.upstreams.hosts.time", SimpleNamespace(monotonic=lambda: now))
    settings: dict[str, Any] = {"breaker_attempts": 2, "breaker_open_s": 20.0, "retries": 0}
    async with open_local_gateway(catalog, tmp_path, **settings) as local:
        local.simulator.play(HOST, Fault.UNAVAILABLE, Fault.UNAVAILABLE, Fault.UNAVAILABLE)
        assert not (await coin(local.gateway, 1)).ok
        assert not (await coin(local.gateway, 2)).ok
        now += 25
        probes = await asyncio.gather(*(coin(local.gateway, n) for n in range(10)))
        assert local.simulator.requests.total() == 3, "one probe"
        assert {p.error.code.value for p in probes if p.error} == {"upstream_error", "circuit_open"}
        now += 45
        assert (await coin(local.gateway, 3)).ok
        assert (await coin(local.gateway, 4)).ok


async def test_an_outage_is_not_multiplied(catalog: Catalog, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"breaker_attempts": 10_000, "max_concurrency_per_host": 64}
    async with open_local_gateway(catalog, tmp_path, Faults(failure_rate=1.0), **settings) as local:
        began = time.monotonic()
        await asyncio.gather(*(coin(local.gateway, n) for n in range(150)))
        refilled = (time.monotonic() - began) / RETRY_REFILL_S
        assert local.simulator.requests.total() <= 150 * 1.1 + RETRY_RESERVE + refilled


async def test_beyond_its_bounds_the_gateway_says_so_at_once(
    catalog: Catalog, tmp_path: Path
) -> None:
    held = Held()
    async with open_local_gateway(
        catalog, tmp_path, handler=held.handle, max_pending_calls=5
    ) as local:
        calls = [asyncio.create_task(coin(local.gateway, n)) for n in range(50)]
        await until(lambda: sum(call.done() for call in calls) == 45)
        held.released.set()
        results = await asyncio.gather(*calls)
        refused = [r for r in results if r.error and r.error.code == "overloaded"]
        assert (len(refused), held.asked) == (45, 5)
        assert {r.error.retry_after_s for r in refused if r.error} == {1.0}
        assert (await coin(local.gateway, 1)).source == "cached", "memory answers all the same"
        assert local.gateway.answers.pending == 0


async def test_overload_over_http_is_503_with_retry_after(served: ServedGateway) -> None:
    served.local.settings.max_pending_calls = 1
    served.local.simulator.play(HOST, Fault.HANG)
    hangs = asyncio.create_task(served.call("get_coin", {"uuid": "a"}))
    await until(lambda: served.local.gateway.answers.pending)
    url = f"{served.url}/v1/tools/get_coin"
    async with served.client.post(url, json={"uuid": "b"}) as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "1")
    hangs.cancel()
    await asyncio.gather(hangs, return_exceptions=True)


async def test_a_pause_that_a_host_asks_for_holds_for_all_calls(
    catalog: Catalog, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=429 if "429" in asked[0] else 503, headers={"Retry-After": "60"})

    async with upstream(handler) as url:
        for status, host in ((429, "the key's"), (503, "the host's")):
            asked.clear()
            folder = tmp_path / str(status)
            async with open_local_gateway(catalog, folder, rapidapi_base_url=url) as local:
                first = await coin(local.gateway, status, deadline_s=5)
                assert first.attempts == 1
                more = await asyncio.gather(*(coin(local.gateway, n) for n in range(30)))
                for result in more:
                    assert result.error is not None
                    assert (result.error.code, result.error.fault) == ("rate_limited", "quota")
                    assert result.error.retry_after_s == pytest.approx(60, abs=30), host
                    assert result.attempts == 0
                assert len(asked) == 1


async def test_a_short_pause_is_waited_for(catalog: Catalog, tmp_path: Path) -> None:
    asked: list[float] = []

    async def handler(_: web.Request) -> web.Response:
        asked.append(time.monotonic())
        if len(asked) == 1:
            return web.Response(status=503, headers={"Retry-After": "1.5"})
        return web.json_response({"a": 1})

    async with open_local_gateway(catalog, tmp_path, handler=handler, retries=0) as local:
        assert not (await coin(local.gateway, 1)).ok
        hasty = await coin(local.gateway, 2, deadline_s=0.05)
        assert hasty.error is not None
        assert (hasty.error.code, hasty.attempts) == ("rate_limited", 0)
        assert (await coin(local.gateway, 3)).ok
    assert asked[1] - asked[0] >= 1.49


async def test_a_key_that_is_to_slow_down_gives_way_to_another(
    catalog: Catalog, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.headers["X-RapidAPI-Key"])
        if asked[-1] == asked[0]:
            return web.Response(status=429, headers={"Retry-After": "60"})
        return web.json_response({"a": 1})

    keys = (SecretStr("first-key"), SecretStr("second-key"))
    async with open_local_gateway(catalog, tmp_path, handler=handler, rapidapi_keys=keys) as local:
        results = [await coin(local.gateway, n) for n in range(5)]
    assert [result.attempts for result in results] == [2, 1, 1, 1, 1]
    assert len(set(asked)) == 2
    assert asked[0] not in asked[1:]


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_a_retry_waits_as_long_as_the_upstream_asks(
    catalog: Catalog, tmp_path: Path, form: str
) -> None:
    asked: list[float] = []

    async def handler(_: web.Request) -> web.Response:
        asked.append(time.time())
        if len(asked) > 1:
            return web.json_response({"a": 1})
        at = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 2))
        headers = {"Retry-After": "1" if form == "seconds" else at}
        return web.Response(status=429, headers=headers)

    async with open_local_gateway(catalog, tmp_path, handler=handler) as local:
        assert (await coin(local.gateway, 1)).ok
    assert 0.9 < asked[1] - asked[0] < PATIENCE_S


async def test_an_akshare_host_is_left_alone_too(catalog: Catalog, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "upstream": "simulated",
        "cache_dir": tmp_path,
        "simulated_faults": {"rate_limited": 1.0},
    }
    async with Gateway.open(GatewaySettings(**settings), catalog=catalog) as gateway:
        manifest = catalog.get("stock_financial_abstract")
        assert manifest is not None
        attempts = []
        for _ in range(3):
            result = await gateway.call(
                manifest.name, manifest.sample(), CallContext(deadline_s=1.0)
            )
            assert result.error is not None
            assert result.error.code == "rate_limited"
            attempts.append(result.attempts)
    assert attempts == [1, 0, 0]


@pytest.mark.parametrize(
    "asked", ["31536000", "9" * 15, "Fri, 31 Dec 9999 23:59:59 GMT", "1e9", "-60", "nan", "inf"]
)
async def test_no_upstream_gets_itself_left_alone_for_long(
    catalog: Catalog, tmp_path: Path, asked: str
) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=503, headers={"Retry-After": asked})

    async with open_local_gateway(catalog, tmp_path, handler=handler, retries=0) as local:
        for number in range(2):
            result = await coin(local.gateway, number)
            assert result.error is not None
            assert (result.error.retry_after_s or 0.0) <= LONGEST_PAUSE_S


async def test_an_upstream_that_closes_after_each_answer_is_well(
    catalog: Catalog, tmp_path: Path
) -> None:
    closing, ledger = Closing(), tmp_path / "cache" / "quota.sqlite"
    settings: dict[str, Any] = {"breaker_attempts": 1, "retries": 0, "max_concurrency_per_host": 4}
    async with (
        closing.open() as url,
        open_local_gateway(catalog, tmp_path, rapidapi_base_url=url, **settings) as local,
    ):
        results = await asyncio.gather(*(coin(local.gateway, n) for n in range(40)))
        assert all(result.ok for result in results)
    (month,) = standings(ledger, (), {}, time.time())
    sent = sum(result.attempts for result in results)
    assert month.used == sent == closing.read, "each request is an attempt, and is counted"
    assert sent <= 40 + 4, "one connection after the other is given up"


async def test_what_may_set_something_off_is_not_sent_again_when_its_connection_died(
    catalog: Catalog, tmp_path: Path
) -> None:
    closing = Closing()
    wallet = catalog.get("generate_wallet")
    assert wallet is not None
    settings: dict[str, Any] = {"allow_transactional": True}
    async with (
        closing.open() as url,
        open_local_gateway(catalog, tmp_path, rapidapi_base_url=url, **settings) as local,
    ):
        assert (await local.gateway.call(wallet.name, wallet.sample())).ok
        no_cache = CallContext(cache=CacheControl(no_cache=True))
        again = await local.gateway.call(wallet.name, wallet.sample(), no_cache)
        assert again.ok, "its connection is its own"
        assert closing.read == closing.connections == 2


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"hosts": {"eastmoney.cn": {"per_second": 1}}}, "did you mean eastmoney.com"),
        ({"upstream": "simulated", "simulated_faults": {"explode": 0.1}}, "there are server_error"),
    ],
)
async def test_settings_that_cannot_be_are_told(
    catalog: Catalog, tmp_path: Path, settings: dict[str, Any], text: str
) -> None:
    chosen = GatewaySettings(cache_dir=tmp_path, **settings)
    with pytest.raises(SettingsError, match=text):
        async with Gateway.open(chosen, catalog=catalog):
            pass
