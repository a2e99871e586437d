"""Quotas of clients per day: what counts, when it is over, and that no count is lost or doubled."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from gateway.access.keys import KeyEntry, digest_of
from gateway.access.quotas import ClientQuotas
from gateway.access.rejection import RequestRejected
from gateway.settings import GatewaySettings
from gateway.sharing.store import SharedStore
from gateway.upstreams.accounts import read_accounts
from gateway.upstreams.quota import MOST_LEASED
from manifests import Catalog
from tests.support.commands import finport
from tests.support.gateways import open_keyed_gateway, open_served_gateway
from tests.support.redis import needs_redis, redis_server
from tests.support.servers import Server, server
from tests.support.waiting import PATIENCE_S, Stepping, until

pytestmark = pytest.mark.anyio

COIN = ("/v1/tools/get_coin", {"uuid": "Qwsogvtv82FCd"})
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC).timestamp()
HALF_A_DAY_S = 43_200.0
RESETS = "2026-03-11T00:00:00+00:00"
KEY = "planted-client-key-0815"
BEARER = {"Authorization": f"Bearer {KEY}"}


def entry_of(name: str, per_day: int | None = None) -> KeyEntry:
    digest = digest_of(name)
    return KeyEntry(id=digest[:8], name=name, sha256=digest, per_day=per_day)


@asynccontextmanager
async def quotas(
    folder: Path, clock: Stepping | None = None, **clients: int
) -> AsyncIterator[ClientQuotas]:
    settings = GatewaySettings(cache_dir=folder)
    kept = ClientQuotas(settings, None if clock is None else clock.clock)
    for name, per_day in clients.items():
        kept.apply(entry_of(name, per_day))
    try:
        yield kept
    finally:
        await kept.aclose()


async def made(kept: ClientQuotas, name: str, calls: int) -> int:
    """How many of these calls at once are admitted."""
    every = await asyncio.gather(*(kept.count(name) for _ in range(calls)), return_exceptions=True)
    for refused in every:
        assert refused is None or isinstance(refused, RequestRejected)
    return every.count(None)


def counted(folder: Path, now: float = NOON) -> dict[str, int]:
    accounts = read_accounts(folder / "client-quotas.sqlite", now)
    return {account.host: account.used for account in accounts if account.span == "day"}


async def test_a_client_whose_day_is_used_up_is_refused_until_midnight(
    catalog: Catalog, tmp_path: Path
) -> None:
    time_of_day = Stepping(NOON)
    opened = open_keyed_gateway(
        catalog, tmp_path, {"desk": {"per_day": 5}, "free": {}}, clock=time_of_day.clock
    )
    async with opened as (served, heads):
        desk, client = heads["desk"], served.client
        assert (await served.ask(*COIN, desk))[0] == 200
        assert (await served.ask(*COIN, desk))[1]["provenance"]["source"] == "cached"
        assert (await served.ask("/v1/tools/get_coin", {}, desk))[0] == 422
        assert (await served.ask("/v1/tools?limit=1", headers=desk))[0] == 200
        params = {"name": "search_tools", "arguments": {"query": "coin"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        assert not (await served.ask("/mcp", message, desk))[1]["result"].get("isError")
        assert (await served.ask("/v1/tools/get_coin", headers=desk))[0] == 200, "it is no call"
        async with client.post(served.url + COIN[0], json=COIN[1], headers=desk) as response:
            error = (await response.json())["error"]
            assert (response.status, response.headers["Retry-After"]) == (429, "43200")
        assert (error["code"], error["fault"]) == ("quota_exhausted", "quota")
        text = f"this client's 5 calls a day are used up; the quota resets at {RESETS}"
        assert error["message"] == text
        assert error["details"] == {"limit": "per_day", "resets_at": RESETS}
        line = json.dumps({"tool": "get_coin", "arguments": COIN[1]}).encode()
        assert (await served.ask("/v1/calls", line, desk))[1]["error"] == error
        message["params"] = {"name": "call_tool", "arguments": {"name": "get_coin"}}
        assert (await served.ask("/mcp", message, desk))[1]["result"]["isError"]
        assert (await served.ask("/v1/schemas/openai", headers=desk))[0] == 429
        assert (await served.ask(*COIN, heads["free"]))[0] == 200, "who has no quota goes on"
        figures = (await (await client.get(f"{served.url}/metrics", headers=desk)).text()).split()
        assert figures[figures.index('finport_client_quota_left{client="desk"}') + 1] == "0.0"
        time_of_day.step(HALF_A_DAY_S)
        assert (await served.ask(*COIN, desk))[0] == 200, "it is midnight"
        time_of_day.step(-HALF_A_DAY_S)
        assert (await served.ask(*COIN, desk))[0] == 429, "a clock that is set back forgets no call"


async def test_calls_that_a_limit_refuses_are_not_counted(catalog: Catalog, tmp_path: Path) -> None:
    limits = {"desk": {"per_day": 100, "per_second": 0.001}}
    async with open_keyed_gateway(catalog, tmp_path, limits) as (served, heads):
        statuses = [(await served.ask(*COIN, heads["desk"]))[0] for _ in range(3)]
        assert statuses == [200, 429, 429]
        await until(lambda: [*counted(tmp_path / "cache", time_now()).values()] == [1])


def time_now() -> float:
    return datetime.now(UTC).timestamp()


async def test_a_new_limit_counts_at_once_and_a_new_key_begins_no_new_quota(tmp_path: Path) -> None:
    async with quotas(tmp_path, desk=3) as kept:
        assert await made(kept, "desk", 5) == 3
        kept.apply(entry_of("desk", 4).model_copy(update={"id": "of-another-key"}))
        assert await made(kept, "desk", 5) == 1


async def test_a_restart_goes_on_counting_where_the_default_quota_stands(
    catalog: Catalog, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"calls_per_day": 3, "api_keys": (SecretStr(f"desk={KEY}"),)}
    given["clients_file"] = tmp_path / "clients.json"
    statuses = []
    for _ in range(2):
        async with open_served_gateway(catalog, tmp_path, **given) as served:
            statuses += [(await served.ask(*COIN, BEARER))[0] for _ in range(2)]
    assert statuses == [200, 200, 200, 429]


async def test_busy_clients_seldom_wait_for_the_disk_and_get_no_call_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = 0

    async with quotas(tmp_path, Stepping(NOON), desk=5_000) as kept:
        accounts = (await kept.open())._accounts
        begin = accounts.transaction

        @contextmanager
        def counting() -> Iterator[None]:
            nonlocal transactions
            transactions += 1
            with begin():
                yield

        monkeypatch.setattr(accounts, "transaction", counting)
        for _ in range(2_000):
            await kept.count("desk")
        assert transactions < 100
        assert 2_000 <= counted(tmp_path)["desk"] <= 2_000 + MOST_LEASED
        assert await made(kept, "desk", 4_000) <= 3_000
    assert counted(tmp_path)["desk"] <= 5_000
    async with quotas(tmp_path, Stepping(NOON), desk=5_000) as kept:
        rest = 5_000 - counted(tmp_path)["desk"]
        assert await made(kept, "desk", rest + 10) == rest


async def test_thousands_of_clients_have_a_quota_each(tmp_path: Path) -> None:
    names = [f"client-{n}" for n in range(2_000)]
    async with quotas(tmp_path, Stepping(NOON), **dict.fromkeys(names, 2)) as kept:
        await kept.open()
        for admitted in (2_000, 2_000, 0):
            counts = (kept.count(name) for name in names)
            every = await asyncio.gather(*counts, return_exceptions=True)
            assert every.count(None) == admitted
    assert set(counted(tmp_path).values()) == {2}


async def statuses(url: str, calls: int) -> list[int]:
    """Statuses of calls that come over many connections."""

    async def call() -> int:
        connector = aiohttp.TCPConnector(force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as client,
            client.post(f"{url}{COIN[0]}", json=COIN[1], headers=BEARER) as response,
        ):
            return response.status

    return [await done for done in asyncio.as_completed([call() for _ in range(calls)])]


def serving(folder: Path, per_day: int, *options: str) -> Any:
    limits = {"FINPORT_API_KEYS": f"desk={KEY}", "FINPORT_CALLS_PER_DAY": str(per_day)}
    return server(folder, *options, **limits)


async def test_worker_processes_share_one_quota(tmp_path: Path) -> None:
    async with serving(tmp_path, 60, "--workers", "2") as running:
        done: list[int] = []
        async with asyncio.timeout(PATIENCE_S):
            while done.count(200) < 60:  # what another process counted ahead comes back
                done += await statuses(running.url, 20)
        assert {*await statuses(running.url, 20)} == {429}
        assert done.count(200) == 60


async def test_no_kill_makes_a_client_s_count_less(tmp_path: Path) -> None:
    done = 0
    (tmp_path / "kept").mkdir()
    for _ in range(2):
        running: Server
        async with serving(tmp_path / "kept", 10_000) as running:
            done += (await statuses(running.url, 40)).count(200)
            running.tell(signal.SIGKILL)
            await running.process.wait()
    (file,) = (tmp_path / "kept" / "cache").glob("*/client-quotas.sqlite")
    assert done == 80 <= counted(file.parent, time_now())["desk"] <= 80 + 2 * MOST_LEASED


async def test_a_full_disk_admits_no_call_that_can_t_be_counted(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    async with quotas(tmp_path, desk=1_000) as kept:
        await kept.count("desk")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            with pytest.raises(RequestRejected) as refused:
                await kept.count("desk")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        error = refused.value.error
        assert (error.code, error.retry_after_s) == ("overloaded", 1.0)
        assert str(tmp_path) not in error.message
        await kept.count("desk")


async def test_a_ledger_that_can_t_be_opened_refuses_calls_and_no_start_is_made_with_it(
    catalog: Catalog, tmp_path: Path
) -> None:
    (tmp_path / "cache" / "client-quotas.sqlite").mkdir(parents=True)
    async with quotas(tmp_path / "cache", desk=1) as kept:
        with pytest.raises(RequestRejected, match="log says why"):
            await kept.count("desk")
    with pytest.raises(OSError, match="can't be opened"):
        async with open_keyed_gateway(catalog, tmp_path, {"desk": {"per_day": 1}}):
            pass


@needs_redis
async def test_gateways_that_share_redis_share_the_quotas(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, SharedStore.open(redis.url) as store:
        machines = [
            ClientQuotas(GatewaySettings(cache_dir=tmp_path / name), store.clock, store)
            for name in ("a", "b")
        ]
        admitted = 0
        try:
            for machine in machines:
                machine.apply(entry_of("desk", 300))
            async with asyncio.timeout(PATIENCE_S):
                while admitted < 300:  # a Redis that is new allots nothing for some seconds
                    counts = await asyncio.gather(*(made(m, "desk", 50) for m in machines))
                    admitted += sum(counts)
            assert await asyncio.gather(*(made(m, "desk", 9) for m in machines)) == [0, 0]
        finally:
            for machine in machines:
                await machine.aclose()


def test_the_command_makes_keys_with_a_quota(tmp_path: Path) -> None:
    file = str(tmp_path / "clients.json")
    for per_day, code in (("20", 0), ("0", 2)):
        add = ("keys", "add", "desk", "--per-day", per_day, "--json")
        done = finport(*add, cache=tmp_path, FINPORT_CLIENTS_FILE=file)
        assert done.returncode == code
        assert code or json.loads(done.stdout)["per_day"] == 20
