"""Rows behind a handle: for who may use the tool that gave it, and within its limits."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from cache import Entry
from gateway import CallContext, CallError, Page
from gateway.tables.rows import read as read_rows
from manifests import Catalog
from manifests.selection import Selection
from tests.support.gateways import (
    HIST,
    ServedGateway,
    open_keyed_gateway,
    open_served_gateway,
)
from tests.support.mcp_messages import result_of

pytestmark = pytest.mark.anyio

TOOL = "stock_zh_a_hist"


CLIENTS: dict[str, dict[str, Any]] = {
    "all": {},
    "coins": {"tools": Selection.parse("names:get_coin")},
    "rare": {"per_second": 1 / 60},
}


async def rows(served: ServedGateway, head: dict[str, str], handle: str) -> tuple[int, Any]:
    return await served.ask(f"/v1/results/{handle}?offset=1&limit=2", None, head)


async def shortened(served: ServedGateway, head: dict[str, str]) -> str:
    _, answer = await served.ask(f"/v1/tools/{TOOL}?max_rows=2", HIST, head)
    return str(answer["handle"])


async def test_rows_are_for_who_may_use_the_tool_that_gave_them(
    catalog: Catalog, tmp_path: Path, kept_tables: Path
) -> None:
    async with open_keyed_gateway(catalog, tmp_path, CLIENTS, kept=kept_tables) as (served, keys):
        handle = await shortened(served, keys["all"])
        status, page = await rows(served, keys["all"], handle)
        assert (status, len(page["data"]), page["handle"]) == (200, 2, handle)
        status, refused = await rows(served, keys["coins"], handle)
        assert (status, refused["error"]["code"]) == (403, "forbidden")
        nothing = f"{TOOL}.{'0' * 32}-{'0' * 16}"
        assert await rows(served, keys["coins"], nothing) == (403, refused), "kept or not"
        under_another_name = handle.replace(TOOL, "get_coin")
        for key in ("all", "coins"):
            assert (await rows(served, keys[key], under_another_name))[0] == 404
        for unknown in (handle.partition(".")[2], handle.replace(TOOL, "nothing_like_it")):
            assert (await rows(served, keys["all"], unknown))[0] == 404


async def test_rows_count_against_the_limits_of_their_client(
    catalog: Catalog, tmp_path: Path, kept_tables: Path
) -> None:
    async with open_keyed_gateway(catalog, tmp_path, CLIENTS, kept=kept_tables) as (served, keys):
        handle = await shortened(served, keys["all"])
        assert (await rows(served, keys["rare"], handle))[0] == 200
        status, refused = await rows(served, keys["rare"], handle)
        assert (status, refused["error"]["code"]) == (429, "rate_limited")
        assert refused["error"]["details"] == {"limit": "per_second"}


async def test_a_handle_outlives_the_gateway_that_gave_it(
    catalog: Catalog, tmp_path: Path, kept_tables: Path
) -> None:
    origins: dict[str, Any] = {}
    async with open_keyed_gateway(catalog, tmp_path, CLIENTS, kept=kept_tables) as (served, keys):
        handle = await shortened(served, keys["all"])
        first = await rows(served, keys["all"], handle)
        settings = served.local.settings
        origins = {n: getattr(settings, n) for n in ("rapidapi_base_url", "akshare_base_url")}
    file = tmp_path / "clients.json"
    async with open_served_gateway(catalog, tmp_path, clients_file=file, **origins) as served:
        assert await rows(served, keys["all"], handle) == first
        assert (await rows(served, keys["coins"], handle))[0] == 403
        assert (await rows(served, keys["all"], handle.replace(TOOL, "get_coin")))[0] == 404


RATES = "bond_zh_us_rate"
SINCE = {"start_date": "20240101"}
TEXT = "rows 491-500 of 500, from 2026-06-16 to 2026-06-30"


async def cut(served: ServedGateway) -> dict[str, Any]:
    """A series of 500 rows, with the oldest first, cut to ten."""
    status, answer = await served.call(f"{RATES}?max_rows=10", SINCE)
    assert status == 200
    return answer


async def whole(served: ServedGateway) -> list[dict[str, Any]]:
    _, answer = await served.call(f"{RATES}?max_rows=1000", SINCE)
    assert (answer["offset"], answer["shown"], answer["handle"]) == (0, None, None)
    rows: list[dict[str, Any]] = answer["data"]
    return rows


async def test_of_a_series_the_newest_rows_are_given_through_every_interface(
    served: ServedGateway,
) -> None:
    rows = await whole(served)
    answer = await cut(served)
    assert answer["data"] == rows[-10:]
    assert (answer["rows"], answer["offset"], answer["shown"]) == (500, 490, TEXT)

    call = {"tool": RATES, "arguments": SINCE}
    _, in_batch = await served.ask("/v1/calls?max_rows=10", call)
    order = {"name": RATES, "arguments": SINCE, "max_rows": 10}
    told = await result_of(served, "call_tool", order)
    result = await served.local.gateway.call(RATES, SINCE, CallContext(max_rows=10))
    in_python = json.loads(result.to_json())
    for other in (in_batch, told, in_python):
        for field in ("data", "rows", "truncated", "offset", "shown", "handle"):
            assert other[field] == answer[field]
    assert (result.value, result.offset, result.shown) == (rows[-10:], 490, TEXT)
    assert not (await served.local.gateway.call("get_coin", {"uuid": "x"})).shown


async def test_views_that_show_other_rows_have_other_tags(served: ServedGateway) -> None:
    tags = set()
    for most in (1, 2, 499, 500, 501):
        url = f"{served.url}/v1/tools/{RATES}?max_rows={most}"
        async with served.client.post(url, data=json.dumps(SINCE)) as got:
            tags.add(got.headers["ETag"])
    assert len(tags) == 4, "500 rows and 501 are the whole"


async def over_rest(served: ServedGateway, handle: str, asked: dict[str, Any]) -> dict[str, Any]:
    if "columns" in asked:
        asked = {**asked, "columns": json.dumps(asked["columns"])}
    async with served.client.get(f"{served.url}/v1/results/{handle}", params=asked) as got:
        answer: dict[str, Any] = await got.json()
        return answer.get("error") or answer


async def over_mcp(served: ServedGateway, handle: str, asked: dict[str, Any]) -> dict[str, Any]:
    query = "?tools=domain:bond" if "columns" in asked else ""
    told = await result_of(served, "read_result", {"handle": handle, **asked}, query)
    return told.get("error") or told


async def in_python(served: ServedGateway, handle: str, asked: dict[str, Any]) -> dict[str, Any]:
    page = await served.local.gateway.read_result(handle, **asked)
    if isinstance(page, CallError):
        return page.to_dict()
    told: dict[str, Any] = json.loads(page.to_json())
    assert page.value == told["data"]
    return told


EVERY_WAY = pytest.mark.parametrize("read", [over_rest, over_mcp, in_python])


@EVERY_WAY
async def test_rows_are_read_by_place_from_either_end_and_by_column(
    served: ServedGateway, read: Any
) -> None:
    rows = await whole(served)
    handle = (await cut(served))["handle"]
    columns = ["美国国债收益率10年", "日期"]
    cases: tuple[tuple[dict[str, Any], list[dict[str, Any]]], ...] = (
        ({"limit": 3}, rows[:3]),
        ({"offset": 7, "limit": 3}, rows[7:10]),
        ({"offset": 498, "limit": 50}, rows[498:]),
        ({"offset": 900}, []),
        ({"offset": 10**18}, []),
        ({"offset": -3}, rows[-3:]),
        ({"offset": -3, "limit": 2}, rows[-3:-1]),
        ({"offset": -(10**18), "limit": 2}, rows[:2]),
        ({"offset": 5, "limit": 2, "columns": columns}, rows[5:7]),
        ({"offset": -1, "columns": ["日期", "日期"]}, rows[-1:]),
        ({"limit": 2, "columns": []}, rows[:2]),
    )
    for asked, expected in cases:
        page = await read(served, handle, asked)
        names = [*dict.fromkeys(asked.get("columns") or rows[0])]
        assert page["data"] == [{name: row[name] for name in names} for row in expected]
        assert [[*row] for row in page["data"]] == [names] * len(expected)
        assert (page["handle"], page["columns"], page["rows"]) == (handle, names, 500)
        assert page["offset"] == (rows.index(expected[0]) if expected else 500)


@EVERY_WAY
async def test_what_cannot_be_read_is_a_typed_error(served: ServedGateway, read: Any) -> None:
    handle = (await cut(served))["handle"]
    for given, asked, code, word in (
        (
            handle,
            {"columns": ["中国国债收益率10月"]},
            "invalid_arguments",
            "did you mean 中国国债收益率10年",
        ),
        (handle, {"columns": ["日期", "yield"]}, "invalid_arguments", "'yield'"),
        (f"{handle[:-1]}{'1' if handle[-1] == '0' else '0'}", {}, "not_found", "handle"),
        ("", {}, "not_found", "") if read is not over_rest else ("x", {}, "not_found", ""),
        (handle, {"limit": 0}, "invalid", "limit"),
        (handle, {"limit": 10_001}, "invalid", "limit"),
    ):
        error = await read(served, given, asked)
        assert error["code"].startswith(code)
        assert word in error["message"]
        assert error["fault"] == "agent"
    error = await read(served, handle, {"columns": ["收益率"]})
    assert "日期" in error["details"]["allowed"]


@EVERY_WAY
async def test_rows_can_be_filtered(served: ServedGateway, read: Any) -> None:
    handle = (await cut(served))["handle"]
    rows = (await read(served, handle, {"limit": 500}))["data"]
    high = [row for row in rows if row["中国国债收益率10年"] > rows[0]["中国国债收益率10年"]]
    where = f"中国国债收益率10年 > {rows[0]['中国国债收益率10年']}"
    page = await read(served, handle, {"where": where, "limit": 500})
    assert (page["data"], page["matched"], page["rows"]) == (high, len(high), 500)
    last = await read(served, handle, {"where": where, "offset": -3, "columns": ["日期"]})
    assert last["data"] == [{"日期": row["日期"]} for row in high[-3:]]
    assert last["offset"] == len(high) - 3
    some = await read(served, handle, {"where": where, "offset": 2, "limit": 4})
    assert some["data"] == high[2:6]
    days = f"日期 >= {rows[7]['日期']} and 日期 < {rows[9]['日期']}"
    assert (await read(served, handle, {"where": days}))["data"] == rows[7:9]
    none = await read(served, handle, {"where": "日期 is null"})
    assert (none["data"], none["matched"], none["offset"]) == ([], 0, 0)
    for wrong, word in (
        ("日期 >", "where at 5"),
        ("date > 1", "no column 'date'; its columns are 日期, 中国国债收益率2年, "),
        ("中国国债收益率10年 > 2%", "where at 14: '2%' does not fit"),
        ("日期 = 06/15/2026", "which holds dates, for example"),
    ):
        error = await read(served, handle, {"where": wrong})
        assert (error["code"], error["fault"]) == ("invalid_arguments", "agent")
        assert word in error["message"]


async def test_a_model_is_given_no_more_than_500_rows_and_may_write_columns_as_text(
    served: ServedGateway,
) -> None:
    handle = (await cut(served))["handle"]
    assert len((await over_mcp(served, handle, {}))["data"]) == 50
    assert len((await over_mcp(served, handle, {"limit": 500}))["data"]) == 500
    assert (await over_mcp(served, handle, {"limit": 501}))["code"] == "invalid_arguments"
    assert (await over_mcp(served, handle, {"rows": 5}))["details"]["allowed"][0] == "handle"
    page = await over_mcp(served, handle, {"limit": 1, "columns": "日期, 中国国债收益率2年"})
    assert page["columns"] == ["日期", "中国国债收益率2年"]
    target = f"/v1/results/{handle}?columns=日期,中国国债收益率2年&limit=1"
    assert await served.ask(target) == (200, page)


async def test_over_mcp_too_rows_are_for_who_may_use_the_tool_and_within_its_limits(
    catalog: Catalog, tmp_path: Path, kept_tables: Path
) -> None:
    async with open_keyed_gateway(catalog, tmp_path, CLIENTS, kept=kept_tables) as (served, keys):
        handle = await shortened(served, keys["all"])

        async def read(key: str) -> dict[str, Any]:
            query = "?tools=names:get_coin"
            return await result_of(served, "read_result", {"handle": handle}, query, keys[key])

        assert len((await read("all"))["data"]) == (await read("all"))["rows"]
        assert (await read("coins"))["error"]["code"] == "forbidden"
        assert len((await read("rare"))["data"])
        refused = await read("rare")
        assert (refused["tool"], refused["error"]["code"]) == ("read_result", "rate_limited")
        assert catalog.get("read_result") is None


async def test_what_python_code_gets_wrong_is_a_typed_error_too(served: ServedGateway) -> None:
    gateway, handle = served.local.gateway, (await cut(served))["handle"]
    for wrong in (
        {"offset": 1.5},
        {"where": 5},
        {"limit": True},
        {"limit": "5"},
        {"columns": [5, []]},
    ):
        error = await gateway.read_result(handle, **wrong)
        assert isinstance(error, CallError)
        assert error.code == "invalid_arguments"
    page = await gateway.read_result(handle, limit=1, columns='["日期"]')
    assert isinstance(page, Page)
    assert page.columns == ("日期",)


async def test_a_page_of_a_long_table_is_a_slice_of_its_rows() -> None:
    rows = [{"date": f"{n:06}", "n": n} for n in range(30_000)]
    data = b"[" + b",\n".join(orjson.dumps(row) for row in rows) + b"]"
    entry = Entry(data, ("date", "n"), len(rows), 0.0, 0.0, "live")
    for offset, columns in ((-20_000, None), (12_000, ["n"]), (3, None)):
        page = await read_rows("h", entry, offset, 10_000, columns)
        assert isinstance(page, Page)
        expected = rows[offset:][:10_000]
        assert page.matched is None
        assert page.value == [{n: row[n] for n in columns or row} for row in expected]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("close", ["收盘"]),
        ("closing_price", ["收盘"]),
        ("Volume", ["成交量"]),
        ("change", ["涨跌额"]),
        ("换手", ["换手率"]),
        ("weather", []),
    ],
)
async def test_a_column_that_is_named_in_other_words_is_proposed(
    name: str, near: list[str]
) -> None:
    columns = ("日期", "收盘", "成交量", "涨跌额", "换手率")
    entry = Entry(b"[]", columns, 0, 0.0, 0.0, "live")
    for picked, where in (([name], None), (None, f"{name} > 14")):
        error = await read_rows("h", entry, 0, 10, picked, where)
        assert isinstance(error, CallError)
        assert error.details["nearest"] == near
        assert (f"did you mean {near[0]}" if near else "are 日期, 收盘, ") in error.message


async def test_an_error_lists_no_more_than_the_first_columns() -> None:
    columns = tuple(f"{number:03d}{'列' * 500}" for number in range(900))
    entry = Entry(b"[]", columns, 0, 0.0, 0.0, "live")
    error = await read_rows("h", entry, 0, 10, None, "weather > 14")
    assert isinstance(error, CallError)
    assert error.message.endswith(" and 880 more")
    assert len(error.message) < 1_000
