"""MCP over HTTP: by the official client in both of its eras, and by messages as they travel."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import INVALID_PARAMS, CallToolResult, TextContent, Tool

from gateway.api import mcp
from gateway.api.mcp import REVISION_KEY
from gateway.api.mcp_http import MAX_ANSWERS
from gateway.trace import JsonLines
from manifests import Catalog, Selection
from manifests.export import export
from tests.support.gateways import (
    ServedGateway,
    open_keyed_gateway,
    open_served_gateway,
    play,
    under_way,
)
from tests.support.mcp_messages import BOTH, META, post, request, result_of
from tests.support.upstreams import upstream
from tests.support.waiting import PATIENCE_S, Held

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])
COIN = {"name": "get_coin", "arguments": {"uuid": "x"}}


def stateless(method: str, **params: object) -> tuple[dict[str, Any], dict[str, str]]:
    """A request of revision 2026-07-28, and the headers that go with it."""
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if isinstance(name := params.get("name"), str):
        headers["Mcp-Name"] = name
    return request(method, {**params, "_meta": META}), headers


async def session(served: ServedGateway, revision: str = "2025-11-25") -> dict[str, str]:
    """The headers of a client that has shaken hands."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t"}}
    hello = request("initialize", params)
    async with served.client.post(f"{served.url}/mcp", json=hello) as got:
        assert (await got.json())["result"]["protocolVersion"] == revision
        session_id = got.headers["Mcp-Session-Id"]
    return {"Mcp-Session-Id": session_id, "MCP-Protocol-Version": revision}


def said(result: CallToolResult) -> dict[str, Any]:
    """What the text of a result says."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    decoded: dict[str, Any] = json.loads(content.text)
    return decoded


async def every_tool(client: Client) -> list[Tool]:
    """All pages of a client's list."""
    page = await client.list_tools()
    tools = list(page.tools)
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


@ERAS
async def test_a_client_finds_reads_and_calls_a_tool(served: ServedGateway, era: str) -> None:
    async with Client(f"{served.url}/mcp", mode=era) as client:
        assert client.protocol_version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[era]
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.title) == ("finport", "Finport")
        assert "search_tools" in (client.instructions or "")
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(listed) == ["search_tools", "describe_tool", "call_tool", "read_result"]

        question = {"query": "可转债 转股价值分析", "domain": "bond", "limit": 3}
        found = await client.call_tool("search_tools", question)
        assert found.structured_content is not None
        names = [tool["name"] for tool in found.structured_content["tools"]]
        assert len(names) == 3
        assert "bond_zh_cov_value_analysis" in names
        assert found.structured_content["fits"] is True
        assert found.structured_content["intent"]["instrument"] == ["convertible"]
        named = await client.call_tool("call_tool", {"name": "resolve_symbol", "name_": "x"})
        assert named.is_error, "its argument is called name too: it is given in arguments"
        asked = {"name": "resolve_symbol", "arguments": {"name": "茅台"}}
        codes = await client.call_tool("call_tool", asked)
        assert codes.structured_content is not None
        assert codes.structured_content["data"]["matches"][0]["code"] == "600519"

        described = await client.call_tool("describe_tool", {"name": "stock_zh_a_hist"})
        assert described.structured_content is not None
        schema, sample = (described.structured_content[k] for k in ("input_schema", "sample"))
        Draft202012Validator(schema).validate(sample)

        order = {"name": "stock_zh_a_hist", "arguments": sample, "max_rows": 2}
        called = await client.call_tool("call_tool", order)
        assert not called.is_error
        assert called.structured_content == said(called)
        assert len(called.structured_content["data"]) == 2
        assert called.structured_content["truncated"] is True


@ERAS
async def test_all_752_callable_tools_are_listed_on_one_page(
    catalog: Catalog, tmp_path: Path, era: str
) -> None:
    listed = []
    for allowed in (False, True):
        opened = open_served_gateway(catalog, tmp_path / str(allowed), allow_transactional=allowed)
        async with opened as served, Client(f"{served.url}/mcp?tools=all", mode=era) as client:
            page = await client.list_tools()
        listed.append({tool.name for tool in page.tools})
    withheld = listed[1] - listed[0]
    assert withheld == {m.name for m in catalog if m.intent_type == "transactional"} != set()
    tools = [tool for tool in page.tools if tool.name != "read_result"]
    assert page.next_cursor is None
    assert {tool.name for tool in tools} == {m.name for m in catalog if m.unavailable is None}
    assert len(tools) == 752
    for tool in tools:
        manifest = catalog.get(tool.name)
        assert manifest is not None
        assert tool.input_schema == export(manifest, "mcp")["inputSchema"]
        assert tool.output_schema == tools[0].output_schema


