"""Stand-ins, through every part of the API: two sources of made-up tools tell the same bars."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from cache import Snapshot
from gateway import CallContext, Gateway, GatewaySettings, Result
from gateway.grant import Grant
from gateway.telemetry.usage import Usage
from gateway.telemetry.usage_store import read_usage
from gateway.trace import JsonLines
from manifests import Catalog, CatalogError, Manifest
from manifests.selection import Selection
from manifests.stand_ins import pairs, problems
from tests.support.commands import finport
from tests.support.gateways import (
    open_keyed_gateway,
    open_local_gateway,
    open_served_gateway,
)
from tests.support.mcp_messages import post, request, result_of
from tests.support.upstreams import upstream

pytestmark = pytest.mark.anyio

ALLOWED = CallContext(stand_in="allow")

BARS = {"symbol": "600519", "start": "20240102", "end": "20240104"}
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05")
OURS = {"d": "day", "code": "text", "c": "price", "v": "lot", "pct": "text"}
THEIRS = {"date": "day", "sym": "text", "close": "price", "volume": "share"}

STAND_IN = {
    "tool": "their_bars",
    "when": {"period": "daily", "adjust": "", "symbol": r"[036]\d{5}"},
    "arguments": {
        "symbol": {"of": "symbol", "format": "a-share-prefixed"},
        "adjust": {"value": ""},
    },
    "columns": {
        "d": {"of": "date"},
        "code": {"argument": "symbol"},
        "c": {"of": "close"},
        "v": {"of": "volume", "within": 1},
    },
    "days": {"column": "date", "first": "start", "last": "end"},
    "same": {"sym": "symbol"},
}


def text(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "type": "string", "description": name, **fields}


def tool(name: str, host: str, parameters: list[dict[str, Any]], **fields: Any) -> Manifest:
    about = {
        "name": name,
        "description": name,
        "timeliness": "daily",
        "intent_type": "informational",
        "regulatory_domains": ["equity"],
        "parameters": parameters,
        "binding": {
            "source": "rapidapi",
            "host": host,
            "path": f"/{name}",
            "query": {p["name"]: p["name"] for p in parameters},
        },
        **fields,
    }
    return Manifest.model_validate_json(json.dumps(about))


def own_bars(
    *stand_ins: dict[str, Any], measured: dict[str, Any] | None = None, **fields: Any
) -> Manifest:
    said = {"units": OURS, "zone": "Asia/Shanghai", "currency": "CNY", "adjusted_by": "adjust"}
    return tool(
        "own_bars",
        "own.example",
        [
            text("symbol", required=True, example="600519", format="a-share-code"),
            text("period", default="daily"),
            text("start", default="19900101", format="yyyymmdd"),
            text("end", default="20500101", format="yyyymmdd"),
            text("adjust", default=""),
        ],
        columns=[{"name": name} for name in OURS],
        measured=said | (measured or {}),
        stand_ins=stand_ins or (STAND_IN,),
        **fields,
    )


def their_bars(name: str = "their_bars", host: str = "their.example", **measured: Any) -> Manifest:
    said = {"units": THEIRS, "zone": "Asia/Shanghai", "currency": "CNY", "adjusted_by": "adjust"}
    return tool(
        name,
        host,
        [
            text("symbol", required=True, example="sh600519", format="a-share-prefixed"),
            text("adjust", default=""),
        ],
        columns=[{"name": column} for column in THEIRS],
        measured=said | measured,
    )


CATALOG = Catalog([own_bars(), their_bars()])


def own_rows(query: Any) -> list[dict[str, Any]]:
    asked = [d for d in DAYS if query["start"] <= d.replace("-", "") <= query["end"]]
    return [
        {"d": d, "code": query["symbol"], "c": int(d[-2:]) + 0.5, "v": 10, "pct": 0.1}
        for d in asked
    ]


def their_rows(query: Any) -> list[dict[str, Any]]:
    return [
        {"date": d, "sym": query["symbol"], "close": int(d[-2:]) + 0.5, "volume": 1_000}
        for d in DAYS
    ]


@dataclass
class Sources:
    """What the two sources do: a status, a body, or True for a hang, by tool."""

    faults: dict[str, Any] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    async def answer(self, sent: web.Request) -> web.StreamResponse:
        name = sent.path.strip("/")
        self.asked[name] += 1
        fault = self.faults.get(name)
        if fault is True:
            await asyncio.sleep(60)
        if isinstance(fault, int):
            return web.json_response({"message": "no"}, status=fault)
        rows = own_rows if name == "own_bars" else their_rows
        made = rows(sent.query)
        return web.json_response(fault(made) if callable(fault) else made)


@asynccontextmanager
async def gateway_of(
    folder: Path, catalog: Catalog = CATALOG, **settings: Any
) -> AsyncIterator[tuple[Gateway, Sources]]:
    sources = Sources()
    async with (
        upstream(sources.answer, is_cancelled=True) as url,
        open_local_gateway(
            catalog, folder, **{"rapidapi_base_url": url, "retries": 0, **settings}
        ) as local,
    ):
        yield local.gateway, sources


def provenance(result: Result) -> dict[str, Any]:
    told: dict[str, Any] = orjson.loads(result.to_json())["provenance"]
    return told


async def test_another_source_answers_and_says_so(tmp_path: Path) -> None:
    async with (
        JsonLines.open(tmp_path / "calls.jsonl") as trace,
        gateway_of(tmp_path) as (gateway, sources),
    ):
        own = await gateway.call("own_bars", BARS)
        gateway.answers.memory.drop(gateway._binder.bind("own_bars", BARS).key)
        sources.faults["own_bars"] = 503
        other = {**BARS, "end": "20240103"}
        gateway._trace = trace
        refused = await gateway.call("own_bars", other)
        result = await gateway.call("own_bars", other, ALLOWED)
    assert own.ok
    assert own.stood is None
    assert refused.code == "upstream_error"
    assert result.value == [{**row, "pct": None} for row in own.value[:2]]
    assert (result.tool, result.columns, result.handle) == ("own_bars", tuple(OURS), None)
    told = provenance(result)
    assert told["stood_in_for"] == "own_bars"
    assert told["answered_by"] == "their_bars"
    assert told["own_error"] == "upstream_error"
    assert told["missing"] == ["pct"]
    assert told["within"] == {"v": 1.0}
    assert told["attempts"] == 2
    records = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert [r["answered_by"] for r in records] == [None, "their_bars"]
    assert [r["tool"] for r in records] == ["own_bars", "own_bars"]
    assert gateway.stand_ins.counts == {("own_bars", "their_bars"): 1}


async def test_a_request_counts_for_the_tool_that_was_asked_upstream(tmp_path: Path) -> None:
    async with gateway_of(tmp_path) as (gateway, sources), Usage.open(gateway):
        sources.faults["own_bars"] = 503
        assert (await gateway.call("own_bars", BARS, ALLOWED)).ok
    used = read_usage(gateway.settings.usage_path, 0)
    hosts = {one.host: (one.tool, one.calls, one.requests) for one in used}
    assert hosts == {"own.example": ("own_bars", 1, 1), "their.example": ("their_bars", 0, 1)}


async def test_its_answer_is_never_kept_as_the_own_one(tmp_path: Path) -> None:
    async with gateway_of(tmp_path) as (gateway, sources):
        sources.faults["own_bars"] = 503
        for _ in range(2):
            result = await gateway.call("own_bars", BARS, ALLOWED)
            assert result.fresh_s == 0
        assert sources.asked == {"own_bars": 2, "their_bars": 1}, "its own call is kept"
        assert result.source == "cached"
        sources.faults.clear()
        result = await gateway.call("own_bars", BARS, ALLOWED)
        assert result.stood is None
        assert result.value[0]["pct"] == 0.1


@pytest.mark.parametrize("fault", [403, 429, 456, 500])
async def test_a_source_that_bans_limits_or_breaks_has_a_stand_in(
    tmp_path: Path, fault: int
) -> None:
    async with gateway_of(tmp_path) as (gateway, sources):
        sources.faults["own_bars"] = fault
        assert (await gateway.call("own_bars", BARS, ALLOWED)).ok


@pytest.mark.parametrize("fault", [400, 404, 422])
async def test_what_a_source_refuses_no_other_answers(tmp_path: Path, fault: int) -> None:
    async with gateway_of(tmp_path) as (gateway, sources):
        sources.faults["own_bars"] = fault
        result = await gateway.call("own_bars", BARS, ALLOWED)
        assert result.code == "upstream_error"
        assert sources.asked["their_bars"] == 0
        assert (await gateway.call("own_bars", {"symbol": "x"}, ALLOWED)).code == (
            "invalid_arguments"
        )


async def test_a_source_that_hangs_does_not_take_all_the_time(tmp_path: Path) -> None:
    async with gateway_of(tmp_path, attempt_timeout_s=30.0, deadline_s=1.0) as (gateway, sources):
        sources.faults["own_bars"] = True
        result = await gateway.call("own_bars", BARS, ALLOWED)
        assert not result.ok, "less than a patient wait says nothing of the source"
    async with gateway_of(tmp_path / "b", attempt_timeout_s=0.3) as (gateway, sources):
        sources.faults["own_bars"] = True
        result = await gateway.call("own_bars", BARS, ALLOWED)
        assert result.ok
        assert result.stood is not None
        assert result.stood.own_error == "timeout"
        assert result.elapsed_ms < 5_000


async def test_an_open_breaker_is_not_waited_for(tmp_path: Path) -> None:
    async with gateway_of(tmp_path, breaker_attempts=2) as (gateway, sources):
        sources.faults["own_bars"] = 503
        results = [await gateway.call("own_bars", BARS, ALLOWED) for _ in range(4)]
        assert all(result.ok for result in results)
        assert results[-1].stood is not None
        assert results[-1].stood.own_error == "circuit_open"
        assert sources.asked["own_bars"] == 2


async def test_the_own_kept_answer_comes_before_a_stand_in(tmp_path: Path) -> None:
    stale = {"freshness": {"fresh_s": 0, "stale_if_error_s": 3600, "stale_while_revalidate_s": 0}}
    catalog = Catalog([own_bars(**stale), their_bars()])
    async with gateway_of(tmp_path, catalog) as (gateway, sources):
        assert (await gateway.call("own_bars", BARS, ALLOWED)).ok
        sources.faults["own_bars"] = 503
        result = await gateway.call("own_bars", BARS, ALLOWED)
        assert (result.source, result.stood) == ("stale", None)


TRAPS = {
    "weekly bars": ({"period": "weekly"}, None, "period is 'weekly'"),
    "adjusted prices": ({"adjust": "qfq"}, None, "adjust is 'qfq'"),
    "a share in dollars": ({"symbol": "900901"}, None, "symbol is '900901'"),
    "another instrument": ({}, lambda r: [{**x, "sym": "sz000001"} for x in r], "another inst"),
    "no such instrument": ({}, lambda _: [], "no row"),
    "no days asked for": ({}, lambda r: r[:1], "no row"),
    "days out of order": ({}, lambda r: r[::-1], "do not rise"),
    "another column": ({}, lambda r: [{"date": x["date"], "sym": x["sym"]} for x in r], "column"),
    "texts for numbers": ({}, lambda r: [{**x, "close": "n/a"} for x in r], "no number"),
    "no table": ({}, lambda r: {"rows": r}, "no table"),
    "its own ban": ({}, 403, "upstream_error"),
}


@pytest.mark.parametrize("trap", TRAPS)
async def test_nothing_stands_in_that_is_not_the_same_fact(tmp_path: Path, trap: str) -> None:
    asked, fault, why = TRAPS[trap]
    async with gateway_of(tmp_path) as (gateway, sources):
        sources.faults = {"own_bars": 503, "their_bars": fault}
        result = await gateway.call("own_bars", {**BARS, **asked}, ALLOWED)
    assert result.error is not None
    assert result.code == "upstream_error"
    (tried,) = result.error.details["stand_ins"]
    assert tried["tool"] == "their_bars"
    assert why in tried["why"]


async def test_the_next_one_is_asked_where_the_first_fails(tmp_path: Path) -> None:
    second = {**STAND_IN, "tool": "third_bars"}
    catalog = Catalog(
        [own_bars(STAND_IN, second), their_bars(), their_bars("third_bars", "third.example")]
    )
    async with gateway_of(tmp_path, catalog) as (gateway, sources):
        sources.faults = {"own_bars": 503, "their_bars": 503}
        result = await gateway.call("own_bars", BARS, ALLOWED)
        assert result.stood is not None
        assert result.stood.answered_by == "third_bars"
        assert result.attempts == 3


async def test_a_caller_gets_no_tool_that_it_may_not_use(tmp_path: Path) -> None:
    bonds = their_bars().model_copy(update={"regulatory_domains": ("bond",)})
    catalog = Catalog([own_bars(), bonds])
    grant = Grant(Selection.of(catalog, "domain:equity"))
    async with gateway_of(tmp_path, catalog) as (gateway, sources):
        sources.faults["own_bars"] = 503
        context = CallContext(stand_in="allow", grant=grant)
        result = await gateway.call("own_bars", BARS, context)
        assert result.error is not None
        assert "forbidden" in result.error.details["stand_ins"][0]["why"]
        assert sources.asked["their_bars"] == 0


async def test_rows_are_cut_and_shortened_as_of_any_answer(tmp_path: Path) -> None:
    async with gateway_of(tmp_path) as (gateway, sources):
        sources.faults["own_bars"] = 503
        context = CallContext(stand_in="allow", max_rows=1)
        cut = await gateway.call("own_bars", BARS, context)
        assert [row["d"] for row in cut.value] == ["2024-01-04"]
        assert (cut.truncated, cut.handle, cut.rows) == (True, None, 3)
        context = CallContext(stand_in="allow", max_tokens=100, question="close on 2024-01-03")
        short = await gateway.call("own_bars", BARS, context)
        assert "2024-01-03" in short.text()
        assert provenance(short)["answered_by"] == "their_bars"


@pytest.mark.parametrize("breaker_attempts", [1, 100])
async def test_a_recorded_run_replays_the_same(tmp_path: Path, breaker_attempts: int) -> None:
    """Also where nothing was sent, as the breaker was open."""
    file, calls = tmp_path / "s.snap", [BARS, {**BARS, "start": "20240103"}]
    settings: dict[str, Any] = {"mode": "record", "snapshot": file}
    settings["breaker_attempts"] = breaker_attempts
    async with gateway_of(tmp_path, **settings) as (gateway, sources):
        sources.faults["own_bars"] = 503
        recorded = [await gateway.call("own_bars", call, ALLOWED) for call in calls]
    with Snapshot(file) as snapshot:
        assert snapshot.summary.tools == {"own_bars": 2, "their_bars": 1}
    chosen = GatewaySettings(mode="offline", snapshot=file, cache_dir=tmp_path / "none")
    async with Gateway.open(chosen, catalog=CATALOG) as gateway:
        replayed = [await gateway.call("own_bars", call, ALLOWED) for call in calls]
        refused = await gateway.call("own_bars", calls[1])
    assert refused.code in ("upstream_error", "circuit_open")
    for first, again in zip(recorded, replayed, strict=True):
        assert (again.data, again.digest, again.stood) == (first.data, first.digest, first.stood)
        assert again.source == "replayed"


async def test_rest_batches_and_keys_allow_it(tmp_path: Path) -> None:
    sources = Sources({"own_bars": 503})
    clients: dict[str, dict[str, Any]] = {"a": {"stand_in": "allow"}, "b": {}}
    async with (
        upstream(sources.answer) as url,
        open_keyed_gateway(CATALOG, tmp_path, clients, rapidapi_base_url=url, retries=0) as (
            served,
            heads,
        ),
    ):
        place = "/v1/tools/own_bars"
        status, told = await served.ask(place, BARS, heads["a"])
        assert (status, told["provenance"]["answered_by"]) == (200, "their_bars")
        assert (await served.ask(f"{place}?stand_in=never", BARS, heads["a"]))[0] == 502
        assert (await served.ask(place, BARS, heads["b"]))[0] == 502
        async with served.client.post(
            f"{served.url}{place}?stand_in=allow", json=BARS, headers=heads["b"]
        ) as got:
            assert got.status == 200
            assert got.headers["Cache-Control"] == "no-store"
        status, told = await served.ask(f"{place}?stand_in=yes", BARS, heads["b"])
        assert (status, told["error"]["code"]) == (400, "invalid_request")
        lines = [
            {"tool": "own_bars", "arguments": BARS, "stand_in": "allow"},
            {"tool": "own_bars", "arguments": BARS},
        ]
        async with served.client.post(
            f"{served.url}/v1/calls", json=lines, headers=heads["b"]
        ) as got:
            answers = [json.loads(line) for line in (await got.text()).splitlines()]
        assert {a["id"]: a["ok"] for a in answers} == {1: True, 2: False}
        async with served.client.get(f"{served.url}/metrics", headers=heads["a"]) as got:
            figures = await got.text()
    name = 'finport_stand_ins_total{answered_by="their_bars",tool="own_bars"} 3.0'
    assert name in figures


async def test_mcp_allows_it_in_meta_and_among_arguments(tmp_path: Path) -> None:
    sources = Sources({"own_bars": 503})
    async with (
        upstream(sources.answer) as url,
        open_served_gateway(CATALOG, tmp_path, rapidapi_base_url=url, retries=0) as served,
    ):
        call = {"name": "own_bars", "arguments": BARS}
        told = await result_of(served, "call_tool", call, _meta={"finport/stand_in": "allow"})
        assert told["provenance"]["stood_in_for"] == "own_bars"
        told = await result_of(served, "call_tool", {**call, "stand_in": "allow"})
        assert told["provenance"]["answered_by"] == "their_bars"
        assert not (await result_of(served, "call_tool", call))["ok"]
        told = await result_of(served, "call_tool", call, "?stand_in=allow")
        assert told["provenance"]["missing"] == ["pct"]
        params = {"name": "call_tool", "arguments": call, "_meta": {"finport/stand_in": "maybe"}}
        _, told = await post(served, request("tools/call", params))
        assert "stand_in" in json.dumps(told)
        assert "allow" in json.dumps(told)


async def test_a_setting_allows_it_for_all_calls(tmp_path: Path) -> None:
    async with gateway_of(tmp_path, stand_in="allow") as (gateway, sources):
        sources.faults["own_bars"] = 503
        assert (await gateway.call("own_bars", BARS)).ok
        assert not (await gateway.call("own_bars", BARS, CallContext(stand_in="never"))).ok


def test_the_option_is_checked() -> None:
    with pytest.raises(ValueError, match="never or allow"):
        CallContext(stand_in="yes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a text"):
        CallContext(stand_in=True)  # type: ignore[arg-type]


def test_the_command_and_keys_take_it(tmp_path: Path) -> None:
    told = finport(
        *("call", "get_coin", "uuid=Qwsogvtv82FCd", "--stand-in", "allow"),
        *("--upstream", "simulated"),
        cache=tmp_path,
    )
    assert json.loads(told.stdout)["ok"], "a source that answers needs no other"
    added = finport(
        "keys", "add", "one", "--stand-in", "allow", "--json",
        FINPORT_CLIENTS_FILE=str(tmp_path / "clients.json"),
    )  # fmt: skip
    assert json.loads(added.stdout)["stand_in"] == "allow"


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another currency": ({}, {"currency": "HKD"}, "c is in CNY, close in HKD"),
    "another zone": ({}, {"zone": "Asia/Tokyo"}, "not those of Asia/Tokyo"),
    "another unit": ({}, {"units": {**THEIRS, "volume": "money"}}, "v is in lot, volume in money"),
    "an unknown unit": ({}, {"units": {"date": "day"}}, "not declared"),
    "adjusted prices": ({"when": {"period": "daily"}}, {}, "adjusted by adjust"),
    "adjusted prices of theirs": (
        {"arguments": {"symbol": {"of": "symbol"}}},
        {},
        "prices of their_bars are adjusted",
    ),
    "a dropped argument": ({"when": {"adjust": ""}}, {}, "period would be dropped"),
    "an instrument that is not passed on": (
        {"arguments": {"symbol": {"value": "sh600519"}, "adjust": {"value": ""}}},
        {},
        "symbol would be dropped",
    ),
    "an unknown argument": (
        {"arguments": {**STAND_IN["arguments"], "x": {"value": "1"}}},  # type: ignore[dict-item]
        {},
        "no parameter x",
    ),
    "a missing argument": ({"arguments": {"adjust": {"value": ""}}}, {}, "symbol of their_bars"),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_declaration_of_other_facts_is_refused(tmp_path: Path, wrong: str) -> None:
    declared, measured, why = WRONG[wrong]
    stand_in = {**STAND_IN, **declared}
    both = [own_bars(stand_in), their_bars(**measured)]
    (pair,) = pairs(both[0], {tool.name: tool for tool in both})
    assert why in " ".join(problems(pair))
    file = tmp_path / "m.json"
    file.write_bytes(orjson.dumps([m.model_dump(mode="json", exclude_defaults=True) | {
        "binding": {"source": "rapidapi", **m.binding.model_dump(exclude_defaults=True)}
    } for m in both]))  # fmt: skip
    with pytest.raises(CatalogError, match="own_bars: stand-in their_bars: "):
        Catalog.load(file)
    async with gateway_of(tmp_path, Catalog(both)) as (gateway, sources):
        sources.faults["own_bars"] = 503
        assert not (await gateway.call("own_bars", BARS, ALLOWED)).ok
        assert sources.asked["their_bars"] == 0


def test_a_condition_that_is_no_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="no regular expression"):
        own_bars({**STAND_IN, "when": {"symbol": "("}})


async def test_a_tool_of_the_same_host_stands_in_for_nothing(tmp_path: Path) -> None:
    catalog = Catalog([own_bars(), their_bars(host="own.example")])
    async with gateway_of(tmp_path, catalog) as (gateway, sources):
        sources.faults["own_bars"] = 503
        assert not (await gateway.call("own_bars", BARS, ALLOWED)).ok
        assert sources.asked["their_bars"] == 0
