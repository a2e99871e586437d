"""MCP's tasks: calls that last are polled, cancelled, kept for their client, and bounded."""

import asyncio
import json
import re
import resource
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp import Client, MCPError
from mcp.types import INVALID_PARAMS, CallToolResult

from adapters.simulator import Faults
from gateway.api import tasks
from gateway.api.mcp import CAPABILITIES_KEY
from gateway.api.mcp_errors import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    REFUSED,
)
from gateway.server import http
from manifests import Catalog
from tests.support.gateways import (
    LocalGateway,
    ServedGateway,
    open_keyed_gateway,
    open_served_gateway,
    open_sharing_gateways,
    play,
    under_way,
)
from tests.support.mcp_messages import BOTH, META, post, request
from tests.support.mcp_stdio import opened
from tests.support.mcp_tasks import TASKS_META, TakesTasks, about, begun, polled, sent
from tests.support.redis import needs_redis, redis_server
from tests.support.servers import server
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

ID = re.compile(r"([0-9a-f]{16}\.)?[0-9]-[0-9a-f]{32}")
COIN = {"name": "get_coin", "arguments": {"uuid": "x"}}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls become tasks after a short time."""
    monkeypatch.setattr(tasks, "TASK_S", 0.05)


def unknown(answer: tuple[int, dict[str, Any]]) -> str:
    """What is said of a task that is not the caller's, or of none."""
    status, said = answer
    assert (status, said["error"]["code"]) == (400, INVALID_PARAMS)
    assert "data" not in said["error"]
    message: str = said["error"]["message"]
    return message


async def test_a_call_that_lasts_is_a_task_until_it_is_answered(fresh: ServedGateway) -> None:
    play(fresh.local, latency_s=tasks.TASK_S + 0.5)
    extension = TakesTasks()
    async with Client(f"{fresh.url}/mcp", extensions=[extension]) as client:
        called = await client.call_tool("call_tool", COIN)
        created, ended = extension.seen
        assert ID.fullmatch(created["taskId"])
        assert (created["status"], ended["status"]) == ("working", "completed")
        assert created["pollIntervalMs"] == ended["pollIntervalMs"] == 1_000
        assert created["ttlMs"] == ended["ttlMs"] == 780_000
        times = [datetime.fromisoformat(t[k]) for t in extension.seen for k in ("createdAt",)]
        assert times[0] == times[1] < datetime.fromisoformat(ended["lastUpdatedAt"])
        again = await client.call_tool("call_tool", COIN)
        assert len(extension.seen) == 2, "a cached call is no task"
        for result in (called, again):
            assert not result.is_error
            assert result.structured_content is not None
        assert called.structured_content is not None
        assert again.structured_content is not None
        assert called.structured_content["data"] == again.structured_content["data"]
        assert ended["result"]["resultType"] == "complete"


