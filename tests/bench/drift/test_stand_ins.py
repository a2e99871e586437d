"""`finbench drift stand-ins`: answers of two sources in one snapshot."""

import json
from pathlib import Path
from typing import Any

import orjson
from click.testing import CliRunner

from bench.cli.main import main
from cache import Entry, Row
from cache.row import OK
from manifests import Catalog, Signature
from tests.support.answers import snapshot
from tests.support.tools import tool

CATALOG = Catalog.load()
SPAN = {"start_date": "20240102", "end_date": "20240104"}
DAYS = ("2024-01-02", "2024-01-03", "2024-01-04")


def own(**other: Any) -> list[dict[str, Any]]:
    bars = dict.fromkeys(("开盘", "收盘", "最高", "最低"), 9.5)
    return [
        {"日期": d, "股票代码": "600519", **bars, "成交量": 3, "成交额": 2850.4, **other}
        for d in DAYS
    ]


def theirs(**other: Any) -> list[dict[str, Any]]:
    bars = dict.fromkeys(("open", "close", "high", "low"), 9.5)
    return [{"date": day, **bars, "volume": 299.0, "amount": 2850.0, **other} for day in DAYS]


def row(name: str, arguments: dict[str, Any], rows: list[dict[str, Any]]) -> Row:
    manifest = tool(CATALOG, name)
    data = b"[%b]" % b",\n".join(map(orjson.dumps, rows))
    entry = Entry(data, tuple(rows[0]), len(rows), 1.7e9, 1.0, "live", tool=name)
    return Row(name, manifest.revision, Signature(manifest).bind(arguments), OK, entry)


def checked(folder: Path, own_rows: list[dict[str, Any]], *options: str) -> tuple[int, Any]:
    rows = [
        row("stock_zh_a_hist", {"symbol": "600519", **SPAN}, own_rows),
        row("stock_zh_a_daily", {"symbol": "sh600519", **SPAN}, theirs()),
    ]
    file = snapshot(folder / "s.snap", rows)
    done = CliRunner().invoke(main, ["drift", "stand-ins", str(file), *options])
    return done.exit_code, json.loads(done.stdout) if "--json" in options else done.stdout


def test_two_sources_agree_within_what_is_declared(tmp_path: Path) -> None:
    code, found = checked(tmp_path, own(), "--json")
    assert code == 0
    assert (found["agree"], found["differ"], found["unfit"]) == (2, 0, 0), "each for the other"
    assert {pair["cells"] for pair in found["pairs"]} == {18}
    assert found["not_recorded"] == 2, "Tencent's answers"


def test_cells_that_differ_are_told(tmp_path: Path) -> None:
    code, found = checked(tmp_path, own(收盘=9.51), "--json")
    assert code == 1
    assert found["differ"] == 2
    first = next(p for p in found["pairs"] if p["tool"] == "stock_zh_a_hist")
    assert first["differences"][0] == {
        "day": "2024-01-02",
        "column": "收盘",
        "asked": 9.51,
        "answered": 9.5,
    }
    code, text = checked(tmp_path / "b", own(成交量=300))
    assert code == 1
    assert "2024-01-03: 成交量 300, stock_zh_a_daily 2.99" in text


def test_a_day_that_one_source_lacks_differs(tmp_path: Path) -> None:
    rows = own()
    code, found = checked(tmp_path, [rows[0], rows[2]], "--json")
    assert code == 1
    told = next(p for p in found["pairs"] if p["tool"] == "stock_zh_a_hist")
    assert told["differences"] == [
        {"day": "2024-01-03", "column": "日期", "asked": None, "answered": "2024-01-03"}
    ]


def test_the_calls_to_record_ask_both_sources(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    done = CliRunner().invoke(main, ["drift", "stand-ins", "--calls", str(file)])
    assert done.exit_code == 0, done.output
    calls = [json.loads(line) for line in file.read_text().splitlines()]
    asked = {call["tool"] for call in calls}
    assert {m.name for m in CATALOG if m.stand_ins} <= asked
    for call in calls:
        Signature(tool(CATALOG, call["tool"])).bind(call["arguments"])
    assert CliRunner().invoke(main, ["drift", "stand-ins"]).exit_code == 2