async def test_pages_are_as_long_as_is_asked_for(served: ServedGateway, catalog: Catalog) -> None:
    bonds = Selection.parse("domain:bond")
    bonds_offered = [m.name for m in catalog if m in bonds and m.unavailable is None]
    names = ["read_result", *bonds_offered]
    for size in (1, 10, len(names), 1_000):
        listed = list[str]()
        params: dict[str, str] | None = {}
        while params is not None:
            query = f"?tools=domain:bond&page_size={size}"
            _, answer = await post(served, request("tools/list", params), query=query)
            page = [tool["name"] for tool in answer["result"]["tools"]]
            listed += page
            cursor = answer["result"].get("nextCursor")
            assert len(page) == size or cursor is None
            params = {"cursor": cursor} if cursor else None
        assert listed == names
    _, answer = await post(served, request("tools/list"), query="?page_size=2")
    assert len(answer["result"]["tools"]) == 2
    for wrong in ("0", "-1", "x", "1", "99999999", "999999999", str(len(names))):
        _, answer = await post(served, request("tools/list", {"cursor": wrong}))
        assert answer["error"]["code"] == -32602, wrong


@pytest.mark.parametrize("schema", ["short", "full", "none"])
async def test_every_answer_fits_the_schema_that_is_listed(
    served: ServedGateway, catalog: Catalog, schema: str
) -> None:
    url = f"{served.url}/mcp?tools=source:rapidapi&output_schema={schema}"
    async with Client(url) as client:  # which checks what it gets
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        del tools["read_result"]
        (size,) = {len(json.dumps(tool.output_schema)) for tool in tools.values()}
        assert size in {"short": range(200, 500), "full": range(1_000, 4_000), "none": (4,)}[schema]
        kinds = set()
        for name in sorted(tools)[::8]:
            manifest = catalog.get(name)
            assert manifest is not None
            called = await client.call_tool(name, dict(manifest.sample()))
            kinds.add(type(said(called)["data"]))
            if schema != "none":
                output = tools[name].output_schema
                assert output is not None
                assert called.structured_content is not None
                Draft202012Validator(output).validate(called.structured_content)
        assert kinds >= {dict}


@ERAS
async def test_a_selection_offers_its_tools_themselves(
    served: ServedGateway, catalog: Catalog, era: str
) -> None:
    bonds = Selection.parse("domain:bond")
    async with Client(f"{served.url}/mcp?tools=domain:bond&max_rows=3", mode=era) as client:
        tools = {tool.name: tool for tool in await every_tool(client)}
        offered = {m.name for m in catalog if m in bonds and m.unavailable is None}
        assert set(tools) == offered | {"read_result"}
        manifest = catalog.get("bond_zh_us_rate")
        assert manifest is not None
        called = await client.call_tool(manifest.name, manifest.sample())
        assert called.structured_content is not None
        assert len(called.structured_content["data"]) == 3
        schema = tools["bond_zh_us_rate"].output_schema
        assert schema is not None
        Draft202012Validator(schema).validate(called.structured_content)
        for stranger in ("get_coin", "search_tools"):
            with pytest.raises(MCPError, match="Unknown tool") as caught:
                await client.call_tool(stranger, {})
            assert caught.value.code == INVALID_PARAMS


@ERAS
async def test_what_a_model_can_put_right_is_a_result_and_the_rest_an_error(
    served: ServedGateway, era: str
) -> None:
    async with Client(f"{served.url}/mcp", mode=era) as client:
        for name, arguments, code, word in (
            ("call_tool", {"name": "get_coin", "arguments": {}}, "invalid_arguments", "uuid"),
            ("call_tool", {"name": "get_coins_"}, "unknown_tool", "did you mean"),
            ("call_tool", {"name": "get_qhkc_index"}, "unavailable", "unavailable"),
            ("call_tool", {"arguments": {}}, "invalid_arguments", "name"),
            ("call_tool", {"name": "get_coin", "rows": 1}, "invalid_arguments", "rows"),
            ("call_tool", {"name": "get_coin", "arguments": 5}, "invalid_arguments", "dictionary"),
            ("call_tool", {"name": "get_coin", "arguments": "{"}, "invalid_arguments", "no JSON"),
            ("call_tool", {"name": "get_coin", "arguments": "[]"}, "invalid_arguments", "object"),
            ("search_tools", {"query": "x", "domain": "stocks"}, "invalid_arguments", "domain"),
            ("describe_tool", {"name": "get_coinz"}, "unknown_tool", "get_coinz"),
        ):
            failed = await client.call_tool(name, arguments)
            assert failed.is_error
            assert failed.structured_content is None
            error = said(failed)["error"]
            assert error["code"] == code
            assert error["fault"] == ("tool" if code == "unavailable" else "agent")
            assert word in error["message"]
        with pytest.raises(MCPError, match="no page begins"):
            await client.list_tools(cursor="nowhere")
        with pytest.raises(MCPError, match="Unknown tool: nothing"):
            await client.call_tool("nothing", {})


