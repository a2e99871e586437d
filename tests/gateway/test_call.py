"""The call pipeline, through `Gateway.call`, with real adapters and a simulated upstream."""

import asyncio
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.simulator import FUNCTIONS, Fault, Faults
from cache import CacheControl, Entry
from gateway import CallContext, Gateway, GatewaySettings
from gateway.trace import JsonLines, TraceError
from manifests import Catalog
from tests.support.gateways import PLANTED_KEY, LocalGateway, open_local_gateway
from tests.support.upstreams import upstream
from tests.support.waiting import EARLY_S, PATIENCE_S, Held, until

pytestmark = pytest.mark.anyio

HIST = ("stock_zh_a_hist", {"symbol": "600519", "start_date": "20240101", "end_date": "20240131"})
COIN = ("get_coin", {"uuid": "Qwsogvtv82FCd"})
KLINE = ("push2his.eastmoney.com", "/api/qt/stock/kline/get")


@pytest.mark.parametrize(("tool", "arguments"), [HIST, COIN])
async def test_the_first_answer_is_live_and_the_second_cached(
    local: LocalGateway, tool: str, arguments: dict[str, Any]
) -> None:
    first = await local.gateway.call(tool, arguments)
    second = await local.gateway.call(tool, arguments)
    assert (first.ok, first.source, first.upstream, first.attempts) == (True, "live", "live", 1)
    assert (second.source, second.attempts, second.data) == ("cached", 0, first.data)
    assert local.simulator.requests.total() == 1


async def test_a_simulated_answer_says_so_also_when_it_is_cached(
    catalog: Catalog, tmp_path: Path
) -> None:
    made_up = next(m for m in catalog.select(source="akshare") if m.name not in FUNCTIONS)
    invented = (made_up.name, made_up.sample())
    called: list[tuple[tuple[str, dict[str, Any]], str]] = [
        (HIST, "simulated"),
        (COIN, "simulated"),
        (invented, "simulated_invented"),
    ]
    settings = GatewaySettings(upstream="simulated", cache_dir=tmp_path, akshare_workers=1)
    async with Gateway.open(settings, catalog=catalog) as gateway:
        for (tool, arguments), upstream in called:
            first = await gateway.call(tool, arguments)
            second = await gateway.call(tool, arguments)
            assert (first.source, first.upstream) == ("simulated", upstream)
            assert (second.source, second.upstream) == ("cached", upstream)
            assert second.to_json().count(f'"upstream":"{upstream}"'.encode()) == 1
    async with Gateway.open(settings, catalog=catalog) as gateway:
        for (tool, arguments), upstream in called[::2]:
            again = await gateway.call(tool, arguments)
            assert (again.source, again.upstream) == ("cached", upstream), "from disk"
    live = GatewaySettings(cache_dir=tmp_path)
    async with Gateway.open(live, catalog=catalog) as gateway:
        assert not (await gateway.call(*COIN)).ok, "no simulated answer passes for a live one"


async def test_two_spellings_of_one_call_are_one_call(local: LocalGateway) -> None:
    await local.gateway.call("stock_zh_a_hist", {"symbol": "600519", "end_date": "20240131"})
    same = await local.gateway.call(
        "stock_zh_a_hist", b'{"end_date": 20240131, "symbol": 600519, "period": "daily"}'
    )
    assert same.source == "cached"


async def test_64_identical_calls_at_once_are_one_upstream_request(local: LocalGateway) -> None:
    results = await asyncio.gather(*(local.gateway.call(*HIST) for _ in range(64)))
    assert {result.ok for result in results} == {True}
    assert len({result.data for result in results}) == 1
    assert local.simulator.requests == {KLINE: 1}


