"""Changes of the list of tools: streams of MCP, and what the API remembers of tools."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp import Client
from mcp.client.subscriptions import ToolsListChanged
from mcp.types import INVALID_PARAMS

from gateway.access.guard import Caller
from gateway.access.keys import revoke
from gateway.api import subscriptions
from gateway.api.mcp_errors import METHOD_NOT_FOUND, MISSING_CAPABILITY, REFUSED
from gateway.api.mcp_tools import Visitor
from gateway.api.subscriptions import LISTEN, SUBSCRIPTION_KEY
from gateway.server import http
from manifests import Catalog, Manifest, Selection
from manifests.catalog import text_of
from tests.support.gateways import (
    LocalGateway,
    ServedGateway,
    open_keyed_gateway,
    open_local_gateway,
    open_served_gateway,
)
from tests.support.mcp_messages import BOTH, META, post, request
from tests.support.mcp_stdio import cancel, opened
from tests.support.servers import asked, server
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def own(catalog: Catalog) -> Catalog:
    """A catalogue that a test may change."""
    return Catalog(catalog)


def without(catalog: Catalog, *names: str) -> Catalog:
    return Catalog(manifest for manifest in catalog if manifest.name not in names)


def renamed(catalog: Catalog, name: str, new: str) -> Manifest:
    found = catalog.get(name)
    assert found is not None
    return found.model_copy(update={"name": new})


Told = AsyncIterator[dict[str, Any]]


async def _read(got: aiohttp.ClientResponse) -> Told:
    async for line in got.content:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


@asynccontextmanager
async def listening(
    url: str,
    wanted: object,
    head: Mapping[str, str] | None = None,
    query: str = "",
    id_: object = "s-1",
) -> AsyncIterator[Told]:
    """The messages of a stream, the first of which acknowledges it."""
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": LISTEN, "Accept": BOTH}
    asking = request(LISTEN, {"notifications": wanted, "_meta": META}, id_)
    async with (
        asyncio.timeout(PATIENCE_S),
        aiohttp.ClientSession() as client,
        client.post(f"{url}/mcp{query}", json=asking, headers={**headers, **(head or {})}) as got,
    ):
        assert got.status == 200, await got.text()
        assert got.content_type == "text/event-stream"
        assert got.headers["X-Accel-Buffering"] == "no"
        told = _read(got)
        first = await anext(told)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["_meta"] == {SUBSCRIPTION_KEY: id_}
        yield told


async def refusal(
    served: ServedGateway, params: object, **headers: str
) -> tuple[int, dict[str, Any]]:
    head = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": LISTEN, **headers}
    status, answer = await post(served, request(LISTEN, params), head)
    return status, answer["error"]


async def test_a_client_hears_of_a_changed_list_and_sees_it(own: Catalog, tmp_path: Path) -> None:
    async with (
        open_served_gateway(own, tmp_path) as served,
        Client(f"{served.url}/mcp?tools=domain:bond") as client,
    ):
        catalog = served.local.gateway.catalog
        assert client.server_capabilities is not None
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed is True
        before = {tool.name for tool in (await client.list_tools()).tools}
        name = min(before - {"read_result"})
        listen = client.listen(tools_list_changed=True, prompts_list_changed=True)
        async with asyncio.timeout(PATIENCE_S), listen as changes:
            assert changes.honored.tools_list_changed is True
            assert changes.honored.prompts_list_changed is None
            whole = Catalog(catalog)
            for other, left in ((without(whole, name), before - {name}), (whole, before)):
                catalog.adopt(other)
                assert isinstance(await anext(changes), ToolsListChanged)
                listed = {tool.name for tool in (await client.list_tools()).tools}
                assert listed == left
        await until(lambda: not catalog.listeners)


async def test_a_change_that_the_caller_does_not_see_is_not_told(
    own: Catalog, tmp_path: Path
) -> None:
    async with open_served_gateway(own, tmp_path) as served:
        catalog, wanted = served.local.gateway.catalog, {"toolsListChanged": True}
        bond = catalog.select(domain="bond")[0].name
        async with (
            listening(served.url, wanted) as three,
            listening(served.url, wanted, query="?tools=source:rapidapi") as rapid,
            listening(served.url, {"toolsListChanged": False}, query="?tools=all") as deaf,
            listening(served.url, wanted, query="?tools=all", id_=7) as every,
        ):
            hearing = [asyncio.ensure_future(anext(told)) for told in (three, rapid, deaf)]
            catalog.adopt(Catalog(catalog))
            catalog.adopt(without(catalog, bond))
            heard = await anext(every)
            assert heard == {
                "jsonrpc": "2.0",
                "method": "notifications/tools/list_changed",
                "params": {"_meta": {SUBSCRIPTION_KEY: 7}},
            }
            done, _ = await asyncio.wait(hearing, timeout=0.3)
            assert not done
            catalog.adopt(without(catalog, "get_coin"))
            assert (await hearing[1])["method"] == "notifications/tools/list_changed"
            for one in hearing:
                one.cancel()
            await asyncio.wait(hearing)


async def test_filters_are_checked(served: ServedGateway) -> None:
    wrong: tuple[object, ...] = (None, [], "x", {"toolsListChanged": 1}, {"taskIds": "x"})
    for notifications in (*wrong, {"taskIds": [7]}, {"taskIds": [f"0-{n}" for n in range(65)]}):
        params = {"notifications": notifications, "_meta": META}
        status, error = await refusal(served, params)
        assert (status, error["code"]) == (400, INVALID_PARAMS), notifications
    status, error = await refusal(served, {"notifications": {"taskIds": ["0-1"]}, "_meta": META})
    assert (status, error["code"]) == (400, MISSING_CAPABILITY)
    params = {"notifications": {}, "_meta": META}
    status, error = await refusal(served, params, Accept="application/json")
    assert (status, error["code"]) == (406, REFUSED)
    for message in (request(LISTEN, {"notifications": {}}), [request(LISTEN)]):
        _, answer = await post(served, message)
        answer = answer[0] if isinstance(answer, list) else answer
        assert answer["error"]["code"] == METHOD_NOT_FOUND
    async with listening(served.url, {"resourceSubscriptions": ["file:///x"], "x/y": 1}):
        pass
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t"}}
    _, answer = await post(served, request("initialize", hello))
    assert answer["result"]["capabilities"] == {"tools": {"listChanged": False}}


async def test_a_client_hears_that_its_grant_changed_and_that_its_key_is_gone(
    own: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "KEEP_ALIVE_S", 0.1)
    async with open_keyed_gateway(own, tmp_path, {"one": {}}) as (served, heads):
        wanted, file = {"toolsListChanged": True}, tmp_path / "clients.json"
        async with listening(served.url, wanted, heads["one"], "?tools=all") as told:
            said = json.loads(file.read_text())
            said["clients"][0]["tools"] = "domain:bond"
            file.write_text(json.dumps(said))
            assert (await anext(told))["method"] == "notifications/tools/list_changed"
            revoke(file, "one")
            last = await anext(told)
            assert last["id"] == "s-1"
            assert last["error"]["data"]["code"] == "unauthorized"
            with pytest.raises(StopAsyncIteration):
                await anext(told)


async def test_streams_are_bounded_and_count_as_no_call(
    own: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MOST", 3)
    monkeypatch.setattr(subscriptions, "MOST_OF_ONE", 2)
    clients: dict[str, dict[str, Any]] = {"one": {"at_once": 1}, "two": {}, "three": {}}
    async with open_keyed_gateway(own, tmp_path, clients) as (served, heads):
        url, params = served.url, {"notifications": {}, "_meta": META}
        async with listening(url, {}, heads["one"]), listening(url, {}, heads["one"]):
            status, error = await refusal(served, params, **heads["one"])
            assert (status, error["data"]["code"]) == (429, "rate_limited")
            async with listening(url, {}, heads["two"]):
                status, error = await refusal(served, params, **heads["three"])
                assert (status, error["data"]["code"]) == (503, "overloaded")
            coin = {"name": "get_coin", "arguments": {"uuid": "x"}}
            called = request("tools/call", {"name": "call_tool", "arguments": coin})
            _, answer = await post(served, called, heads["one"])
            assert answer["result"]["isError"] is False

            async def opens() -> bool:
                try:
                    async with listening(url, {}, heads["three"]):
                        return True
                except AssertionError:
                    return False

            async with asyncio.timeout(PATIENCE_S):
                while not await opens():
                    await asyncio.sleep(0.02)


async def test_a_silent_stream_shows_that_it_lives(
    served: ServedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "KEEP_ALIVE_S", 0.05)
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": LISTEN, "Accept": BOTH}
    asking = request(LISTEN, {"notifications": {}, "_meta": META})
    async with (
        asyncio.timeout(PATIENCE_S),
        served.client.post(f"{served.url}/mcp", json=asking, headers=headers) as got,
    ):
        lines = [await got.content.readline() for _ in range(9)]
    assert lines[0] == b"event: message\n"
    assert lines[3:] == [b":\n", b"\n"] * 3


async def test_a_client_that_does_not_read_costs_no_memory(own: Catalog, tmp_path: Path) -> None:
    """Many changes between two reads are one notification."""
    async with open_served_gateway(own, tmp_path) as served:
        catalog = served.local.gateway.catalog
        whole = Catalog(catalog)
        fewer = without(whole, "get_coin")
        host, port = served.url.removeprefix("http://").split(":")
        body = json.dumps(
            request(LISTEN, {"notifications": {"toolsListChanged": True}, "_meta": META})
        )
        head = (
            f"POST /mcp?tools=all HTTP/1.1\r\nHost: {host}\r\nAccept: {BOTH}\r\n"
            f"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {LISTEN}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        )
        loop = asyncio.get_running_loop()
        with socket.socket() as wire:
            wire.setblocking(False)
            await loop.sock_connect(wire, (host, int(port)))
            await loop.sock_sendall(wire, head.encode())
            await until(lambda: catalog.listeners)
            said = b""
            while b"acknowledged" not in said:
                said += await asyncio.wait_for(loop.sock_recv(wire, 2**16), PATIENCE_S)
            for _ in range(1_000):
                catalog.adopt(fewer)
                catalog.adopt(whole)
            catalog.adopt(fewer)
            async with asyncio.timeout(PATIENCE_S):
                while b"list_changed" not in said:
                    said += await loop.sock_recv(wire, 2**16)
                # A marker behind it: nothing else was in between.
                catalog.adopt(whole)
                while said.count(b"list_changed") < 2:
                    said += await loop.sock_recv(wire, 2**16)
            assert said.count(b"list_changed") == 2
        await until(lambda: not catalog.listeners)


async def test_a_drain_ends_a_stream_properly(own: Catalog, tmp_path: Path) -> None:
    async with open_local_gateway(own, tmp_path) as local:
        async with http.serve(local.gateway) as url:
            client = Client(f"{url}/mcp")
            await client.__aenter__()
            listen = client.listen(tools_list_changed=True)
            changes = await listen.__aenter__()
            hearing = asyncio.ensure_future(anext(changes, None))
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            assert await hearing is None, "not lost"
        await listen.__aexit__(None, None, None)
        await client.__aexit__(None, None, None)
        assert not local.gateway.catalog.listeners


async def test_a_reload_is_told_if_it_changes_the_list(catalog: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text(text_of([renamed(catalog, "get_coin", "get_tune")]))
    async with server(tmp_path, "--manifests", str(file)) as running:
        wanted = {"toolsListChanged": True}
        async with listening(running.url, wanted, query="?tools=all") as told:
            running.tell(signal.SIGHUP)  # which changes nothing
            names = {"get_tune", "get_tone"}
            file.write_text(text_of([renamed(catalog, "get_coin", name) for name in names]))
            running.tell(signal.SIGHUP)
            assert (await anext(told))["method"] == "notifications/tools/list_changed"
            status, listed = await asked(f"{running.url}/v1/tools?limit=1000")
            assert status == 200
            assert names < {tool["name"] for tool in listed["tools"]}
            running.tell(signal.SIGTERM)
            assert (await anext(told))["result"]["resultType"] == "complete"


@pytest.fixture
async def changing(own: Catalog, tmp_path: Path) -> AsyncIterator[LocalGateway]:
    async with open_local_gateway(own, tmp_path) as local:
        yield local


EVERY = Visitor(Caller(), Selection.parse("all"))


async def test_streams_over_standard_input(changing: LocalGateway) -> None:
    catalog = changing.gateway.catalog
    whole, fewer = Catalog(catalog), without(catalog, "get_coin")
    wanted = {"notifications": {"toolsListChanged": True}, "_meta": META}
    async with opened(changing, EVERY) as pipe:
        for id_ in ("a", 2):
            pipe.send(request(LISTEN, wanted, id_))
            told = await pipe.read()
            assert told["params"]["_meta"] == {SUBSCRIPTION_KEY: id_}
            assert told["params"]["notifications"] == {"toolsListChanged": True}
        pipe.send(request(LISTEN, wanted, 2))
        assert "under way" in (await pipe.read())["error"]["message"]
        pipe.send(request(LISTEN, {"notifications": 7, "_meta": META}, 3))
        assert (await pipe.read())["error"]["code"] == INVALID_PARAMS
        catalog.adopt(fewer)
        both = [await pipe.read(), await pipe.read()]
        assert {one["method"] for one in both} == {"notifications/tools/list_changed"}
        assert {one["params"]["_meta"][SUBSCRIPTION_KEY] for one in both} == {"a", 2}
        pipe.send(cancel("a"), request("ping", None, 4))
        assert (await pipe.read())["id"] == 4
        catalog.adopt(whole)
        assert (await pipe.read())["params"]["_meta"] == {SUBSCRIPTION_KEY: 2}
    assert not catalog.listeners


async def test_a_client_with_a_handshake_hears_of_changes_over_standard_input(
    changing: LocalGateway,
) -> None:
    catalog = changing.gateway.catalog
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t"}}
    async with opened(changing, EVERY) as pipe:
        pipe.send(request("initialize", hello))
        assert (await pipe.read())["result"]["capabilities"] == {"tools": {"listChanged": True}}
        catalog.adopt(without(catalog, "get_coin"))
        pipe.send(*2 * [{"jsonrpc": "2.0", "method": "notifications/initialized"}])
        await until(lambda: catalog.listeners)
        catalog.adopt(without(catalog, "stock_zh_a_hist"))
        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        assert await pipe.read() == changed
        catalog.adopt(Catalog(catalog))
        pipe.send(request("ping", None, 9))
        assert (await pipe.read())["id"] == 9
    assert not catalog.listeners


async def test_all_parts_of_the_api_follow_the_catalogue(own: Catalog, tmp_path: Path) -> None:
    async with open_served_gateway(own, tmp_path) as served:
        catalog, ask = served.local.gateway.catalog, served.ask
        described = {"get_coin": "about this one", "get_tune": "about another one"}
        coin = renamed(catalog, "get_coin", "get_coin")
        first = coin.model_copy(update={"description": described["get_coin"]})
        new = coin.model_copy(update={"name": "get_tune", "description": described["get_tune"]})
        gone = "stock_zh_a_hist"

        async def seen() -> dict[str, str]:
            """What each part says of the three tools."""
            texts = {
                path: json.dumps((await ask(path))[1])
                for path in (
                    "/v1/schemas/openai?tools=all",
                    "/openapi.json?tools=all",
                    "/v1/tools?limit=1000",
                    "/v1/tools?q=about+another+one&limit=1000",
                )
            }
            for query in ("?tools=all", "?tools=source:rapidapi"):
                _, answer = await post(served, request("tools/list"), query=query)
                texts[query] = json.dumps(answer)
            return texts

        before = await seen()
        assert all("about this one" not in text for text in before.values())
        assert (await served.call("get_coin", {"uuid": "x"}))[0] == 200
        assert (await served.call("get_tune", {"uuid": "x"}))[0] == 404
        dates = {"symbol": "600519", "start_date": "20240101", "end_date": "20240131"}
        odd = {**dates, "odd": 1}
        assert (await served.call(gone, odd))[0] == 422
        async with served.client.get(served.url) as page:
            filters = await page.text()
        rapid = len(catalog.select(source="rapidapi"))
        assert f"({rapid})" in filters

        rest = [m for m in catalog if m.name not in ("get_coin", gone)]
        catalog.adopt(Catalog([first, new, *rest]))
        for path, text in (await seen()).items():
            assert '"get_tune"' in text or "/get_tune" in text, path
            assert gone + '"' not in text.replace("call_tool", ""), path
        assert (await served.call("get_tune", {"uuid": "x"}))[0] == 200
        for arguments in (dates, odd):
            assert (await served.call(gone, arguments))[0] == 404
        status, answer = await post(served, request("tools/list"), query=f"?tools=names:{gone}")
        assert status == 400
        assert "no tool is named" in answer["error"]["message"]
        async with served.client.get(served.url) as page:
            assert f"({rapid + 1})" in await page.text()

        changed = first.model_copy(update={"parameters": ()})
        catalog.adopt(Catalog([changed, new, *rest]))
        assert (await served.call("get_coin", {"uuid": "x"}))[0] == 422, "it takes none any more"