WAYS_TO_GIVE: tuple[dict[str, Any], ...] = (
    {"arguments": {"uuid": "x"}},
    {"arguments": '{"uuid": "x"}'},
    {"arguments": {"uuid": "x"}, "max_rows": None},
    {"uuid": "x"},
    {"uuid": "x", "max_rows": 5},
    {"uuid": "x", "arguments": None},
    {"uuid": "x", "arguments": {}},
    {"uuid": "x", "arguments": "{}"},
)


async def test_call_tool_takes_arguments_as_models_give_them(served: ServedGateway) -> None:
    for given_ in WAYS_TO_GIVE:
        told = await result_of(served, "call_tool", {"name": "get_coin", **given_})
        assert told["data"]["symbol"] == "x", given_
    for nothing in ({}, {"arguments": None}, {"arguments": "null"}, {"arguments": "{}"}):
        assert (await result_of(served, "call_tool", {"name": "rates", **nothing}))["ok"], nothing


@pytest.mark.parametrize(
    ("tool", "given_", "words"),
    [
        ("call_tool", {"name": "get_coin", "uuid": "x", "arguments": {"uuid": "y"}}, "beside arg"),
        # it takes an argument `name` itself
        ("call_tool", {"name": "get_coin_price_difference", "symbol": "BTC"}, "argument name too"),
        (
            "execute_tool",
            {"name": "get_coin", "parameters": {"uuid": "x"}, "arguments": {"uuid": "y"}},
            "beside arguments",
        ),
    ],
)
async def test_what_call_tool_would_have_to_guess_is_refused_and_recorded(
    fresh: ServedGateway, tool: str, given_: dict[str, Any], words: str
) -> None:
    error = (await result_of(fresh, tool, given_))["error"]
    assert error["code"] == "invalid_arguments"
    assert words in error["message"]
    assert "give all in arguments" in error["message"]
    assert fresh.local.gateway.outcomes == {"invalid_arguments": 1}


async def test_clients_that_reserve_call_tool_and_arguments_have_names_that_they_take(
    served: ServedGateway,
) -> None:
    """Semantic Kernel skips a tool `call_tool` and fills an argument `arguments` itself."""
    async with Client(f"{served.url}/mcp?tools=execute") as client:
        names = {tool.name: tool for tool in await every_tool(client)}
        assert [*names] == ["search_tools", "describe_tool", "execute_tool", "read_result"]
        assert {"name", "parameters"} <= names["execute_tool"].input_schema["properties"].keys()
        assert "arguments" not in names["execute_tool"].input_schema["properties"]
        assert names["execute_tool"].description
    async with Client(f"{served.url}/mcp") as client:
        assert "execute_tool" not in {tool.name for tool in await every_tool(client)}
        for given_ in ({"parameters": {"uuid": "x"}}, *WAYS_TO_GIVE):
            called = await client.call_tool("execute_tool", {"name": "get_coin", **given_})
            assert said(called)["data"]["symbol"] == "x", given_


async def test_without_an_output_schema_a_result_is_text_alone(served: ServedGateway) -> None:
    """Some clients give models the structured content with each Chinese character as \\uXXXX."""
    odd = {"name": "get_coin", "arguments": {"uuid": '"}],"structuredContent":{"a":[\\"'}}
    calls = (
        ("call_tool", COIN),
        ("call_tool", odd),
        ("call_tool", {"name": "get_coin"}),
        ("search_tools", {"query": "bonds"}),
        ("describe_tool", {"name": "get_coin"}),
    )
    async with (
        Client(f"{served.url}/mcp") as client,
        Client(f"{served.url}/mcp?output_schema=none") as plain,
    ):
        for call in calls:
            whole, text = await client.call_tool(*call), await plain.call_tool(*call)
            assert text.structured_content is None
            assert text.is_error == whole.is_error
            both = [{**said(r), "provenance": 0, "call_id": 0} for r in (whole, text)]
            assert both[0] == both[1]
            if not whole.is_error:
                assert said(whole) == whole.structured_content


