"""Tools that may change something are executed for each call, and nobody else gets the answer."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from cache import CacheControl, Entry, Recorder, Row, Snapshot
from gateway import CallContext, Gateway, GatewaySettings, Result
from gateway.errors import CallError
from gateway.pipeline.bind import Binder
from gateway.server import http
from gateway.trace import JsonLines
from manifests import Catalog
from tests.support.commands import finport
from tests.support.gateways import LocalGateway, open_local_gateway
from tests.support.upstreams import upstream
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

WALLET = ("generate_wallet", {"chain": "ethereum"})
COIN = ("get_coin", {"uuid": "x"})
LEAKED = "planted-private-key"


class Mint:
    """An upstream that makes another wallet for each request."""

    def __init__(self) -> None:
        self.made = 0
        self.waiting = 0
        self.opened = asyncio.Event()
        self.opened.set()

    async def handle(self, _: web.Request) -> web.Response:
        self.made += 1
        number = self.made
        self.waiting += 1
        try:
            await self.opened.wait()
        finally:
            self.waiting -= 1
        return web.json_response([{"key": f"{LEAKED}-{number}", "part": n} for n in range(5)])


@asynccontextmanager
async def minting(
    catalog: Catalog, folder: Path, **settings: Any
) -> AsyncIterator[tuple[LocalGateway, Mint]]:
    mint = Mint()
    settings = {"allow_transactional": True, **settings}
    async with (
        upstream(mint.handle) as origin,
        open_local_gateway(catalog, folder, rapidapi_base_url=origin, **settings) as local,
    ):
        yield local, mint


def key_in(result: Result) -> str:
    assert result.ok, result.error
    assert result.source == "live"
    return str(result.value[0]["key"])


def old_entry() -> Entry:
    """An answer as an earlier version kept it."""
    data = json.dumps([{"key": f"{LEAKED}-old"}]).encode()
    return Entry(data, ("key",), 1, time.time(), 1.0, "live")


def holds(folder: Path, text: str) -> list[str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return [file.name for file in files if text.encode() in file.read_bytes()]


async def test_each_call_is_executed_and_its_answer_is_kept_nowhere(
    catalog: Catalog, tmp_path: Path
) -> None:
    short = CallContext(max_rows=2)
    async with JsonLines.open(tmp_path / "calls.jsonl") as trace:
        opened = minting(catalog, tmp_path, trace=trace)
        async with opened as (local, mint):
            results = [await local.gateway.call(*WALLET, short) for _ in range(3)]
            assert len({key_in(result) for result in results}) == mint.made == 3
            assert [(r.truncated, r.handle, r.attempts) for r in results] == [(True, None, 1)] * 3
            assert len(local.gateway.answers.memory) == 0
            asked = CallContext(cache=CacheControl(only_if_cached=True))
            refused = await local.gateway.call(*WALLET, asked)
            assert refused.error is not None
            assert refused.error.code == "not_cached"
            stale = CallContext(cache=CacheControl(max_stale_s=1e9))
            assert key_in(await local.gateway.call(*WALLET, stale)).endswith("-4")
    assert holds(tmp_path, LEAKED) == []


async def test_concurrent_calls_share_nothing(catalog: Catalog, tmp_path: Path) -> None:
    for cache in (None, CacheControl(no_cache=True), CacheControl(no_store=True)):
        async with minting(catalog, tmp_path) as (local, mint):
            mint.opened.clear()
            context = CallContext(cache=cache)
            calls = [asyncio.create_task(local.gateway.call(*WALLET, context)) for _ in range(4)]
            await until(lambda: mint.waiting == 4)
            mint.opened.set()
            results = await asyncio.gather(*calls)
            assert len({key_in(result) for result in results}) == mint.made == 4


async def test_a_caller_that_goes_away_ends_its_own_execution_only(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with minting(catalog, tmp_path) as (local, mint):
        mint.opened.clear()
        gone, stays = (asyncio.create_task(local.gateway.call(*WALLET)) for _ in range(2))
        await until(lambda: mint.waiting == 2)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert local.gateway.answers.under_way == 1
        mint.opened.set()
        key_in(await stays)
        assert local.gateway.outcomes == {"cancelled": 1, "live": 1}


async def test_the_bounds_of_the_pipeline_hold(catalog: Catalog, tmp_path: Path) -> None:
    async with minting(catalog, tmp_path, max_pending_calls=1) as (local, mint):
        mint.opened.clear()
        late = asyncio.create_task(local.gateway.call(*WALLET, CallContext(deadline_s=2.0)))
        await until(lambda: mint.waiting == 1)
        refused = await local.gateway.call(*WALLET)
        assert refused.error is not None
        assert refused.error.code == "overloaded"
        timeout = (await late).error
        assert timeout is not None
        assert timeout.code == "timeout"
        assert (mint.made, local.gateway.answers.under_way) == (1, 0)
        last = asyncio.create_task(local.gateway.call(*WALLET))
        await until(lambda: mint.waiting == 1)
        await local.gateway.answers.close()
        closed = (await last).error
        assert closed is not None
        assert closed.code == "overloaded"


async def test_an_execution_that_may_have_happened_is_not_called_retryable(
    catalog: Catalog, tmp_path: Path
) -> None:
    async def fail(_: web.Request) -> web.Response:
        return web.json_response({}, status=503)

    async with (
        upstream(fail) as origin,
        open_local_gateway(
            catalog,
            tmp_path,
            rapidapi_base_url=origin,
            allow_transactional=True,
            max_pending_calls=1,
        ) as local,
    ):
        for tool, arguments in (WALLET, COIN):
            result = await local.gateway.call(tool, arguments)
            assert result.error is not None
            assert result.error.code == "upstream_error"
            assert result.error.retryable == (tool == "get_coin")
            assert result.attempts == (1 if tool == "generate_wallet" else 3)


async def old_snapshot(catalog: Catalog, path: Path) -> None:
    """A snapshot as an earlier version recorded it."""
    async with Recorder.open(path, "live") as recorder:
        await record_old_rows(catalog, recorder)


async def record_old_rows(catalog: Catalog, recorder: Recorder) -> None:
    binder = Binder(catalog)
    for call, entry in ((WALLET, old_entry()), (COIN, Entry(b"{}", None, None, 1.0, 1.0, "live"))):
        bound = binder.bind(*call)
        manifest = bound.plan.manifest
        await recorder.add(Row(manifest.name, manifest.revision, bound.arguments, "ok", entry))


async def test_offline_it_is_refused_also_where_a_snapshot_holds_an_answer(
    catalog: Catalog, tmp_path: Path
) -> None:
    path = tmp_path / "old.snap"
    await old_snapshot(catalog, path)
    settings = GatewaySettings(
        mode="offline", snapshot=path, cache_dir=tmp_path / "c", allow_transactional=True
    )
    async with Gateway.open(settings, catalog=catalog) as gateway:
        error = (await gateway.call(*WALLET)).error
    assert error is not None
    assert error.code == "not_in_snapshot"
    assert "answers are never recorded" in error.message
    assert LEAKED not in json.dumps(error.to_dict())


async def test_replaying_it_goes_live(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "old.snap"
    await old_snapshot(catalog, path)
    key = Binder(catalog).bind(*WALLET).key
    with Snapshot(path) as snapshot:
        row = snapshot.get(key)
    assert row is not None
    async with minting(catalog, tmp_path, mode="replay", snapshot=path) as (local, _):
        keys = [key_in(await local.gateway.call(*WALLET)) for _ in range(2)]
        assert keys == [f"{LEAKED}-1", f"{LEAKED}-2"]
        recalled = await local.gateway.recall(f"{WALLET[0]}.{key}-{row.entry.version}")
        assert isinstance(recalled, CallError)


async def test_recording_it_is_executed_and_not_recorded(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "new.snap"
    async with minting(catalog, tmp_path, mode="record", snapshot=path) as (local, mint):
        assert (await local.gateway.call("get_coin", {"uuid": "x"})).ok
        keys = [key_in(await local.gateway.call(*WALLET)) for _ in range(2)]
        assert keys == [f"{LEAKED}-2", f"{LEAKED}-3"]
        mint.opened.clear()
        late = await local.gateway.call(*WALLET, CallContext(deadline_s=2.0))
        assert late.error is not None
    with Snapshot(path) as snapshot:
        assert snapshot.summary.tools == {"get_coin": 1}
    assert holds(tmp_path, f"{LEAKED}-2") == []


async def test_over_http_nobody_may_store_it(catalog: Catalog, tmp_path: Path) -> None:
    async with (
        minting(catalog, tmp_path) as (local, _),
        http.serve(local.gateway, "127.0.0.1", 0) as url,
        aiohttp.ClientSession() as client,
    ):
        for headers in ({}, {"Origin": url}):  # ready bytes, and aiohttp's response
            post = client.post(f"{url}/v1/tools/{WALLET[0]}", json=WALLET[1], headers=headers)
            async with post as answer:
                assert answer.status == 200
                assert answer.headers["Cache-Control"] == "no-store"
                assert "ETag" not in answer.headers
                assert "Age" not in answer.headers
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        order = dict(zip(("name", "arguments"), WALLET, strict=True))
        call |= {"params": {"name": "call_tool", "arguments": order}}
        for headers in ({}, {"Origin": url}):
            async with client.post(f"{url}/mcp", json=call, headers=headers) as answer:
                assert answer.headers["Cache-Control"] == "no-store"
                assert LEAKED in await answer.text()


def test_recording_by_command_leaves_it_out_and_refuses_it_by_name(tmp_path: Path) -> None:
    record = ("snapshot", "record", "--upstream", "simulated", "--out", "s.snap")
    named = finport(*record, "--tools", "get_coin,generate_wallet")
    assert named.returncode == 2
    assert "generate_wallet: answers of transactional tools may hold secrets" in named.stderr
    assert not (tmp_path / "s.snap").exists()
    calls = [{"tool": tool, "arguments": given} for tool, given in (WALLET, WALLET, COIN)]
    (tmp_path / "calls.jsonl").write_text("\n".join(map(json.dumps, calls)))
    done = finport(*record, "--calls", "calls.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    assert "2 calls of transactional tools are never recorded: left out" in done.stderr
    assert json.loads(done.stdout)["tools"] == {"get_coin": 1}


async def test_what_an_earlier_version_recorded_is_neither_merged_nor_exported(
    catalog: Catalog, tmp_path: Path
) -> None:
    await old_snapshot(catalog, tmp_path / "old.snap")
    merged = finport("snapshot", "merge", "old.snap", "--out", "new.snap", "--json")
    summary = json.loads(merged.stdout)
    assert (summary["tools"], summary["withheld"]) == ({"get_coin": 1}, 1)
    assert LEAKED.encode() not in (tmp_path / "new.snap").read_bytes()
    exported = finport("snapshot", "export", "old.snap", "--format", "jsonl")
    assert [json.loads(line)["tool"] for line in exported.stdout.splitlines()] == ["get_coin"]
    assert exported.stderr == "1 rows of transactional tools are left out\n"


async def test_what_an_interrupted_recording_of_an_earlier_version_holds_is_left_out(
    catalog: Catalog, tmp_path: Path
) -> None:
    path = tmp_path / "s.snap"

    async def interrupted() -> None:
        async with Recorder.open(path, "live") as recorder:
            await record_old_rows(catalog, recorder)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        await interrupted()
    async with Recorder.open(path, "live", {WALLET[0]}):
        pass
    with Snapshot(path) as snapshot:
        assert snapshot.summary.tools == {"get_coin": 1}
