"""What clients get from two gateways through the proxies of docs/deployment."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bench.runs.directory import RunDirectory
from bench.wire import WireClient
from gateway import CallContext
from gateway.errors import CallError
from tests.support.fleets import (
    METRICS_KEY,
    Fleet,
    connected,
    needs,
    own_address,
    proxied,
    request,
)
from tests.support.servers import answer
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.anyio, needs("nginx"), needs("haproxy")]


class Lines:
    """A stream of calls, of which each line is sent when the answer to the last one has come."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def body(self) -> AsyncIterator[bytes]:
        while (line := await self.sent.get()) is not None:
            yield line


async def check_calls(client: aiohttp.ClientSession, url: str) -> None:
    pids = set()
    for number in range(8):
        asked = {"uuid": f"c{number}"}
        async with client.post(f"{url}/v1/tools/get_coin", json=asked) as response:
            assert (response.status, (await response.json())["ok"]) == (200, True)
            pids.add(response.headers["X-Request-Id"].partition("-")[0])
            assert response.headers["Server"] == "finport"
    assert len(pids) == 2, "calls go to both gateways"
    async with client.post(f"{url}/v1/tools/get_coin", json={"uuid": 5, "x": 1}) as response:
        assert (await response.json())["error"]["code"] == "invalid_arguments"
    async with client.get(f"{url}/readyz") as response:
        assert await response.json() == {"status": "ready"}
    async with client.get(f"{url}/.well-known/oauth-protected-resource") as response:
        assert response.status == 404  # no key is needed
    async with client.get(f"{url}/openapi.json") as response:
        assert (await response.json())["servers"] == [{"url": url}]


async def check_batches(client: aiohttp.ClientSession, url: str) -> None:
    calls = [{"id": n, "tool": "get_coin", "arguments": {"uuid": f"b{n}"}} for n in range(100)]
    text = "".join(json.dumps(call) + "\n" for call in calls)
    async with client.post(f"{url}/v1/calls", data=text) as response:
        answers = [json.loads(line) for line in (await response.text()).splitlines()]
    assert {each["id"] for each in answers if each["ok"]} == set(range(100))

    lines = Lines()
    lines.sent.put_nowait(b"\n")  # aiohttp's client keeps the head back until something is written
    head = {"Content-Type": "application/x-ndjson"}
    opened = client.post(f"{url}/v1/calls?stream=true", data=lines.body(), headers=head)
    async with opened as response:  # before any call is sent
        assert [await response.content.readline() for _ in range(2)] == [b"\n"] * 2
        for call in calls[:3]:
            lines.sent.put_nowait(json.dumps(call).encode() + b"\n")
            assert json.loads(await response.content.readline())["id"] == call["id"]
        lines.sent.put_nowait(None)
        assert await response.content.read() == b""


async def check_mcp(client: aiohttp.ClientSession, url: str) -> None:
    async def said(method: str, params: object) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with client.post(f"{url}/mcp", json=message, headers=head) as response:
            assert response.status == 200
            if "Mcp-Session-Id" in response.headers:
                head["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
            result: dict[str, Any] = (await response.json())["result"]
            return result

    head = {"Accept": "application/json, text/event-stream"}
    about = {"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    await said("initialize", {"protocolVersion": "2025-11-25", **about})
    # The gateways have no sessions in common, and need none.
    for number in range(4):
        assert len((await said("tools/list", {}))["tools"]) == 4
        called = {"name": "get_coin", "arguments": {"uuid": f"m{number}"}}
        result = await said("tools/call", {"name": "call_tool", "arguments": called})
        assert not result.get("isError"), result


async def take_turns(fleet: Fleet) -> None:
    """Make the one call at a host for which 100 s are to pass before the next."""
    async with aiohttp.ClientSession() as client:
        for server in fleet.servers:
            tool = f"{server.url}/v1/tools/rates"
            async with client.post(tool, json={"base": "EUR"}) as response:
                assert response.status == 200


async def check_progress(client: aiohttp.ClientSession, url: str) -> None:
    """The proxy passes the first event of an answer on while the call still waits."""
    rates = {"name": "rates", "arguments": {"base": "USD"}}
    asked = {"name": "call_tool", "arguments": rates, "_meta": {"progressToken": 7}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    head = {"Accept": "application/json, text/event-stream"}
    async with client.post(f"{url}/mcp", json=message, headers=head) as response:
        assert response.content_type == "text/event-stream"
        event = await response.content.readuntil(b"\n\n")
        assert b"notifications/progress" in event
        response.close()  # which cancels the call


async def check_streams(url: str, folder: Path) -> None:
    async with (
        RunDirectory.open(folder, {}) as run,
        WireClient.open(url, run.calls) as wire,
    ):
        making = (
            wire.call("get_coin", {"uuid": f"w{n}"}, CallContext(episode="e", step=1))
            for n in range(100)
        )
        assert all(reply.ok for reply in await asyncio.gather(*making))
        assert wire.plain is None, "calls travel on streams"


async def check(url: str, folder: Path) -> None:
    async with aiohttp.ClientSession() as client:
        await check_calls(client, url)
        await check_batches(client, url)
        await check_mcp(client, url)
        await check_progress(client, url)
    await check_streams(url, folder)


async def test_calls_batches_streams_and_mcp_are_answered_and_lost_gateways_named(
    tmp_path: Path,
) -> None:
    listens = {proxy: f"{own_address()}:8080" for proxy in ("nginx", "haproxy")}
    rare = json.dumps({"currencyapi-net.p.rapidapi.com": {"per_second": 0.01}})
    told = {"FINPORT_METRICS_KEY": METRICS_KEY, "FINPORT_HOSTS": rare}
    async with AsyncExitStack() as parts:
        fleet = await parts.enter_async_context(Fleet.open(tmp_path, **told))
        await take_turns(fleet)
        for proxy, listen in listens.items():
            await parts.enter_async_context(proxied(proxy, tmp_path, fleet.changes(), listen))
        async with asyncio.timeout(PATIENCE_S):
            checks = (check(f"http://{at}", tmp_path / name) for name, at in listens.items())
            await asyncio.gather(*checks)
        for server in fleet.servers:
            server.process.kill()
            await server.process.wait()
        for listen in listens.values():
            await check_that_none_is_reached(listen)


async def check_that_none_is_reached(listen: str) -> None:
    """Without a gateway a proxy says so in the form of the interface: nothing was done."""
    for path in ("/v1/tools/get_coin", "/mcp"):
        reader, writer = await connected(listen)
        writer.write(request("POST", path, {"uuid": "x"}))
        status, head, body = await answer(reader)
        writer.close()
        error = body["error"]
        if path == "/mcp":
            assert (body["jsonrpc"], body["id"], error["code"]) == ("2.0", None, -32010)
            assert error["message"] == error["data"]["message"]
            error = error["data"]
        else:
            assert body["ok"] is False
        assert CallError.from_dict(error).to_dict() == error
        assert (status, error["code"], error["retryable"]) == (503, "overloaded", True)
        assert re.search("^retry-after: 1\r$", head, re.MULTILINE)
        assert re.search("^content-type: application/json", head, re.MULTILINE)