@ERAS
async def test_a_tool_that_was_found_is_told_to_be_called_through_call_tool(
    fresh: ServedGateway, era: str
) -> None:
    async with Client(f"{fresh.url}/mcp", mode=era) as client:
        for given_ in ({"uuid": "x"}, {}, {"uuid": ["x"]}):
            direct = await client.call_tool("get_coin", given_)
            assert direct.is_error
            error = said(direct)["error"]
            assert (error["code"], error["fault"]) == ("invalid_request", "agent")
            assert "call_tool" in error["message"]
            called = await client.call_tool("call_tool", error["details"]["call_tool"])
            assert not called.is_error
        assert fresh.local.gateway.outcomes["invalid_request"] == 3
        with pytest.raises(MCPError, match=r"Unknown tool: get_cion; did you mean .*get_coin"):
            await client.call_tool("get_cion", {})
    async with Client(f"{fresh.url}/mcp?tools=domain:bond", mode=era) as client:
        with pytest.raises(MCPError, match="bond_us_zh_rate; did you mean ") as caught:
            await client.call_tool("bond_us_zh_rate", {})
        near = caught.value.error.data["nearest"]
        assert "bond_zh_us_rate" in near
        assert all(name.startswith("bond") for name in near)


async def test_a_text_that_only_its_caller_may_see_is_not_recorded(
    catalog: Catalog, tmp_path: Path
) -> None:
    path = tmp_path / "calls.jsonl"
    async with (
        JsonLines.open(path) as trace,
        open_served_gateway(catalog, tmp_path, trace=trace) as served,
    ):
        assert "a-secret-uuid" in str(
            await result_of(served, "get_coin", {"uuid": "a-secret-uuid"})
        )
    (record,) = map(json.loads, path.read_text().splitlines())
    assert (record["tool"], record["code"]) == ("get_coin", "invalid_request")
    assert "a-secret-uuid" not in path.read_text()