@pytest.mark.parametrize(("tool", "arguments"), [HIST, COIN])
async def test_a_hanging_upstream_is_a_timeout_on_time_and_leaves_nothing(
    catalog: Catalog, tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    async with open_local_gateway(catalog, tmp_path) as local:
        demands = CacheControl(no_cache=True)
        assert (await local.gateway.call(tool, arguments)).ok  # starts the worker
        before = len(asyncio.all_tasks())
        local.simulator.play("*", Fault.HANG)
        context = CallContext(deadline_s=1.5, cache=demands)
        started = time.perf_counter()
        result = await local.gateway.call(tool, arguments, context)
        assert 1.5 - EARLY_S <= time.perf_counter() - started < PATIENCE_S
        assert result.error is not None
        assert (result.error.code, result.error.fault, result.attempts) == ("timeout", "agent", 1)
        await until(lambda: local.gateway.answers.under_way == 0)
        await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_a_caller_that_goes_away_does_not_take_the_others_along(
    catalog: Catalog, tmp_path: Path
) -> None:
    held = Held()
    async with (
        upstream(held.handle) as url,
        open_local_gateway(catalog, tmp_path, rapidapi_base_url=url) as local,
    ):
        first, second = (asyncio.create_task(local.gateway.call(*COIN)) for _ in "ab")
        await until(lambda: held.asked)
        first.cancel()
        await asyncio.wait([first])
        held.released.set()
        assert (await second).ok
        assert first.cancelled()
        assert held.asked == 1


async def test_a_limit_of_a_caller_that_is_too_short_is_its_own_fault(
    catalog: Catalog, tmp_path: Path
) -> None:
    cases: tuple[tuple[float | None, dict[str, Any], str, str], ...] = (
        (0.2, {}, "agent", "limit of 0.2 s was too short for an answer; allow 5 s or more"),
        (0.2, {"attempt_timeout_s": 0.5}, "agent", "allow 0.5 s or more"),
        (0.2, {"deadline_s": 60.0}, "agent", "or leave it out: then it is 60 s"),
        (9.0, {"attempt_timeout_s": 0.1, "retries": 0}, "tool", "answer within "),
        (0.2, {"deadline_s": 0.2}, "tool", "answer within "),  # what was left of it
        (0.6, {"attempt_timeout_s": 0.6}, "tool", "answer within "),
        (None, {"deadline_s": 0.2}, "tool", "answer within "),
        (2 * PATIENCE_S, {"deadline_s": 0.2}, "tool", "answer within "),
    )

    async def check(number: int) -> None:
        own, settings, fault, told = cases[number]
        hanging = Faults(hang_rate=1.0)
        opened = open_local_gateway(catalog, tmp_path / str(number), hanging, **settings)
        async with opened as local:
            error = (await local.gateway.call(*COIN, CallContext(deadline_s=own))).error
            assert error is not None
            assert (error.code, error.fault) == ("timeout", fault), cases[number]
            assert told in error.message

    await asyncio.gather(*map(check, range(len(cases))))


async def test_rows_are_limited_and_the_whole_stays_reachable(local: LocalGateway) -> None:
    context = CallContext(max_rows=5)
    result = await local.gateway.call(*HIST, context)
    assert (len(result.value), result.rows, result.truncated) == (5, 22, True)
    assert result.handle is not None
    entry = await local.gateway.recall(result.handle)
    assert isinstance(entry, Entry)
    assert entry.rows == 22
    whole = await local.gateway.call(*HIST)
    assert (len(whole.value), whole.truncated, whole.handle) == (22, False, None)


async def test_bad_calls_get_a_clear_error(local: LocalGateway) -> None:
    cases: tuple[tuple[str, dict[str, Any] | bytes, str, str], ...] = (
        ("stock_zh_a_hits", {}, "unknown_tool", "did you mean stock_zh_a_hist"),
        ("", {}, "unknown_tool", "no tool is named ''"),
        ("x" * 5_000, {}, "unknown_tool", "no tool is named"),
        ("get_qhkc_index", {}, "unavailable", "AkShare 1.19.5 no longer has"),
        ("get_coin", {}, "invalid_arguments", "uuid: is missing, expected string"),
        ("get_coin", {"id": 1}, "invalid_arguments", "id: is no argument of this tool, allowed: u"),
        ("get_coin", {"uuid": []}, "invalid_arguments", "uuid: is an array, expected string"),
        ("get_coin", {"uuid": ".."}, "invalid_arguments", "'..' is no path segment"),
        ("get_coin", b"{", "invalid_request", "the arguments are not JSON"),
        ("get_coin", b"[]", "invalid_request", "must be one JSON object"),
        ("stock_zh_a_hist", {}, "invalid_arguments", "it names the instrument, so it has no"),
        ("stock_zh_a_hist", {"period": "hourly"}, "invalid_arguments", "'daily', 'weekly'"),
    )
    for tool, arguments, code, telling in cases:
        error = (await local.gateway.call(tool, arguments)).error
        assert error is not None, tool
        assert error.code == code
        assert error.fault == ("tool" if code == "unavailable" else "agent")
        assert telling in error.message
        assert "Traceback" not in error.message
    assert local.simulator.requests.total() == 0


async def test_without_akshare_the_extra_is_named(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The one thing that no local server can stand for: a machine without the package.
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    async with open_local_gateway(catalog, tmp_path) as local:
        error = (await local.gateway.call(*HIST)).error
    assert error is not None
    assert error.code == "not_configured"
    assert "finport[akshare]" in error.message


async def test_every_call_leaves_one_record_and_no_secret(
    catalog: Catalog, tmp_path: Path, json_lines: Callable[[str], list[dict[str, Any]]]
) -> None:
    async with (
        JsonLines.open(tmp_path / "trace.jsonl") as trace,
        open_local_gateway(catalog, tmp_path, trace=trace) as local,
    ):
        await local.gateway.call(*COIN, CallContext(episode="e1", step=2))
        await local.gateway.call(*COIN)
        await local.gateway.call("nothing_like_it", {"a": 1})
        await local.gateway.call("busca_por_simbolo", {"apikey": "planted-by-agent"})
        await local.gateway.call("get_coin", b"{")
    records = json_lines("trace.jsonl")
    assert [record["code"] for record in records] == [
        None,
        None,
        "unknown_tool",
        "invalid_arguments",
        "invalid_request",
    ]
    first = records[0]
    assert (first["tool"], first["source"], first["episode"], first["step"]) == (
        "get_coin",
        "live",
        "e1",
        2,
    )
    assert first["host"] == "coinranking1.p.rapidapi.com"
    assert first["arguments"]["uuid"] == "Qwsogvtv82FCd"
    assert records[3]["arguments"] == {"apikey": "[redacted]"}
    assert len({record["call_id"] for record in records}) == 5
    assert PLANTED_KEY.startswith("planted")
    assert not [name for name, content in _files(tmp_path) if b"planted" in content]


def _files(folder: Path) -> list[tuple[str, bytes]]:
    return [(file.name, file.read_bytes()) for file in folder.rglob("*") if file.is_file()]


async def test_a_trace_that_cannot_be_written_answers_nothing(
    catalog: Catalog, tmp_path: Path
) -> None:
    async def two_calls() -> None:
        async with (
            JsonLines.open(Path("/dev/full"), follow_links=True) as trace,
            open_local_gateway(catalog, tmp_path, trace=trace) as local,
        ):
            await local.gateway.call(*COIN)
            await until(lambda: trace.failure)
            result = await local.gateway.call(*COIN)
            assert result.error is not None
            assert result.error.code == "overloaded"
            assert "the trace can't be written: No space left" in result.error.message
            assert local.gateway.outcomes == {"live": 1, "overloaded": 1}

    with pytest.raises(TraceError, match="No space left on device"):
        await two_calls()


async def test_a_cancelled_call_is_recorded_too(
    catalog: Catalog, tmp_path: Path, json_lines: Callable[[str], list[dict[str, Any]]]
) -> None:
    async with (
        JsonLines.open(tmp_path / "trace.jsonl") as trace,
        open_local_gateway(catalog, tmp_path, Faults(hang_rate=1.0), trace=trace) as local,
    ):
        call = asyncio.create_task(local.gateway.call(*COIN))
        await until(local.simulator.requests.total)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert local.gateway.outcomes == {"cancelled": 1}
    (record,) = json_lines("trace.jsonl")
    assert (record["code"], record["ok"], record["tool"]) == ("cancelled", False, "get_coin")


async def test_what_did_not_bind_is_recorded_bounded_and_without_credentials(
    catalog: Catalog, tmp_path: Path, json_lines: Callable[[str], list[dict[str, Any]]]
) -> None:
    cases: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({"apikey": "p"}, {"apikey": "[redacted]"}),
        ({"X-RapidAPI-Key": "p"}, {"X-RapidAPI-Key": "[redacted]"}),
        (
            {"accessToken": "p", "Authorization": "p"},
            dict.fromkeys(("accessToken", "Authorization"), "[redacted]"),
        ),
        ({"headers": {"key": "p"}}, {"headers": "[dict]"}),
        ({"uuid": [[["p"]]]}, {"uuid": "[list]"}),
        ({"keyword": "gold"}, {"keyword": "gold"}),
        ({"a": "x" * 9_000}, {"a": "x" * 200}),
        ({"a": "\ud800", "b": 10**80, "c": object()}, {"a": "?", "b": "[int]", "c": "[object]"}),
    )
    async with (
        JsonLines.open(tmp_path / "trace.jsonl") as trace,
        open_local_gateway(catalog, tmp_path, trace=trace) as local,
    ):
        for arguments, _ in cases:
            call = ("get_reference_currencies", {**arguments, "zzz": 1})
            assert not (await local.gateway.call(*call)).ok
    found = [record["arguments"] for record in json_lines("trace.jsonl")]
    assert found == [{**recorded, "zzz": 1} for _, recorded in cases]


async def test_a_flood_of_arguments_gets_a_short_answer(local: LocalGateway) -> None:
    result = await local.gateway.call("get_coin", {f"a{n}": n for n in range(60_000)})
    assert result.error is not None
    assert "60000 are given, at most 256" in result.error.message
    some = await local.gateway.call("get_coin", {f"a{n}": n for n in range(200)})
    assert some.error is not None
    assert "more" in some.error.message
    assert len(some.to_json()) < 20_000


@pytest.mark.parametrize(
    "context", [{"deadline_s": 0}, {"deadline_s": float("nan")}, {"max_rows": 0}]
)
def test_a_context_that_makes_no_sense_is_refused(context: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        CallContext(**context)


async def test_answers_from_another_origin_are_not_kept_with_live_ones(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with open_local_gateway(catalog, tmp_path) as local:
        assert (await local.gateway.call(*COIN)).source == "live"
    plain = GatewaySettings(cache_dir=tmp_path / "cache")
    async with Gateway.open(plain, catalog=catalog) as gateway:
        assert (await gateway.call(*COIN)).error is not None


async def test_keys_are_secret_in_settings() -> None:
    settings = GatewaySettings(rapidapi_keys=(SecretStr(PLANTED_KEY),))
    assert PLANTED_KEY not in repr(settings)
    assert PLANTED_KEY not in settings.model_dump_json()
