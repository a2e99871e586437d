"""What the API refuses before it becomes a call is recorded and reported to observers, whichever
interface it came through. What is no call is neither.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.trace import JsonLines
from manifests import Catalog
from tests.support.gateways import ServedGateway, open_keyed_gateway, open_served_gateway
from tests.support.mcp_messages import result_of

pytestmark = pytest.mark.anyio

COIN = {"uuid": "Qwsogvtv82FCd"}


@asynccontextmanager
async def limited(catalog: Catalog, folder: Path) -> AsyncIterator[ServedGateway]:
    """A served gateway, and a client whose limit is used up."""
    rare = {"rare": {"per_second": 1 / 60}}
    async with (
        JsonLines.open(folder / "calls.jsonl") as trace,
        open_keyed_gateway(catalog, folder, rare, trace=trace, deadline_s=0.2) as (served, heads),
    ):
        served.client.headers.update(heads["rare"])
        await served.call("get_coin", {})  # which uses up the rate of this minute
        yield served


async def test_a_call_that_a_client_s_limit_refuses_is_recorded_and_counted(
    catalog: Catalog, tmp_path: Path, json_lines: Any
) -> None:
    call = {"id": "one", "tool": "get_coin", "arguments": COIN}
    async with limited(catalog, tmp_path) as served:
        status, refused = await served.call("get_coin", COIN)
        told = [
            refused,
            (await served.ask("/v1/calls", call))[1],
            await result_of(served, "get_coin", COIN, "?tools=all"),
            await result_of(served, "call_tool", {"name": "get_coin", "arguments": COIN}),
        ]
        assert [one["error"]["code"] for one in told] == ["rate_limited"] * 4
        assert (status, told[1]["id"]) == (429, "one")
        assert [one["tool"] for one in told[2:]] == ["get_coin"] * 2
        assert served.local.gateway.outcomes["rate_limited"] == 4
        async with served.client.get(f"{served.url}/metrics") as answer:
            figures = await answer.text()
        assert 'code="rate_limited"' in figures
    for last in json_lines("calls.jsonl")[-4:]:
        assert (last["tool"], last["code"], last["fault"]) == ("get_coin", "rate_limited", "quota")


async def test_a_call_by_mcp_that_can_t_be_made_is_recorded(
    catalog: Catalog, tmp_path: Path, json_lines: Any
) -> None:
    async with (
        JsonLines.open(tmp_path / "calls.jsonl") as trace,
        open_served_gateway(catalog, tmp_path, trace=trace) as served,
    ):
        order = {"name": "get_coin", "arguments": "Qwsogvtv82FCd"}
        assert "error" in await result_of(served, "call_tool", order)
    (record,) = json_lines("calls.jsonl")
    assert (record["tool"], record["code"]) == ("get_coin", "invalid_arguments")


async def test_a_search_that_a_limit_refuses_is_no_call(catalog: Catalog, tmp_path: Path) -> None:
    async with limited(catalog, tmp_path) as served:
        before = served.local.gateway.outcomes.copy()
        refused = await result_of(served, "search_tools", {"query": "gold"})
        assert refused["error"]["code"] == "rate_limited"
        assert served.local.gateway.outcomes == before


async def test_a_list_and_a_search_count_against_the_limits_of_a_client(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with limited(catalog, tmp_path) as served:
        for path in (
            *("/v1/tools", "/v1/tools?q=gold", "/v1/schemas/openai?q=gold", "/?q=gold"),
            "/openapi.json?tools=all",
        ):
            async with served.client.get(f"{served.url}{path}") as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (429, "60"), path
                assert (await answer.json())["error"]["details"] == {"limit": "per_second"}


async def test_each_message_of_an_array_counts_against_the_limits_of_a_client(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.api.mcp.TURN_S", 0.05)
    async with limited(catalog, tmp_path) as served:
        for method in ("ping", "initialize", "tools/list"):
            params = {"protocolVersion": "2025-03-26"}
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            _, answers = await served.ask("/mcp?tools=all", [message] * 2)
            codes = [one["error"]["data"]["code"] for one in answers]
            assert codes == ["rate_limited"] * 2, method
            status, _ = await served.ask("/mcp?tools=all", message)
            assert (status == 200) == (method != "tools/list"), method
            status, _ = await served.ask("/mcp", message)
            assert status == 200, "a handshake and the list of three tools are free"


async def test_to_read_about_a_tool_that_there_is_not_is_no_call(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with (
        JsonLines.open(tmp_path / "calls.jsonl") as trace,
        open_served_gateway(catalog, tmp_path, trace=trace) as served,
    ):
        status, answer = await served.ask("/v1/tools/get_coinn")
        assert (status, answer["error"]["code"]) == (404, "unknown_tool")
        assert "get_coin" in answer["error"]["details"]["nearest"]
        assert served.local.gateway.outcomes == {}
    assert (tmp_path / "calls.jsonl").read_bytes() == b""