@ERAS
async def test_tools_say_what_they_do(catalog: Catalog, tmp_path: Path, era: str) -> None:
    for allowed in (False, True):
        folder = tmp_path / str(allowed)
        async with (
            open_served_gateway(catalog, folder, allow_transactional=allowed) as served,
            Client(f"{served.url}/mcp", mode=era) as client,
        ):
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert [tool.title for tool in tools.values()] == [
                *("Search tools", "Describe tool", "Call tool", "Read result")
            ]
            for name, tool in tools.items():
                hints = tool.annotations
                assert hints is not None
                changes = allowed and name == "call_tool"
                assert hints.title == tool.title
                assert hints.read_only_hint is hints.idempotent_hint is (not changes)
                assert hints.destructive_hint is changes
                assert hints.open_world_hint is (name == "call_tool")


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_older_clients_shake_hands_and_call(
    served: ServedGateway, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", revision)
    async with Client(f"{served.url}/mcp", mode="legacy") as client:
        assert client.protocol_version == revision
        called = await client.call_tool("call_tool", COIN)
        assert said(called)["ok"] is True
        with pytest.warns(match="ping is removed"):
            await client.send_ping()


@ERAS
async def test_a_slow_call_is_told_of_while_it_goes_on(
    catalog: Catalog, tmp_path: Path, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "PROGRESS_S", 0.05)
    held = Held()
    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        heard.append((progress, message))
        if len(heard) == 3:
            held.released.set()

    async with (
        upstream(held.handle) as url,
        open_served_gateway(catalog, tmp_path, rapidapi_base_url=url) as served,
        Client(f"{served.url}/mcp", mode=era) as client,
    ):
        slow = await client.call_tool("call_tool", COIN, progress_callback=hear)
        assert slow.structured_content == said(slow)
        assert len(heard) >= 3
        assert [p for p, _ in heard] == sorted(p for p, _ in heard)
        assert heard[0][1]
        heard.clear()
        monkeypatch.setattr(mcp, "PROGRESS_S", PATIENCE_S)
        await client.call_tool("call_tool", COIN, progress_callback=hear)
        assert heard == []


@pytest.mark.parametrize("hears", [False, True], ids=["json", "events"])
@ERAS
async def test_a_client_leaves_quietly_while_a_call_is_under_way(
    fresh: ServedGateway,
    era: str,
    hears: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An answer to a cancelled call would meet a client that reads no more, and breaks there. So
    would a second notification, at a moment that nobody chooses: there is one.
    """
    play(fresh.local, hang_rate=1.0)
    heard = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert progress
        assert (total, bool(message)) == (None, True)
        heard.set()

    async def visit() -> None:
        async with Client(f"{fresh.url}/mcp", mode=era) as client:
            await client.call_tool("call_tool", COIN, progress_callback=hear if hears else None)

    for _ in range(5):
        heard.clear()
        monkeypatch.setattr(mcp, "PROGRESS_S", 0.05)
        visiting = asyncio.create_task(visit())
        await under_way(fresh.local, 1)
        monkeypatch.setattr(mcp, "PROGRESS_S", PATIENCE_S)
        if hears:
            await heard.wait()
        visiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await visiting
        await under_way(fresh.local, 0)
    assert fresh.local.gateway.outcomes == {"cancelled": 5}
    play(fresh.local)
    async with Client(f"{fresh.url}/mcp", mode=era) as client:
        assert not (await client.call_tool("call_tool", COIN)).is_error
    assert not [r for r in caplog.records if r.levelname == "ERROR"]


async def test_a_connection_that_closes_ends_the_work_upstream(
    fresh: ServedGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    play(fresh.local, hang_rate=1.0)
    call = request("tools/call", {"name": "call_tool", "arguments": COIN})
    streaming = request("tools/call", {**call["params"], "_meta": {"progressToken": 7}})
    for message in (call, streaming, [call]):
        waiting = asyncio.create_task(post(fresh, message))
        await under_way(fresh.local, 1)
        waiting.cancel()
        await under_way(fresh.local, 0)
    monkeypatch.setattr(mcp, "PROGRESS_S", 0.05)
    got = await fresh.client.post(f"{fresh.url}/mcp", json=streaming, headers={"Accept": BOTH})
    assert b"notifications/progress" in await got.content.readuntil(b"\n\n")
    got.close()
    await under_way(fresh.local, 0)
    assert not [r for r in caplog.records if r.levelname in ("WARNING", "ERROR")]


async def test_a_cancelled_stream_ends_without_an_answer_and_its_connection_lives_on(
    fresh: ServedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "PROGRESS_S", 0.05)
    play(fresh.local, hang_rate=1.0)
    head = await session(fresh)
    params = {"name": "call_tool", "arguments": COIN, "_meta": {"progressToken": "t"}}
    call = request("tools/call", params, "a")
    async with fresh.client.post(
        f"{fresh.url}/mcp", json=call, headers={**head, "Accept": BOTH}
    ) as got:
        assert got.content_type == "text/event-stream"
        assert got.headers.keys() >= {"X-Request-Id", "X-Content-Type-Options", "Cache-Control"}
        assert got.headers.getall("Server") == ["finport"]
        first = await got.content.readuntil(b"\n\n")
        assert b"notifications/progress" in first
        await _cancel(fresh, head, "a")
        rest = await got.text()
    told = [json.loads(line[6:]) for line in rest.splitlines() if line.startswith("data: ")]
    assert all(message["method"] == "notifications/progress" for message in told)
    await under_way(fresh.local, 0)
    assert await post(fresh, request("ping"), head) == (200, request_answer({}))


async def test_only_the_session_that_asked_can_cancel_by_notification(
    fresh: ServedGateway,
) -> None:
    play(fresh.local, hang_rate=1.0)
    mine, other = await session(fresh), await session(fresh)
    call = request("tools/call", {"name": "call_tool", "arguments": COIN}, 5)
    waiting = asyncio.create_task(post(fresh, call, mine))
    await under_way(fresh.local, 1)
    for stranger in (other, {}, mine | {"Mcp-Session-Id": "0" * 32}):
        await _cancel(fresh, stranger, 5)
    await _cancel(fresh, mine, "5")  # another id than 5
    await asyncio.sleep(0.05)
    assert fresh.local.gateway.answers.under_way == 1
    await _cancel(fresh, mine, 5)
    assert await waiting == (200, None)
    await under_way(fresh.local, 0)
    await _cancel(fresh, mine, 5)  # nothing is left of it
    no_events = mine | {"Accept": "application/json"}
    waiting = asyncio.create_task(post(fresh, call, no_events))
    await under_way(fresh.local, 1)
    await _cancel(fresh, mine, 5)
    status, answer = await waiting
    assert (status, answer["id"], answer["error"]["code"]) == (200, 5, -32600), "it must be told"


async def _cancel(served: ServedGateway, head: Mapping[str, str], id_: str | int) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}
    assert await post(served, note, head) == (202, None)


def request_answer(result: object, id_: object = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": result}


@pytest.mark.parametrize("allowing", ["2024-11-05", "2025-03-26"])
async def test_the_first_revisions_may_send_arrays(served: ServedGateway, allowing: str) -> None:
    head = await session(served, allowing)
    several = [
        request("ping", id_=1),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("tools/call", {"name": "call_tool", "arguments": COIN}, "b"),
        request("nothing", id_=3),
        request("tools/list", [], 4),
        17,
    ]
    status, answers = await post(served, several, head)
    assert status == 200
    assert [a["id"] for a in answers] == [1, "b", 3, 4, None]
    assert [a.get("error", {}).get("code") for a in answers] == [
        *(None, None, -32601, -32602, -32600),
    ]
    assert answers[1]["result"]["structuredContent"]["ok"] is True
    notes = [{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 2
    assert await post(served, notes, head) == (202, None)
    for array in ([], [request("ping")] * 65):
        status, answer = await post(served, array, head)
        assert (status, answer["error"]["code"], answer["id"]) == (400, -32600, None)
    for revision in ("2025-06-18", "2025-11-25", "2026-07-28"):
        status, answer = await post(served, several, {"MCP-Protocol-Version": revision})
        assert (status, answer["error"]["code"], answer["id"]) == (400, -32600, None)


async def test_an_array_is_answered_with_so_many_bytes_and_no_more(served: ServedGateway) -> None:
    lists = [request("tools/list", id_=n) for n in range(64)]
    status, answers = await post(served, lists, query="?tools=all")
    assert (status, [a["id"] for a in answers]) == (200, [*range(64)])
    assert len(orjson.dumps(answers)) < MAX_ANSWERS + 64 * 1_000
    refused = [a["error"]["data"]["code"] for a in answers if "error" in a]
    assert refused == ["too_large"] * (64 - sum("result" in a for a in answers))
    assert 5 < len(refused) < 60
    _, answer = await post(served, lists[0], query="?tools=all")
    assert len(answer["result"]["tools"]) > 700, "by itself it is answered"


ERRORS: tuple[tuple[object, int, int, object], ...] = (
    (b"", 400, -32700, None),
    (b"{'id': 1}", 400, -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"', 400, -32700, None),
    (b"[" * 100_000, 400, -32700, None),
    (b"\xff\xfe", 400, -32700, None),
    (b'"ping"', 400, -32600, None),
    (b"null", 400, -32600, None),
    ({}, 400, -32600, None),
    ({"id": 1, "method": "ping"}, 400, -32600, 1),
    ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, 400, -32600, 1),
    ({"jsonrpc": "2.0", "id": 1}, 400, -32600, 1),
    ({"jsonrpc": "2.0", "id": 1, "method": 5}, 400, -32600, 1),
    (request("ping", id_=None), 400, -32600, None),
    (request("ping", id_=1.5), 400, -32600, None),
    (request("ping", id_=True), 400, -32600, None),
    (request("ping", id_={"a": 1}), 400, -32600, None),
    (request("ping", [], "x"), 400, -32602, "x"),
    (request("nothing"), 200, -32601, 1),
    (request("resources/list"), 200, -32601, 1),
    (request("server/discover"), 200, -32601, 1),
    (request("tools/call"), 200, -32602, 1),
    (request("tools/call", {"name": 5}), 200, -32602, 1),
    (request("tools/call", {"name": "call_tool", "arguments": []}), 200, -32602, 1),
    (request("tools/call", {"name": "nothing"}), 200, -32602, 1),
    (request("tools/list", {"cursor": 1}), 200, -32602, 1),
    (request("tools/list", {"cursor": "1"}), 200, -32602, 1),
    (request("initialize"), 200, -32602, 1),
    (stateless("tools/list")[0], 400, -32020, 1),
)


async def test_every_error_has_its_code_and_its_id(served: ServedGateway) -> None:
    for message, status, code, id_ in ERRORS:
        got, answer = await post(served, message)
        assert (got, answer["error"]["code"], answer["id"]) == (status, code, id_), message
        assert answer["jsonrpc"] == "2.0"
        assert isinstance(answer["error"]["message"], str)


async def test_what_needs_no_answer_gets_none(served: ServedGateway) -> None:
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 5},
        {"jsonrpc": "2.0", "method": "tools/call"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}},
    ):
        assert await post(served, message) == (202, None)


async def test_a_stateless_request_says_the_same_in_its_head(served: ServedGateway) -> None:
    list_, list_head = stateless("tools/list")
    call, call_head = stateless("tools/call", name="call_tool", arguments=COIN)
    status, answer = await post(served, list_, list_head)
    assert (status, len(answer["result"]["tools"])) == (200, 4)
    assert answer["result"]["resultType"] == "complete"
    assert answer["result"]["ttlMs"] > 0
    encoded = call_head | {"Mcp-Name": "=?base64?Y2FsbF90b29s?="}
    for head in (call_head, encoded):
        status, answer = await post(served, call, head)
        assert (status, answer["result"]["structuredContent"]["ok"]) == (200, True)
    for name in ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"):
        without = {k: v for k, v in call_head.items() if k != name}
        for head in (without, call_head | {name: "2025-11-25"}, call_head | {name: "=?base64?_?="}):
            status, answer = await post(served, call, head)
            code = (
                -32022 if head.get(name) == "=?base64?_?=" and name.startswith("MCP-") else -32020
            )
            assert (status, answer["error"]["code"], answer["id"]) == (400, code, 1), head
    status, answer = await post(served, request("tools/list"), list_head)
    assert (status, answer["error"]["code"]) == (400, -32020)


async def test_a_stateless_request_has_the_form_of_its_revision(served: ServedGateway) -> None:
    for method, meta, status, code in (
        ("server/discover", META, 200, None),
        ("tools/list", META, 200, None),
        ("initialize", META, 404, -32601),
        ("ping", META, 404, -32601),
        ("nothing", META, 404, -32601),
        ("tools/call", META, 400, -32602),
        ("tools/list", {REVISION_KEY: "2026-07-28"}, 400, -32602),
    ):
        message = request(method, {"_meta": meta})
        head = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if method == "tools/call":
            message["params"]["name"], head["Mcp-Name"] = "nothing", "nothing"
        got, answer = await post(served, message, head)
        assert (got, answer.get("error", {}).get("code")) == (status, code), method
    message = request("tools/list", {"_meta": META | {REVISION_KEY: "2030-01-01"}})
    for head in ({}, {"MCP-Protocol-Version": "2030-01-01", "Mcp-Method": "tools/list"}):
        got, answer = await post(served, message, head)
        assert got == 400
        assert answer["error"]["code"] == (-32022 if head else -32020)
    assert answer["error"]["data"]["requested"] == "2030-01-01"
    assert answer["error"]["data"]["supported"] == [
        *("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"),
    ]


async def test_the_type_of_a_body_is_not_looked_at(served: ServedGateway) -> None:
    for content_type in ("application/json; charset=utf-8", "text/plain", ""):
        got = await post(served, request("ping"), {"Content-Type": content_type})
        assert got == (200, request_answer({}))


REFUSED: tuple[tuple[dict[str, str], str, int, str], ...] = (
    ({"Accept": "text/html"}, "", 406, "not_acceptable"),
    ({"Accept": "text/event-stream"}, "", 406, "not_acceptable"),
    *(
        ({}, f"?{query}", 400, "invalid_request")
        for query in (
            *("tools=nonsense", "tools=domain:stocks", "tools=names:get_coin,get_cion", "tools="),
            *("max_rows=0", "page_size=0", "page_size=1001", "output_schema=long", "rows=1"),
        )
    ),
)


async def test_a_refusal_is_an_error_of_the_protocol(served: ServedGateway) -> None:
    for headers, query, status, code in REFUSED:
        got, answer = await post(served, request("ping", id_="a"), headers, query)
        assert (got, answer["id"], answer["error"]["code"]) == (status, "a", -32010), query
        said = answer["error"]["data"]
        assert (said["code"], said["fault"], said["retryable"]) == (code, "agent", False)
        assert said["message"] == answer["error"]["message"]
    for body in (b" " * (2**20 + 1), b'{"id":"' + b"x" * 2**20 + b'"}'):
        got, answer = await post(served, body)
        assert (got, answer["id"], answer["error"]["data"]["code"]) == (413, None, "too_large")


async def test_a_refusal_by_the_head_alone_has_no_id(served: ServedGateway) -> None:
    origin = {"Origin": served.url}
    for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
        got, answer = await post(served, request("ping"), headers)
        assert (got, answer["id"], answer["error"]["data"]["code"]) == (403, None, "forbidden")
    for method in ("GET", "DELETE", "PUT", "PATCH"):
        for head in ({}, origin):  # with an Origin it passes the router
            url = f"{served.url}/mcp"
            async with served.client.request(method, url, headers=head) as refused:
                assert refused.status == 405
                assert "POST" in refused.headers["Allow"]
                answer = await refused.json()
                assert answer["error"]["code"] == -32010
                assert answer["error"]["data"]["code"] == "method_not_allowed"


@ERAS
async def test_a_client_with_a_wrong_key_is_told_the_reason(
    catalog: Catalog, tmp_path: Path, era: str
) -> None:
    async with open_keyed_gateway(catalog, tmp_path, {"b": {}}) as (served, _):
        url = f"{served.url}/mcp"
        head = {"Authorization": "Bearer wrong"}
        async with httpx2.AsyncClient(headers=head) as http_client:
            reason = pytest.RaisesExc(MCPError, match="this key is not known, or was revoked")
            with pytest.RaisesGroup(reason, flatten_subgroups=True):
                async with Client(streamable_http_client(url, http_client=http_client), mode=era):
                    pass
        async with served.client.post(url, json=request("ping")) as got:
            assert got.status == 401
            assert "Bearer" in got.headers["WWW-Authenticate"]
            answer = await got.json()
        assert answer["error"]["data"]["code"] == "unauthorized"
        assert "Bearer KEY" in answer["error"]["message"]


async def test_what_is_nested_too_deeply_is_wrong_like_any_other_argument(
    served: ServedGateway,
) -> None:
    for depth in (100, 300):
        deep: Any = []
        for _ in range(depth):
            deep = [deep]
        told = await result_of(
            served, "call_tool", {"name": "get_coin", "arguments": {"uuid": deep}}
        )
        assert told["error"]["code"] == "invalid_arguments"


async def test_a_key_says_which_tools_are_offered_and_how_often(
    catalog: Catalog, tmp_path: Path
) -> None:
    bonds = Selection.parse("domain:bond")
    clients = {
        "rare": {"tools": bonds, "per_second": 0.001},
        "often": {"tools": bonds, "per_second": 40},
    }
    async with open_keyed_gateway(catalog, tmp_path, clients) as (served, heads):
        status, problem = await post(served, request("tools/list"))
        assert (status, problem["error"]["data"]["code"]) == (401, "unauthorized")
        for _ in range(50):  # over its limit for a while: a list waits for its turn
            _, answer = await post(served, request("tools/list"), heads["often"], "?tools=all")
            names = {tool["name"] for tool in answer["result"]["tools"]}
        offered = {m.name for m in catalog if m in bonds and m.unavailable is None}
        assert names == offered | {"read_result"}
        search = ("search_tools", {"query": "bitcoin price", "limit": 50}, "", heads["rare"])
        found = (await result_of(served, *search))["tools"]
        assert {tool["name"] for tool in found} <= names
        for _ in range(2):
            assert (await result_of(served, *search))["error"]["code"] == "rate_limited"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)
names = st.sampled_from(
    ["call_tool", "describe_tool", "search_tools", "read_result", "get_coin", "cn_us_rate", ""]
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


texts = st.text(max_size=20) | json_values
arguments = some(
    name=names | json_values,
    arguments=some(uuid=json_values) | json_values | json_values.map(json.dumps),
    **dict.fromkeys(("uuid", "limit", "max_rows", "offset", "columns"), json_values),
    **dict.fromkeys(("query", "handle"), texts),
)
methods = ["tools/call", "tools/list", "initialize", "ping", "server/discover", "notifications/x"]
params = some(
    name=names | json_values,
    arguments=arguments | json_values,
    cursor=json_values,
    protocolVersion=json_values,
    _meta=st.just(META) | st.dictionaries(st.sampled_from([*META, "progressToken"]), json_values),
)
messages = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(methods)},
    optional={"id": st.integers() | json_values, "params": params | json_values},
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    message=messages | st.lists(messages, max_size=4) | json_values,
    head=st.sampled_from([{}, {"MCP-Protocol-Version": "2026-07-28"}]),
    query=st.sampled_from(["", "?tools=all", "?tools=names:get_coin"]),
)
async def test_any_json_is_answered_in_the_words_of_the_protocol(
    served: ServedGateway, message: Any, head: dict[str, str], query: str
) -> None:
    if head and isinstance(message, dict) and isinstance(message.get("method"), str):
        head = head | {"Mcp-Method": message["method"]}
        if isinstance(message.get("params"), dict):
            name = message["params"].get("name")
            head |= {"Mcp-Name": name} if isinstance(name, str) and name.isidentifier() else {}
    status, answer = await post(served, message, head, query)
    if status == 202:
        assert answer is None
        return
    assert status in (200, 400, 404)
    for each in answer if isinstance(answer, list) else [answer]:
        assert each["jsonrpc"] == "2.0"
        assert ("result" in each) != ("error" in each)
        if "error" in each:
            assert each["error"]["code"] in (-32700, -32600, -32601, -32602, -32020, -32022)
    if isinstance(answer, dict) and isinstance(message, dict) and "result" in answer:
        assert answer["id"] == message["id"]
