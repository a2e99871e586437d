"""`record`, `replay` and `offline`: through the gateway, its HTTP API and the command line."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from cache import CacheControl, Entry, Snapshot, SnapshotError
from gateway import CallContext, Gateway, GatewaySettings, Result
from gateway.server import http
from gateway.settings import SettingsError
from manifests import Catalog, Manifest
from tests.support.gateways import PLANTED_KEY, LocalGateway, open_local_gateway
from tests.support.upstreams import upstream
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

HIST = ("stock_zh_a_hist", {"symbol": "600519", "start_date": "20240101", "end_date": "20240131"})
COIN = ("get_coin", {"uuid": "Qwsogvtv82FCd"})


def as_told(result: Result) -> dict[str, Any] | None:
    return result.error.to_dict() if result.error else None


@asynccontextmanager
async def offline(
    catalog: Catalog, folder: Path, mode: str = "offline", **settings: Any
) -> AsyncIterator[Gateway]:
    chosen = GatewaySettings(
        mode=mode,
        snapshot=folder / "s.snap",
        cache_dir=folder / "other-cache",
        **settings,
    )
    async with Gateway.open(chosen, catalog=catalog) as gateway:
        yield gateway


@asynccontextmanager
async def recording(catalog: Catalog, folder: Path, **settings: Any) -> AsyncIterator[LocalGateway]:
    settings |= {"mode": "record", "snapshot": folder / "s.snap"}
    async with open_local_gateway(catalog, folder, **settings) as local:
        yield local


async def test_what_was_recorded_replays_to_the_last_byte(catalog: Catalog, tmp_path: Path) -> None:
    async with recording(catalog, tmp_path) as local:
        recorded = [await local.gateway.call(*call) for call in (HIST, COIN)]
        assert [r.source for r in recorded] == ["live", "live"]
        short = await local.gateway.call(*HIST, CallContext(max_rows=5))
        assert short.handle is not None
        assert isinstance(await local.gateway.recall(short.handle), Entry)
    async with offline(catalog, tmp_path) as gateway:
        for call, first in zip((HIST, COIN), recorded, strict=True):
            for _ in range(2):
                again = await gateway.call(*call)
                assert (again.source, again.upstream, again.attempts) == ("replayed", "live", 0)
                assert (again.data, again.columns, again.rows) == (
                    first.data,
                    first.columns,
                    first.rows,
                )
                assert json.loads(again.to_json())["provenance"]["snapshot"] == gateway.snapshot_id
        assert not (tmp_path / "other-cache").exists(), "offline needs no cache and makes none"
        short = await gateway.call(*HIST, CallContext(max_rows=5))
        assert short.handle is not None
        entry = await gateway.recall(short.handle)
        assert isinstance(entry, Entry)
        assert entry.page(0, 100) == recorded[0].data


async def test_recording_asks_upstream_also_for_what_is_kept(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with recording(catalog, tmp_path) as local:
        for _ in range(3):
            assert (await local.gateway.call(*COIN)).source == "live"
        assert local.simulator.requests.total() == 3
        results = await asyncio.gather(*(local.gateway.call(*COIN) for _ in range(20)))
        assert {r.source for r in results} == {"live"}
        assert local.simulator.requests.total() == 4, "what is asked at once flies once"
    with Snapshot(tmp_path / "s.snap") as snapshot:
        assert snapshot.summary.rows == 1


async def test_recorded_errors_replay_as_the_same_typed_error(
    catalog: Catalog, tmp_path: Path
) -> None:
    statuses = {"a": 404, "c": 403, "d": 503, "busy": 429}

    async def handler(request: web.Request) -> web.Response:
        name = request.path.rsplit("/", 1)[-1]
        if name == "hang":
            await asyncio.sleep(2 * PATIENCE_S)
        body = {"message": "You are not subscribed to this API."} if name == "c" else {}
        headers = {"Retry-After": "7"} if name == "busy" else {}
        return web.json_response(body, status=statuses.get(name, 200), headers=headers)

    names = ["a", "c", "d", "hang", "fine", "busy"]  # after which the host is left alone

    def context(name: str) -> CallContext:
        return CallContext(deadline_s=1.5 if name == "hang" else PATIENCE_S)

    async with (
        upstream(handler) as url,
        recording(catalog, tmp_path, rapidapi_base_url=url, retries=0) as local,
    ):
        told = [await local.gateway.call("get_coin", {"uuid": n}, context(n)) for n in names]
    async with offline(catalog, tmp_path) as gateway:
        replayed = [await gateway.call("get_coin", {"uuid": n}) for n in names]
    assert [as_told(r) for r in told] == [as_told(r) for r in replayed]
    codes = [r.error.code.value if r.error else None for r in replayed]
    assert codes == [
        *("upstream_error", "not_subscribed", "upstream_error", "timeout", None),
        "rate_limited",
    ]
    assert replayed[-1].error is not None
    assert replayed[-1].error.retry_after_s == 7
    for result, source in ((told[0], "live"), (replayed[0], "replayed")):
        provenance = json.loads(result.to_json())["provenance"]
        assert (provenance["source"], provenance["attempts"]) == (source, result.attempts)
        assert (provenance["snapshot"] is None) == (source == "live")


async def test_a_gateway_that_is_not_configured_is_not_recorded(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with recording(catalog, tmp_path, rapidapi_keys=()) as local:
        error = (await local.gateway.call(*COIN)).error
        assert error is not None
        assert error.code == "not_configured"
        assert local.gateway.answers.state()["recording"] == {"calls": 0, "failed": False}
    assert local.gateway.snapshot_id is None


async def test_offline_says_what_was_recorded_instead(catalog: Catalog, tmp_path: Path) -> None:
    async with recording(catalog, tmp_path) as local:
        for symbol in ("600519", "000001", "600036"):
            await local.gateway.call("stock_zh_a_hist", {**HIST[1], "symbol": symbol})
    async with offline(catalog, tmp_path) as gateway:
        error = (await gateway.call("stock_zh_a_hist", {**HIST[1], "symbol": "600518"})).error
        assert error is not None
        assert (error.code, error.fault, error.code.http_status) == (
            "not_in_snapshot",
            "gateway",
            404,
        )
        assert error.message.startswith(
            f"this call of stock_zh_a_hist is not in snapshot {str(gateway.snapshot_id)[:12]}; "
            'nearest recorded: {"symbol":"600519"'
        )
        assert len(error.details["nearest"]) == 3
        other = (await gateway.call(*COIN)).error
        assert other is not None
        assert other.message.endswith("neither is any other call of that tool")
        for asked in (CacheControl(no_cache=True), CacheControl(max_age_s=0)):
            fresh = await gateway.call(*HIST, CallContext(cache=asked))
            assert fresh.source == "replayed", "a snapshot is no cache"


async def test_another_revision_of_the_manifest_is_told(catalog: Catalog, tmp_path: Path) -> None:
    async with recording(catalog, tmp_path) as local:
        await local.gateway.call(*COIN)
    manifest = catalog.get("get_coin")
    assert manifest is not None
    text = manifest.model_dump_json().replace("/coin/{uuid}", "/v3/coin/{uuid}")
    async with offline(Catalog([Manifest.model_validate_json(text)]), tmp_path) as gateway:
        error = (await gateway.call(*COIN)).error
    assert error is not None
    assert "recorded under another revision of the tool's manifest" in error.message


async def test_replay_answers_from_the_snapshot_else_live_and_says_which(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with recording(catalog, tmp_path) as local:
        await local.gateway.call(*COIN)
    other = {"uuid": "razxDUgYGNAdQ"}
    path = tmp_path / "s.snap"
    async with open_local_gateway(
        catalog, tmp_path / "replay", mode="replay", snapshot=path
    ) as local:
        sources = [(await local.gateway.call(*COIN)).source for _ in range(2)]
        sources += [(await local.gateway.call("get_coin", other)).source for _ in range(2)]
        assert sources == ["replayed", "replayed", "live", "cached"]
        assert local.simulator.requests.total() == 1


async def test_a_damaged_row_is_an_error_and_not_an_answer(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with recording(catalog, tmp_path) as local:
        await local.gateway.call(*COIN)
    path = tmp_path / "s.snap"
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)
    async with offline(catalog, tmp_path) as gateway:
        error = (await gateway.call(*COIN)).error
    assert error is not None
    assert error.code == "internal"
    assert str(tmp_path) not in error.message


async def test_no_planted_key_is_in_anything_that_is_kept(catalog: Catalog, tmp_path: Path) -> None:
    async with recording(catalog, tmp_path) as local:
        await local.gateway.call(*COIN)
        await local.gateway.call("get_coin", {"uuid": "x", "X-RapidAPI-Key": PLANTED_KEY})
    async with offline(catalog, tmp_path) as gateway:
        assert (await gateway.call(*COIN)).ok
    with Snapshot(tmp_path / "s.snap") as snapshot:
        bodies = b"".join(row.entry.data for row in snapshot.rows())
    kept = _contents(tmp_path)
    assert len(kept) >= 2
    assert not [content for content in [bodies, *kept] if PLANTED_KEY.encode() in content]


def _contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.rglob("*") if file.is_file()]


@pytest.mark.parametrize(
    ("settings", "telling"),
    [
        ({"mode": "offline"}, "mode offline needs a snapshot"),
        ({"snapshot": Path("x")}, "^settings: a snapshot needs a mode: --mode or FINPORT_MODE"),
        ({"mode": "tape", "snapshot": Path("x")}, "setting mode"),
    ],
)
def test_mode_and_snapshot_must_agree(settings: dict[str, Any], telling: str) -> None:
    with pytest.raises(SettingsError, match=telling):
        GatewaySettings.read(**settings)


def test_a_mode_that_is_said_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINPORT_MODE", "offline")
    monkeypatch.setenv("FINPORT_SNAPSHOT", "x")
    assert GatewaySettings.read().mode == "offline"
    assert GatewaySettings.read(mode="live").mode == "live"


async def test_a_snapshot_that_is_not_there_is_told(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"s\.snap: No such file"):
        async with offline(catalog, tmp_path):
            pass
    (tmp_path / "s.snap").write_bytes(b"no snapshot at all" * 100)
    with pytest.raises(SnapshotError, match="is no snapshot"):
        async with offline(catalog, tmp_path, "replay"):
            pass
    with pytest.raises(SnapshotError, match="exists already; a snapshot never changes"):
        async with offline(catalog, tmp_path, "record"):
            pass


async def test_recording_keeps_what_a_caller_forbids_out_of_the_cache(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with recording(catalog, tmp_path) as local:
        cached = CallContext(cache=CacheControl(only_if_cached=True))
        none = (await local.gateway.call(*COIN, cached)).error
        assert none is not None
        assert none.code == "not_cached"
        await local.gateway.call(*COIN, CallContext(cache=CacheControl(no_store=True)))
        assert local.gateway.answers.state()["memory"]["entries"] == 0
        assert local.gateway.answers.state()["recording"] == {"calls": 1, "failed": False}


async def test_a_handle_is_followed_to_the_snapshot_past_a_newer_answer(
    catalog: Catalog, tmp_path: Path
) -> None:
    asked = 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.json_response([{"answer": asked, "row": n} for n in range(9)])

    short = CallContext(max_rows=2)
    async with upstream(handler) as url:
        async with recording(catalog, tmp_path, rapidapi_base_url=url) as local:
            first = await local.gateway.call(*COIN, short)
        async with open_local_gateway(catalog, tmp_path, rapidapi_base_url=url) as local:
            newer = await local.gateway.call(*COIN, CallContext(cache=CacheControl(no_cache=True)))
            assert newer.value[0]["answer"] == 2
            shared = local.settings
        settings = shared.model_copy(update={"mode": "replay", "snapshot": tmp_path / "s.snap"})
        async with Gateway.open(settings, catalog=catalog) as gateway:
            entry = await gateway.recall(str(first.handle))
            assert isinstance(entry, Entry)
            assert entry.rows == 9
            assert b'"answer":1' in entry.page(0, 1)


async def test_a_recording_that_has_failed_asks_upstream_for_nothing_more(
    catalog: Catalog, tmp_path: Path
) -> None:
    async def until_full() -> None:
        async with recording(catalog, tmp_path) as local:
            recorder = local.gateway.answers.recorder
            assert recorder is not None
            assert (await local.gateway.call(*COIN)).ok
            recorder.failure = "the disk is full"
            async with http.serve(local.gateway, "127.0.0.1", 0) as url, ClientSession() as client:
                for _ in range(5):
                    error = (await local.gateway.call(*COIN)).error
                    assert error is not None
                    assert error.code == "internal"
                async with client.get(f"{url}/healthz") as response:
                    assert (response.status, (await response.json())["status"]) == (503, "failed")
            assert local.simulator.requests.total() == 1

    with pytest.raises(SnapshotError, match="the disk is full"):
        await until_full()


async def test_offline_says_where_its_answers_were_made(catalog: Catalog, tmp_path: Path) -> None:
    async with recording(catalog, tmp_path, upstream="simulated") as local:
        await local.gateway.call(*COIN)
    async with offline(catalog, tmp_path) as gateway:
        assert gateway.answers.upstream == "simulated"
    async with offline(catalog, tmp_path, "replay") as gateway:
        assert gateway.answers.upstream == "live and simulated"


async def test_the_first_calls_of_a_lazy_gateway_open_its_upstream_once(tmp_path: Path) -> None:
    settings = GatewaySettings(upstream="simulated", cache_dir=tmp_path)
    async with Gateway.open(settings, lazy=True) as gateway:
        hurried = await gateway.call("get_coin", {"uuid": "a"}, CallContext(1e-6))
        assert hurried.code == "timeout"
        calls = (gateway.call("get_coin", {"uuid": uuid}) for uuid in "abc")
        assert [result.source for result in await asyncio.gather(*calls)] == ["simulated"] * 3
    async with Gateway.open(settings, lazy=True) as gateway:
        kept = await gateway.call("get_coin", {"uuid": "a"})
        assert kept.source in ("cached", "stale")
        left = asyncio.create_task(gateway.call("get_coin", {"uuid": "d"}))
        while not gateway.answers.under_way:
            await asyncio.sleep(0)
    assert (await left).code == "overloaded"