@pytest.mark.usefixtures("soon")
async def test_only_clients_that_say_so_get_tasks(fresh: ServedGateway) -> None:
    play(fresh.local, latency_s=0.3)
    async with Client(f"{fresh.url}/mcp") as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.extensions == {"io.modelcontextprotocol/tasks": {}}
        plain = await client.call_tool("call_tool", COIN)
        assert isinstance(plain, CallToolResult)
        with pytest.raises(MCPError) as refused:
            await about(client.session, "tasks/get", taskId=f"0-{'0' * 32}")
    assert refused.value.error.code == MISSING_CAPABILITY
    needed: object = {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    assert refused.value.error.data == needed
    odd_ones: tuple[object, ...] = (None, [], {"extensions": None}, {"extensions": {"x/y": {}}})
    for odd in (*odd_ones, {"extensions": {"io.modelcontextprotocol/tasks": True}}):
        meta = {**META, CAPABILITIES_KEY: odd}
        status, answer = await sent(fresh.url, "tasks/get", taskId="0-0", _meta=meta)
        assert (status, answer["error"]["code"]) == (400, MISSING_CAPABILITY)
    async with Client(f"{fresh.url}/mcp", mode="legacy", extensions=[TakesTasks()]) as old:
        assert old.server_capabilities is not None
        assert old.server_capabilities.extensions is None
        result = await old.call_tool("call_tool", {**COIN, "arguments": {"uuid": "y"}})
        assert not result.is_error
        for method in ("get", "update", "cancel"):
            with pytest.raises(MCPError) as told:
                await about(old.session, f"tasks/{method}", taskId="0-0")
            assert told.value.error.code == METHOD_NOT_FOUND


@pytest.mark.usefixtures("soon")
async def test_a_task_survives_its_connection(fresh: ServedGateway) -> None:
    play(fresh.local, latency_s=0.5)
    async with Client(f"{fresh.url}/mcp", extensions=[TakesTasks()]) as client:
        created = await client.session.call_tool("call_tool", COIN, allow_claimed=True)
        id_ = (created.model_extra or {})["taskId"]
    async with Client(f"{fresh.url}/mcp", extensions=[TakesTasks()]) as client:
        ended = [await polled(client.session, id_), await polled(client.session, id_)]
    assert ended[0] == ended[1]
    assert ended[0]["result"]["isError"] is False
    assert json.loads(ended[0]["result"]["content"][0]["text"])["tool"] == "get_coin"


@pytest.mark.usefixtures("soon")
async def test_a_tool_that_fails_late_is_a_completed_task(fresh: ServedGateway) -> None:
    play(fresh.local, latency_s=0.2, failure_rate=1.0)
    async with Client(f"{fresh.url}/mcp", extensions=[TakesTasks()]) as client:
        called = await client.call_tool("call_tool", COIN)
    assert called.is_error
    assert "upstream_error" in str(called.content)


@pytest.mark.usefixtures("soon")
async def test_a_cancelled_task_cancels_its_call(fresh: ServedGateway) -> None:
    play(fresh.local, hang_rate=1.0)
    async with Client(f"{fresh.url}/mcp", extensions=[TakesTasks()]) as client:
        created = await client.session.call_tool("call_tool", COIN, allow_claimed=True)
        id_ = (created.model_extra or {})["taskId"]
        await under_way(fresh.local, 1)
        ignored = {"key": {"action": "accept"}}
        assert await about(client.session, "tasks/update", taskId=id_, inputResponses=ignored) == {}
        assert (await about(client.session, "tasks/get", taskId=id_))["status"] == "working"
        assert await about(client.session, "tasks/cancel", taskId=id_) == {}
        await under_way(fresh.local, 0)
        for _ in range(2):
            task = await about(client.session, "tasks/get", taskId=id_)
            assert task["status"] == "cancelled"
            assert not task.keys() & {"result", "error"}
            assert await about(client.session, "tasks/cancel", taskId=id_) == {}
    play(fresh.local, latency_s=0.3)
    done = await begun(fresh.url, "y")
    await until(lambda: not fresh.local.gateway.answers.under_way)
    assert (await sent(fresh.url, "tasks/cancel", taskId=done["taskId"]))[0] == 200
    assert (await sent(fresh.url, "tasks/get", taskId=done["taskId"]))[1]["result"]["status"] == (
        "completed"
    )


async def test_a_client_that_goes_before_there_is_a_task_ends_its_call(
    fresh: ServedGateway,
) -> None:
    play(fresh.local, hang_rate=1.0)
    calling = asyncio.create_task(begun(fresh.url, "x"))
    await under_way(fresh.local, 1)
    calling.cancel()
    await under_way(fresh.local, 0)


@pytest.mark.usefixtures("soon")
async def test_requests_about_tasks_are_checked(fresh: ServedGateway) -> None:
    play(fresh.local, hang_rate=1.0)
    id_ = (await begun(fresh.url, "x"))["taskId"]
    url = fresh.url
    for wrong in (7, None, [id_]):
        status, answer = await sent(url, "tasks/get", taskId=wrong)
        assert status == 400
        assert answer["error"]["code"] in (INVALID_PARAMS, HEADER_MISMATCH)
    for responses in (None, "x", 7):
        status, answer = await sent(url, "tasks/update", taskId=id_, inputResponses=responses)
        assert (status, answer["error"]["code"]) == (400, INVALID_PARAMS)
        assert "inputResponses" in answer["error"]["message"]
    status, answer = await sent(url, "tasks/get", {"Mcp-Name": "other"}, taskId=id_)
    assert (status, answer["error"]["code"]) == (400, HEADER_MISMATCH)
    for method in ("tasks/list", "tasks/result", "tasks/"):
        status, answer = await sent(url, method, taskId=id_)
        assert (status, answer["error"]["code"]) == (404, METHOD_NOT_FOUND)
    guesses = (id_[:-1], id_ + "0", id_.replace("0-", "0--"), f"1{id_}", f"{'0' * 16}.{id_}", "")
    texts = {unknown(await sent(url, "tasks/get", taskId=one)) for one in guesses}
    assert len(texts) == 1
    assert (await sent(url, "tasks/get", taskId=id_))[1]["result"]["status"] == "working"


@pytest.mark.usefixtures("soon")
async def test_another_client_can_neither_read_nor_cancel_it(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with open_keyed_gateway(catalog, tmp_path, {"one": {}, "two": {}}) as (served, heads):
        play(served.local, hang_rate=1.0)
        id_ = (await begun(served.url, "x", heads["one"]))["taskId"]
        told = set()
        for method in ("get", "cancel", "update"):
            params = {"taskId": id_, "inputResponses": {}}
            told.add(unknown(await sent(served.url, f"tasks/{method}", heads["two"], **params)))
            params["taskId"] = f"0-{'0' * 32}"
            told.add(unknown(await sent(served.url, f"tasks/{method}", heads["one"], **params)))
            status, _ = await sent(served.url, f"tasks/{method}", **params)
            assert status == 401
        assert len(told) == 1, "what is said tells nothing"
        _, answer = await sent(served.url, "tasks/get", heads["one"], taskId=id_)
        assert answer["result"]["status"] == "working"
        named = {**heads["two"], "X-Finport-Client": "one"}
        assert unknown(await sent(served.url, "tasks/get", named, taskId=id_)) in told


@pytest.mark.usefixtures("soon")
async def test_a_task_counts_as_a_call_under_way(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_ = open_keyed_gateway(catalog, tmp_path, {"one": {"at_once": 1}})
    async with opened_ as (served, heads):
        play(served.local, hang_rate=1.0)
        id_ = (await begun(served.url, "x", heads["one"]))["taskId"]
        call = partial(sent, served.url, "tools/call", heads["one"], name="call_tool")
        _, answer = await call(arguments=COIN)
        assert "rate_limited" in str(answer["result"]["content"])
        _, answer = await sent(served.url, "tasks/get", heads["one"], taskId=id_)
        assert answer["result"]["status"] == "working", "to poll is no call"
        await sent(served.url, "tasks/cancel", heads["one"], taskId=id_)
        play(served.local)
        monkeypatch.setattr(tasks, "TASK_S", PATIENCE_S)
        _, answer = await call(arguments=COIN)
        assert answer["result"]["isError"] is False


@pytest.mark.usefixtures("soon")
async def test_an_expired_task_is_unknown(
    catalog: Catalog, tmp_path: Path, later: Callable[[float], None]
) -> None:
    async with open_served_gateway(catalog, tmp_path, deadline_s=200.0) as served:
        play(served.local, latency_s=0.3)
        task = await begun(served.url, "x")
        id_ = task["taskId"]
        assert task["ttlMs"] == 800_000
        await until(lambda: not served.local.gateway.answers.under_way)
        later(799.0)
        _, answer = await sent(served.url, "tasks/get", taskId=id_)
        assert answer["result"]["status"] == "completed"
        later(2.0)
        assert "expired" in unknown(await sent(served.url, "tasks/get", taskId=id_))
        unknown(await sent(served.url, "tasks/cancel", taskId=id_))


@pytest.mark.usefixtures("soon")
async def test_a_call_without_room_for_a_task_is_answered_on_its_connection(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST", 6)
    clients: dict[str, dict[str, Any]] = {"one": {}, "two": {}}
    async with open_keyed_gateway(catalog, tmp_path, clients) as (served, heads):
        play(served.local, latency_s=1.0)
        mine = [await begun(served.url, f"x{n}", heads["one"]) for n in range(3)]
        coin = {"name": "call_tool", "arguments": COIN}
        _, answer = await sent(served.url, "tools/call", heads["one"], **coin)
        assert answer["result"]["resultType"] == "complete", "half of all is one client's most"
        assert answer["result"]["isError"] is False
        await begun(served.url, "y", heads["two"])
        for task in mine:
            _, answer = await sent(served.url, "tasks/get", heads["one"], taskId=task["taskId"])
            assert answer["result"]["status"] == "completed", "a task that is kept is kept"


@pytest.mark.usefixtures("soon")
async def test_the_bytes_of_results_are_bounded(
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    later: Callable[[float], None],
) -> None:
    monkeypatch.setattr(tasks, "MOST_BYTES", 200)
    async with open_served_gateway(catalog, tmp_path) as served:
        play(served.local, latency_s=0.3)
        async with Client(f"{served.url}/mcp", extensions=[TakesTasks()]) as client:
            failed = await polled(client.session, (await begun(served.url, "x"))["taskId"])
        assert failed["status"] == "failed"
        assert "result" not in failed
        assert failed["error"]["code"] == REFUSED
        assert failed["error"]["data"]["code"] == "overloaded"
        assert failed["statusMessage"] == failed["error"]["message"]
        coin = {"name": "get_coin", "arguments": {"uuid": "z"}}
        _, answer = await sent(served.url, "tools/call", name="call_tool", arguments=coin)
        assert answer["result"]["isError"] is False, "no more tasks begin"
        later(1_000.0)
        await begun(served.url, "y")


async def test_many_tasks_cost_little(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TASK_S", 0.0)
    monkeypatch.setattr(tasks, "MOST", 2_000)
    limits = {"max_pending_calls": 20_000, "max_queue_per_host": 20_000}
    async with open_served_gateway(catalog, tmp_path, **limits) as served:
        play(served.local, hang_rate=1.0)
        held = served.client
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seen: set[str] = set()

        async def call(number: int) -> None:
            coin = {"name": "get_coin", "arguments": {"uuid": f"u{number}"}}
            params = {"name": "call_tool", "arguments": coin, "_meta": TASKS_META}
            headers = {
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": "tools/call",
                "Mcp-Name": "call_tool",
                "X-Finport-Client": f"c{number % 2}",
                "Accept": BOTH,
            }
            url = f"{served.url}/mcp"
            async with held.post(url, json=request("tools/call", params), headers=headers) as got:
                seen.add((await got.json())["result"]["taskId"])

        async def calls(first: int) -> None:
            for number in range(first, tasks.MOST, 50):
                await call(number)

        async with asyncio.timeout(2 * PATIENCE_S):
            await asyncio.gather(*map(calls, range(50)))
            assert len(seen) == tasks.MOST
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < tasks.MOST * 40, f"{grown} KiB"
            one_more = asyncio.create_task(call(tasks.MOST))
            done, _ = await asyncio.wait({one_more}, timeout=1.0)
            assert not done, "it waits for its answer"
            one_more.cancel()
            await asyncio.wait({one_more})


@pytest.mark.usefixtures("soon")
async def test_a_drain_ends_tasks_and_says_so(local: LocalGateway) -> None:
    play(local, hang_rate=1.0)
    stop, gone = asyncio.Event(), asyncio.Event()
    urls: asyncio.Queue[str] = asyncio.Queue()

    async def serve() -> None:
        async with http.serve(local.gateway) as url:
            urls.put_nowait(url)
            await stop.wait()
        gone.set()

    serving = asyncio.create_task(serve())
    url = await urls.get()
    id_ = (await begun(url, "x"))["taskId"]
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
    params = {"notifications": {"taskIds": [id_, "0-1"]}, "_meta": TASKS_META}
    asked = request("subscriptions/listen", params, "s")
    told = []
    async with (
        asyncio.timeout(PATIENCE_S),
        aiohttp.ClientSession() as client,
        client.post(f"{url}/mcp", json=asked, headers={**headers, "Accept": BOTH}) as got,
    ):
        assert got.content_type == "text/event-stream"
        async for line in got.content:
            if line.startswith(b"data: "):
                told.append(json.loads(line[6:]))
                stop.set()
        await gone.wait()
    await serving
    acknowledged, ended, closed = told
    assert acknowledged["params"]["notifications"] == {"taskIds": [id_]}
    assert ended["method"] == "notifications/tasks"
    assert ended["params"]["taskId"] == id_
    assert ended["params"]["status"] == "completed"
    assert ended["params"]["result"]["isError"] is True
    (content,) = ended["params"]["result"]["content"]
    assert json.loads(content["text"])["error"]["code"] == "overloaded"
    assert closed["id"] == "s"
    assert not local.gateway.answers.under_way


async def test_a_signal_ends_a_server_whose_tasks_hang(tmp_path: Path) -> None:
    options = ("--simulated-hang-rate", "1")
    async with server(tmp_path, *options) as running:
        await begun(running.url, "x")
        running.tell(signal.SIGTERM)
        assert (await running.ended())[0] == 0, "nobody waits for it"


async def test_any_worker_answers_for_the_one_that_holds_the_task(tmp_path: Path) -> None:
    options = ("--workers", "2", "--simulated-latency-s", "6")
    async with server(tmp_path, *options) as running:
        url, held = running.url, dict[str, list[str]]({"0": [], "1": []})
        async with asyncio.timeout(PATIENCE_S):
            while min(map(len, held.values())) < 2:  # which worker accepts is chance
                made = (begun(url, f"{len(held['0'])}-{n}") for n in range(8))
                for task in await asyncio.gather(*made):
                    held[task["taskId"][0]].append(task["taskId"])
        mine = [*held["0"][:2], *held["1"][:2]]
        for _ in range(6):
            asked = await asyncio.gather(*(sent(url, "tasks/get", taskId=one) for one in mine))
            assert {answer["result"]["status"] for _, answer in asked} <= {"working", "completed"}
        await asyncio.gather(*(sent(url, "tasks/cancel", taskId=one) for one in mine[1:3]))
        async with asyncio.timeout(PATIENCE_S):
            while True:
                asked = await asyncio.gather(*(sent(url, "tasks/get", taskId=one) for one in mine))
                states = [answer["result"]["status"] for _, answer in asked]
                if "working" not in states:
                    break
                await asyncio.sleep(0.1)
        assert states[0] == states[3] == "completed"
        for _ in range(6):
            lost = f"{mine[0][0]}-{'0' * 32}"
            assert "lost" in unknown(await sent(url, "tasks/get", taskId=lost))
            unknown(await sent(url, "tasks/get", taskId=f"7-{'0' * 32}"))
            other = {"X-Finport-Client": "other"}
            unknown(await sent(url, "tasks/get", other, taskId=mine[0]))


@needs_redis
@pytest.mark.usefixtures("soon")
async def test_another_gateway_answers_for_the_one_that_holds_the_task(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with (
        redis_server(tmp_path / "redis") as redis,
        open_sharing_gateways(catalog, tmp_path, redis.url, 2) as (simulator, (one, two)),
        http.serve(one) as here,
    ):
        object.__setattr__(simulator, "faults", Faults(hang_rate=1.0))
        async with AsyncExitStack() as there:
            url = await there.enter_async_context(http.serve(two))
            id_ = (await begun(url, "x"))["taskId"]
            assert re.fullmatch(r"[0-9a-f]{16}\.0-[0-9a-f]{32}", id_)
            _, answer = await sent(here, "tasks/get", taskId=id_)
            assert answer["result"]["status"] == "working"
            unknown(await sent(here, "tasks/get", {"X-Finport-Client": "other"}, taskId=id_))
            await sent(here, "tasks/cancel", taskId=id_)
            _, answer = await sent(url, "tasks/get", taskId=id_)
            assert answer["result"]["status"] == "cancelled"
        assert "lost" in unknown(await sent(here, "tasks/get", taskId=id_))


@pytest.mark.usefixtures("soon")
async def test_tasks_over_standard_input(local: LocalGateway) -> None:
    play(local, latency_s=0.3)
    async with opened(local) as pipe:
        pipe.send(
            request("tools/call", {"name": "call_tool", "arguments": COIN, "_meta": TASKS_META}, 1)
        )
        task = (await pipe.read())["result"]
        assert (task["resultType"], task["status"]) == ("task", "working")
        asked = {"taskId": task["taskId"], "_meta": TASKS_META}
        async with asyncio.timeout(PATIENCE_S):
            while task["status"] == "working":
                pipe.send(request("tasks/get", asked, 2))
                task = (await pipe.read())["result"]
                await asyncio.sleep(0.02)
        assert task["result"]["isError"] is False
        play(local, hang_rate=1.0)
        other = {"name": "get_coin", "arguments": {"uuid": "y"}}
        params = {"name": "call_tool", "arguments": other, "_meta": TASKS_META}
        pipe.send(request("tools/call", params, 3))
        assert (await pipe.read())["result"]["status"] == "working"
    assert not local.gateway.answers.under_way, "the end of the input ends it"


@pytest.mark.usefixtures("soon")
async def test_an_array_holds_no_way_around_the_headers(fresh: ServedGateway) -> None:
    play(fresh.local, latency_s=0.2)
    params = {"name": "call_tool", "arguments": COIN, "_meta": TASKS_META}
    status, answers = await post(fresh, [request("tools/call", params)])
    assert status == 200
    assert answers[0]["error"]["code"] == INVALID_REQUEST
    assert "by itself" in answers[0]["error"]["message"]
