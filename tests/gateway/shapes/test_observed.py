"""What recorded answers teach of the data of tools, and where it is told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

from adapters.normalise import from_value
from cache import Entry, Recorder, Row
from manifests import Catalog
from manifests.catalog import text_of
from tests.support.commands import finport
from tests.support.gateways import open_served_gateway
from tests.support.mcp_messages import request
from tests.support.rows import failed

COIN = {"uuid": "Qwsogvtv82FCd"}
DAYS = [{"日期": "2024-01-02", "收盘": 10.5, "note": None}, {"日期": "2024-01-03", "收盘": 11}]
COINS = ({"data": {"coin": {"name": "Bitcoin", "tags": ["a"]}}}, {"data": {"coin": {"rank": 1}}})


def row(tool: str, value: Any, upstream: str = "live", **arguments: Any) -> Row:
    made = from_value(value)
    entry = Entry(made.data, made.columns, made.rows, 1_764_000_000.0, 5.0, upstream)
    return Row(tool, "0" * 16, arguments, "ok", entry)


async def recorded(path: Path, *rows: Row) -> Path:
    async with Recorder.open(path) as recorder:
        for one in rows:
            await recorder.add(one)
    return path


@pytest.mark.anyio
async def test_what_is_learned_is_told_as_observed_everywhere(
    catalog: Catalog, tmp_path: Path
) -> None:
    names = ("get_coin", "stock_zh_a_hist", "daily")
    tools = [tool for tool in catalog if tool.name in names]
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "mine.json").write_text(text_of(tools))
    rows = [row("get_coin", value, n=n) for n, value in enumerate(COINS)]
    refusal = failed(Row("get_coin", "0" * 16, {"n": 9}, "upstream_error", rows[0].entry))
    fake = row("daily", {"made": "up"}, "simulated")
    other = row("not_ours", {"a": 1})
    hist = row("stock_zh_a_hist", DAYS)
    snapshot = await recorded(tmp_path / "a.snap", *rows, refusal, fake, other, hist)
    told = finport("manifests", "learn", str(snapshot), "--path", str(folder), "--json")
    assert told.returncode == 0, told.stderr
    assert "1 calls of simulated taught nothing" in told.stderr
    learned = json.loads(told.stdout)["tools"]
    assert sorted(learned) == ["get_coin", "stock_zh_a_hist"]
    assert (folder / "mine.json").read_text() == text_of(tools), "nothing is written unasked"
    assert learned["get_coin"]["answers"] == 2
    assert learned["get_coin"]["until"] == "2025-11-24"
    properties = {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "rank": {"type": "number"},
    }
    coin = {"type": "object", "properties": properties}
    data = {"type": "object", "properties": {"coin": coin}}
    assert learned["get_coin"]["data"] == {"type": "object", "properties": {"data": data}}
    columns = {"日期": {"type": "string"}, "收盘": {"type": "number"}, "note": {}}
    table = {"type": "array", "items": {"type": "object", "properties": columns}}
    assert learned["stock_zh_a_hist"]["data"] == table
    done = finport("manifests", "learn", str(snapshot), "--path", str(folder), "--apply")
    assert "written into the manifests" in done.stdout
    mine = Catalog.load(folder)
    assert mine.revision == Catalog(tools).revision, "no cached answer is lost"
    async with open_served_gateway(mine, tmp_path) as served:
        message = request("tools/list")
        query = "?tools=all&output_schema=full"
        async with served.client.post(
            f"{served.url}/mcp{query}", data=orjson.dumps(message)
        ) as got:
            listed = {tool["name"]: tool for tool in (await got.json())["result"]["tools"]}
        for name, value in (("get_coin", COINS[0]), ("stock_zh_a_hist", DAYS), ("daily", 1)):
            schema = listed[name]["outputSchema"]["properties"]["data"]
            Draft202012Validator.check_schema(schema)
            Draft202012Validator(schema).validate(value)
            Draft202012Validator(schema).validate("what was never seen")
            assert ("observed, not promised" in schema.get("description", "")) == (value != 1)
        async with served.client.get(f"{served.url}/openapi.json?tools=all") as got:
            paths = (await got.json())["paths"]
        answer = paths["/v1/tools/get_coin"]["post"]["responses"]["200"]["content"]
        (_, observed) = answer["application/json"]["schema"]["allOf"]
        assert observed["properties"]["data"]["anyOf"] == [learned["get_coin"]["data"], {}]
        assert "allOf" not in str(paths["/v1/tools/daily"]["post"]["responses"]["200"])
        async with served.client.get(f"{served.url}/v1/tools/get_coin") as got:
            assert (await got.json())["observed"]["answers"] == 2
        async with served.client.get(f"{served.url}/tools/get_coin") as got:
            page = await got.text()
        assert "as observed in 2 recorded answers until 2025-11-24" in page


@pytest.mark.anyio
async def test_simulated_answers_teach_nothing(tmp_path: Path) -> None:
    fake = row("get_coin", {"made": "up"}, "simulated")
    snapshot = await recorded(tmp_path / "a.snap", fake)
    done = finport("manifests", "learn", str(snapshot), "--apply")
    assert done.returncode == 1
    assert done.stdout == "learned of 0 of 1 tools, from 0 answers\n"
    assert "1 calls of simulated taught nothing: only real answers do" in done.stderr


def test_what_is_no_snapshot_teaches_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.snap").write_text("no snapshot")
    done = finport("manifests", "learn", str(tmp_path / "a.snap"))
    assert done.returncode == 1
    assert "is no snapshot" in done.stderr


@pytest.mark.anyio
async def test_a_huge_answer_teaches_its_upper_paths(tmp_path: Path) -> None:
    wide = {f"field {n} of it": {"a": {"b": 1}} for n in range(150)}
    deep: Any = 1
    for _ in range(12):
        deep = {"a": deep}
    rows = (row("get_coin", wide), row("daily", deep), row("rates", list(range(10**6))))
    snapshot = await recorded(tmp_path / "a.snap", *rows)
    done = finport("manifests", "learn", str(snapshot), "--json")
    learned = json.loads(done.stdout)["tools"]
    assert str(learned["get_coin"]).count("type") <= 202
    assert str(learned["daily"]).count("object") == 7
    assert "rates" not in learned, "it is longer than what is read"


@pytest.mark.anyio
async def test_a_later_observation_is_not_replaced_by_an_earlier_one(
    catalog: Catalog, tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(text_of([tool for tool in catalog if tool.name == "get_coin"]))
    later = replace(row("get_coin", {"a": 1}), entry=replace(row("x", {"a": 1}).entry, tool=""))
    earlier = row("get_coin", {"b": 1})
    earlier = replace(earlier, entry=replace(earlier.entry, recorded_at=1.5e9))
    for number, one in enumerate((later, earlier)):
        snapshot = await recorded(tmp_path / f"{number}.snap", one)
        done = finport("manifests", "learn", str(snapshot), "--path", str(file), "--apply")
        assert done.returncode == 0, done.stderr
    observed = json.loads(file.read_text())[0]["observed"]
    assert list(observed["data"]["properties"]) == ["a"]
