"""Usage: what is counted by day, client and tool, and that it outlives processes and full disks."""

import asyncio
import json
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adapters.simulator import Fault
from gateway.telemetry import usage, usage_store
from gateway.telemetry.exposition import OTHER
from gateway.telemetry.usage import Usage
from gateway.telemetry.usage_store import UsageStore, Used, read_usage
from manifests import Catalog
from tests.support.commands import finport, post, served
from tests.support.gateways import LocalGateway, open_keyed_gateway, open_local_gateway
from tests.support.mcp_messages import META, request
from tests.support.mcp_stdio import lines, started
from tests.support.waiting import PATIENCE_S, Stepping, until

pytestmark = pytest.mark.anyio

COIN = ("get_coin", {"uuid": "Qwsogvtv82FCd"})
HOST = "coinranking1.p.rapidapi.com"
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC).timestamp()
TODAY = int(NOON // 86_400)


def rows(local: LocalGateway) -> list[tuple[Any, ...]]:
    """Client, tool, host, calls, cached, failed and requests of each row."""
    return [astuple(used)[1:-1] for used in read_usage(local.settings.usage_path, 0)]


@asynccontextmanager
async def counting(
    catalog: Catalog, folder: Path, clock: Stepping | None = None, **settings: Any
) -> AsyncIterator[LocalGateway]:
    given = {"clock": None if clock is None else clock.clock, "retries": 0, **settings}
    async with (
        open_local_gateway(catalog, folder, **given) as local,
        Usage.open(local.gateway),
    ):
        yield local


async def test_calls_are_counted_by_client_and_tool(catalog: Catalog, tmp_path: Path) -> None:
    limits: dict[str, dict[str, Any]] = {"desk": {}, "lab": {"per_second": 0.001}}
    given = {"usage": True, "retries": 0, "hosts": {HOST: {"price_per_request": 0.5}}}
    opened = open_keyed_gateway(catalog, tmp_path, limits, **given)
    async with opened as (gateway, heads):
        target, arguments = f"/v1/tools/{COIN[0]}", COIN[1]
        for name in ("desk", "desk", "lab", "lab"):
            await gateway.ask(target, arguments, heads[name])
        await gateway.ask("/v1/tools/no-such-tool", {}, heads["desk"])
        _, about = await gateway.ask("/v1/tools/get_coin", headers=heads["desk"])
        assert about["price"] == {"per_request": 0.5, "currency": ""}
        _, about = await gateway.ask("/v1/tools/bond_zh_us_rate", headers=heads["desk"])
        assert about["price"] is None, "unknown"
        gateway.local.simulator.play("*", Fault.SERVER_ERROR)
        await gateway.ask(target, {"uuid": "another"}, heads["desk"])
        size = len(json.dumps((await gateway.ask(target, arguments, heads["desk"]))[1]["data"]))
    assert rows(gateway.local) == [
        ("desk", "", "", 1, 0, 1, 0),
        ("desk", "get_coin", HOST, 4, 2, 1, 2),
        ("lab", "", "", 1, 0, 1, 0),
        ("lab", "get_coin", HOST, 1, 1, 0, 0),
    ]
    (used,) = (u for u in read_usage(gateway.local.settings.usage_path, 0) if u.cached == 1)
    assert 0 < used.bytes <= size


async def test_a_request_that_callers_share_is_counted_once(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with counting(catalog, tmp_path) as local:
        await asyncio.gather(*(local.gateway.call(*COIN) for _ in range(8)))
    ((_, _, _, calls, _, failed, requests),) = rows(local)
    assert (calls, failed, requests) == (8, 0, 1)


async def test_a_day_ends_at_midnight_and_a_step_of_the_clock_loses_nothing(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "WRITE_S", 0.01)
    clock = Stepping(NOON)
    async with counting(catalog, tmp_path, clock) as local:
        for n, step_s in enumerate((86_400, -86_400, 0), 1):
            await local.gateway.call(*COIN)
            await until(lambda n=n: sum(row[3] for row in rows(local)) == n)  # type: ignore[misc]
            clock.step(step_s)
            await asyncio.sleep(0.03)  # what is counted until the next writing is of its day
    days = {used.day: used.calls for used in read_usage(local.settings.usage_path, 0)}
    assert days == {TODAY: 2, TODAY + 1: 1}


async def test_a_full_disk_delays_counts_and_loses_none(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(usage, "WRITE_S", 0.01)
    async with open_local_gateway(catalog, tmp_path) as local, Usage.open(local.gateway) as counts:
        await local.gateway.call(*COIN)
        await until(lambda: len(rows(local)) == 1)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            for _ in range(3):
                assert (await local.gateway.call(*COIN)).ok
            await until(lambda: counts._failure is not None)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await until(lambda: rows(local)[0][3] == 4)


async def test_counts_that_are_lost_at_the_end_are_told(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with counting(catalog, tmp_path) as local:
        await local.gateway.call(*COIN)
        with closing(sqlite3.connect(local.settings.usage_path)) as database:
            database.execute("DROP TABLE usage")
    assert "the usage of 1 calls is lost" in caplog.text


async def test_clients_beyond_the_bound_are_added_up(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "MOST_WAITING", 1)
    monkeypatch.setattr(usage_store, "MOST_A_DAY", 3)
    async with counting(catalog, tmp_path) as local:
        for call in (COIN, ("no_such_tool", {}), COIN, ("no_such_tool", {})):
            await local.gateway.call(*call)
    assert [(row[0], row[3]) for row in rows(local)] == [("", 2), (OTHER, 2)]
    store = UsageStore(local.settings.usage_path)
    for client in "abcd":
        store.add({TODAY: {(client, "t", "h"): [1, 0, 0, 2, 3]}}, OTHER)
    store.add({TODAY: {("a", "t", "h"): [1, 0, 0, 2, 3]}}, OTHER)
    store.close()
    used = [u for u in read_usage(local.settings.usage_path, 0) if u.day == TODAY]
    assert {(u.client, u.calls) for u in used} == {(OTHER, 1), ("a", 2), ("b", 1), ("c", 1)}


def test_the_oldest_days_are_forgotten_and_a_wild_clock_takes_one(tmp_path: Path) -> None:
    path, one = tmp_path / "u", {("a", "t", "h"): [1, 0, 0, 0, 0]}
    store = UsageStore(path)
    for day in (*range(1, usage_store.DAYS + 1), 900_000):
        store.add({day: one}, OTHER)
    store.close()
    days = [used.day for used in read_usage(path, 0)]
    assert (len(days), days[0], days[-1]) == (usage_store.DAYS, 2, 900_000)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE usage SET calls = 'many' WHERE day = 2")
        database.execute("UPDATE usage SET day = 9000000000 WHERE day = 900000")
    assert [used.day for used in read_usage(path, 0)] == [*range(3, usage_store.DAYS + 1)]


def test_processes_add_to_one_file_and_a_kill_forgets_no_more_than_the_last_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_USAGE", "true")
    with served(tmp_path, "--workers", "2") as (process, url):
        for _ in range(20):
            post(f"{url}/v1/tools/get_coin", json.dumps(COIN[1]).encode())
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    shown = finport("usage", "--by", "tool", "--upstream", "simulated", "--json", cache=tmp_path)
    (row,) = json.loads(shown.stdout)["usage"]
    assert (row["tool"], row["calls"], row["failed"]) == ("get_coin", 20, 0)


def test_calls_over_standard_input_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_USAGE", "true")
    params = {"name": "call_tool", "arguments": {"name": COIN[0], "arguments": COIN[1]}}
    call = request("tools/call", params | {"_meta": META})
    started(tmp_path).communicate(lines(call), PATIENCE_S)
    said = finport("usage", "--by", "host", "--upstream", "simulated", "--json", cache=tmp_path)
    (row,) = json.loads(said.stdout)["usage"]
    assert (row["host"], row["calls"], row["requests"]) == (HOST, 1, 1)


def written(folder: Path, *used: Used) -> None:
    store = UsageStore(folder / "usage.sqlite")
    for one in used:
        day, client, tool, host, *counts = astuple(one)
        store.add({day: {(client, tool, host): counts}}, OTHER)
    store.close()


def shown(folder: Path, *options: str, **environment: str) -> Any:
    given = {"FINPORT_CLIENTS_FILE": str(folder / "clients.json"), **environment}
    done = finport("usage", *options, cache=folder, **given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "--json" in options else done.stdout


def test_the_command_adds_up_cost_and_calls_no_unknown_price_nothing(tmp_path: Path) -> None:
    other, now = "other.example", int(datetime.now(UTC).timestamp() // 86_400)
    written(
        tmp_path,
        Used(now, "desk", "get_coin", HOST, 10, 8, 0, 2, 100),
        Used(now, "desk", "another", other, 1, 0, 0, 1, 5),
        Used(now, "lab", "another", other, 1, 0, 1, 1, 0),
        Used(now, "", "", "", 3, 0, 3, 0, 0),
        Used(TODAY, "desk", "get_coin", HOST, 5, 0, 0, 5, 7),
    )
    prices = {HOST: {"price_per_request": 0.25}}
    priced = {"FINPORT_HOSTS": json.dumps(prices), "FINPORT_CURRENCY": "EUR"}
    said = shown(tmp_path, "--json", **priced)
    assert said["currency"] == "EUR"
    assert [(row["client"], row["cost"], row["unpriced"]) for row in said["usage"]] == [
        ("", None, 0),
        ("desk", 0.5, 1),
        ("lab", None, 1),
    ]
    since = ("--since", "2026-03-01", "--json")
    days = {
        row["day"]: row["cost"] for row in shown(tmp_path, "--by", "day", *since, **priced)["usage"]
    }
    assert days["2026-03-10"] == 1.25
    text = shown(tmp_path, **priced)
    for words in ("cost (EUR)", "0.5 + unknown", "(no key)"):
        assert words in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "unknown" in shown(tmp_path, "--by", "host")


def test_the_command_shows_quotas_and_says_how_to_count(tmp_path: Path) -> None:
    keys = {"FINPORT_API_KEYS": "desk=planted-key-0815,free=planted-key-0816"}
    assert "FINPORT_USAGE=true" in shown(tmp_path)
    (desk, free) = shown(tmp_path, "--json", FINPORT_CALLS_PER_DAY="20", **keys)["quotas"]
    assert (desk["client"], desk["used"], desk["left"]) == ("desk", 0, 20)
    assert free["resets_at"].endswith("T00:00:00+00:00")
    assert shown(tmp_path, "--json", **keys)["quotas"] == []
    (tmp_path / "usage.sqlite").write_bytes(b"no database" * 500)
    done = finport("usage", cache=tmp_path)
    assert done.returncode == 1
    assert "can't be read" in done.stderr
    assert finport("usage", "--since", "yesterday", cache=tmp_path).returncode == 2


def test_the_price_of_a_request_is_told_with_the_tool(tmp_path: Path) -> None:
    price = json.dumps({HOST: {"price_per_request": 0.002}})
    given = {"FINPORT_HOSTS": price, "FINPORT_CURRENCY": "USD"}
    about = finport("tools", "show", "get_coin", "--json", cache=tmp_path, **given).stdout
    assert json.loads(about)["price"] == {"per_request": 0.002, "currency": "USD"}
    text = finport("tools", "show", "get_coin", cache=tmp_path, **given).stdout
    assert "0.002 USD a request" in text
    wrong = json.dumps({HOST: {"price_per_request": -1}})
    assert finport("usage", cache=tmp_path, FINPORT_HOSTS=wrong).returncode == 2
