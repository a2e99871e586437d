"""Answers with wrong content: the trace knows of them, and the agent does not."""

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.simulator import FUNCTIONS, Lie, Lies
from gateway import Gateway, GatewaySettings
from gateway.result import Result
from gateway.server import http
from gateway.trace import JsonLines
from manifests import Catalog
from tests.support.commands import finbench, finport
from tests.support.gateways import HIST
from tests.support.installed import NEEDS_AKSHARE
from tests.support.runs import lines_of

Call = tuple[str, Mapping[str, Any]]
CHART: Call = ("market_get_chart", {"interval": "m6", "is_id": "aapl:us"})
COINS: list[Call] = [("get_coin", {"uuid": f"Qwsogvtv82F{n}"}) for n in range(40)]


DAYS = [f"2026-06-{day:02}" for day in range(1, 11)]
CLOSES = [10.5 + n for n in range(10)]
TIMES = [1_780_000_000 + 86_400 * n for n in range(10)]
FORMS: dict[str, Any] = {
    "records": [{"date": d, "close": c} for d, c in zip(DAYS, CLOSES, strict=True)],
    "records by day": {"days": {d: {"close": str(c)} for d, c in zip(DAYS, CLOSES, strict=True)}},
    "lists of columns": {"at": TIMES, "quote": [{"close": CLOSES, "volume": [*range(90, 100)]}]},
    "lists of cells": {"bars": [[t * 1_000, c] for t, c in zip(TIMES, CLOSES, strict=True)]},
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(-1e15, 1e15)
    | st.text(max_size=3),
    lambda inside: (
        st.lists(inside, max_size=4)
        | st.dictionaries(st.sampled_from(["date", "close", "2026-06-01", "2026-06-02"]), inside)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_table_can_lie_in_each_way(form: str) -> None:
    for kind in Lie:
        value = deepcopy(FORMS[form])
        told = Lies(1.0, [kind]).tell(value, "host")
        assert (told, value == FORMS[form]) == (
            (kind, False)
            if (kind, form) != (Lie.COLUMN_RENAMED, "lists of cells")
            else (None, True)
        )


@given(JSON, st.sampled_from(Lie))
def test_any_answer_lies_or_is_left_alone(value: Any, kind: Lie) -> None:
    before, again = json.dumps(value), deepcopy(value)
    told = Lies(1.0, [kind]).tell(value, "host")
    assert (told is None) == (json.dumps(value) == before)
    assert Lies(1.0, [kind]).tell(again, "host") == told
    assert json.dumps(again) == json.dumps(value)


async def answers(folder: Path, calls: list[Call], rate: float = 1.0, *kinds: str) -> list[Result]:
    """The answers of a gateway whose calls are recorded in `calls.jsonl` of that folder."""
    settings = GatewaySettings(
        upstream="simulated",
        cache_dir=folder / "cache",
        akshare_workers=1,
        simulated_lies=rate,
        simulated_lie_kinds=kinds,
    )
    async with (
        JsonLines.open(folder / "calls.jsonl") as trace,
        Gateway.open(settings, trace=trace) as gateway,
    ):
        return [await gateway.call(*call) for call in calls]


def rows_of(result: Result) -> list[dict[str, Any]]:
    """The first table in the answer."""
    assert result.ok, result.message
    values = [result.value]
    for value in values:
        if isinstance(value, list) and len(value) > 1:
            return value
        values += value.values() if isinstance(value, dict) else ()
    raise AssertionError("no table")


@pytest.mark.anyio
@pytest.mark.parametrize("kind", Lie)
async def test_a_lie_changes_the_answer_and_is_declared_to_the_trace_alone(
    kind: Lie, tmp_path: Path
) -> None:
    (true,) = await answers(tmp_path, [CHART], 0.0)
    lie, again = await answers(tmp_path, [CHART, CHART], 1.0, kind)
    (kept,) = await answers(tmp_path, [CHART], 1.0, kind)
    assert true.lied is None
    assert {lie.lied, again.lied, kept.lied} == {kind}
    assert (again.source, kept.source) == ("cached", "cached")
    assert kept.data == lie.data != true.data
    told = (lie.to_json(), *lie.to_texts(), lie.to_line())
    assert not [text for text in told if kind.encode() in text or b"lied" in text]
    assert [call.get("lied") for call in lines_of(tmp_path / "calls.jsonl")] == [None, *[kind] * 3]
    before, after = rows_of(true), rows_of(lie)
    match kind:
        case Lie.STALE_DAY:
            assert before[-1] != after[-1]
            assert before[:-1] == after[: len(before) - 1]
        case Lie.ROWS_MISSING:
            assert 0.6 <= len(after) / len(before) <= 0.9
            assert (before[0], before[-1]) == (after[0], after[-1])
        case Lie.COLUMN_RENAMED:
            assert len(before[0].keys() - after[0].keys()) == 1
        case Lie.WRONG_NUMBER:
            assert sum(a != b for a, b in zip(before, after, strict=True)) == 1
        case Lie.UNIT_CHANGED:
            (name,) = {
                n for row, new in zip(before, after, strict=True) for n in row if row[n] != new[n]
            }
            assert after[0][name] / before[0][name] in (pytest.approx(100), pytest.approx(10_000))
        case Lie.DISAGREEING:
            off = after[0]["close"] / before[0]["close"] - 1
            assert 0.004 < abs(off) < 0.051
            assert after[-1]["close"] / before[-1]["close"] - 1 == pytest.approx(off, abs=1e-3)


@pytest.mark.anyio
async def test_no_door_of_the_gateway_tells_of_a_lie(tmp_path: Path) -> None:
    settings = GatewaySettings(upstream="simulated", cache_dir=tmp_path, simulated_lies=1.0)
    name, arguments = CHART
    call = {"name": "call_tool", "arguments": {"name": name, "arguments": arguments}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    told = []
    async with (
        Gateway.open(settings) as gateway,
        http.serve(gateway) as url,
        aiohttp.ClientSession() as client,
    ):
        for path, body in ((f"/v1/tools/{name}", arguments), ("/mcp", asked)):
            async with client.post(url + path, json=body) as response:
                told.append(f"{response.headers} {await response.text()}")
        assert (await gateway.call(*CHART)).lied
    assert all("AAPL" in text.upper() for text in told)
    words = ("lied", "finport-lie", *Lie)
    assert [word for text in told for word in words if word in text.lower()] == []


@pytest.mark.anyio
async def test_what_is_asked_decides_who_lies_and_not_the_order(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    there = await answers(tmp_path, COINS, 0.3)
    back = await answers(tmp_path_factory.mktemp("back"), COINS[::-1], 0.3)
    assert [(r.data, r.lied) for r in there] == [(r.data, r.lied) for r in back[::-1]]
    lied = [result.lied for result in there if result.lied]
    assert 4 <= len(lied) <= 20
    assert len({*lied}) > 1


@pytest.mark.anyio
@NEEDS_AKSHARE
async def test_akshare_lies_too_but_not_where_nothing_is_true(
    tmp_path: Path, catalog: Catalog
) -> None:
    invented = next(m for m in catalog.select(source="akshare") if m.name not in FUNCTIONS)
    calls: list[Call] = [("stock_zh_a_hist", HIST), (invented.name, invented.sample())]
    lie, table = await answers(tmp_path, calls, 1.0, "column_renamed")
    assert lie.lied == "column_renamed"
    assert lie.columns is not None
    assert [name for name in lie.columns if name.endswith("值")]
    assert tuple(rows_of(lie)[0]) == lie.columns
    assert (table.upstream, table.lied) == ("simulated_invented", None)


def test_lies_of_a_run_are_counted_and_recorded() -> None:
    lying = ("--upstream", "simulated", "--simulated-lies", "1")
    run = ("run", "starter", "--episodes", "40", "--mode")
    done = finbench(*run, "record", "--snapshot", "s.snap", *lying, "--out", "recorded")
    assert done.returncode == 0, done.stderr
    assert finbench(*run, "offline", "--snapshot", "s.snap", "--out", "again").returncode == 0
    for folder in ("recorded", "again"):
        lied = [call["lied"] for call in lines_of(f"{folder}/calls.jsonl") if call["lied"]]
        counted = json.loads(Path(folder, "metrics.json").read_text())["traffic"]["lies"]
        assert sum(counted.values()) == len(lied) > 20
        assert "lied" not in Path(folder, "episodes.jsonl").read_text()
    assert json.loads(Path("recorded/run.json").read_text())["simulated_lies"] == 1.0


def test_an_unknown_kind_is_refused() -> None:
    options = ("--upstream", "simulated", "--simulated-lies", "1", "--simulated-lie-kinds", "white")
    done = finport("call", "get_coin", "uuid=x", *options)
    assert done.returncode == 2
    assert "there are stale_day, " in done.stderr
