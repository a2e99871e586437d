"""`finport mcp`: MCP over standard input and output, as a process and in one."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from mcp import Client, StdioServerParameters

from gateway.access.guard import Caller
from gateway.api.mcp import REVISION_KEY
from gateway.api.mcp_tools import OutputSchema, Visitor
from gateway.api.subscriptions import LISTEN, SUBSCRIPTION_KEY
from gateway.cli.mcp import OUTPUT_SCHEMAS
from manifests import Catalog
from tests.support.commands import finport
from tests.support.gateways import LocalGateway, open_local_gateway, play, under_way
from tests.support.mcp_messages import META, request
from tests.support.mcp_stdio import FINPORT_MCP, Pipe, cancel, lines, opened, started
from tests.support.upstreams import upstream
from tests.support.waiting import PATIENCE_S, Held

COIN = {"name": "get_coin", "arguments": {"uuid": "x"}}
PING = request("ping")
LISTING = request("tools/list")


def call(id_: object = 1, **params: object) -> dict[str, Any]:
    return request("tools/call", {"name": "call_tool", "arguments": COIN, **params}, id_)


def decoded(output: bytes) -> dict[object, Any]:
    """Each line is a message of the protocol; by id."""
    messages = [json.loads(line) for line in output.splitlines()]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    return {message.get("id"): message for message in messages}


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_client_starts_it_finds_a_tool_and_calls_it(tmp_path: Path, era: str) -> None:
    options = ["--tools", "source:rapidapi;domain:crypto", "--simulated-latency-s", "1.3"]
    server = StdioServerParameters(
        command=sys.executable,
        args=[*FINPORT_MCP, *(options if era == "auto" else [])],
        env={**os.environ, "FINPORT_CACHE_DIR": str(tmp_path)},
    )
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        assert message
        heard.append(progress)

    with anyio.fail_after(60):
        async with Client(server, mode=era) as client:
            assert client.protocol_version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[era]
            names = [tool.name for tool in (await client.list_tools()).tools]
            if era == "legacy":
                assert names == ["search_tools", "describe_tool", "call_tool", "read_result"]
                called = await client.call_tool("call_tool", COIN)
            else:
                assert "get_coin" in names
                called = await client.call_tool("get_coin", {"uuid": "x"}, progress_callback=hear)
                assert heard[0] == 1.0
            assert called.structured_content is not None
            assert called.structured_content["data"]["symbol"] == "x"


def test_the_end_of_input_ends_it_when_all_is_answered(tmp_path: Path) -> None:
    """The options say how tools are listed. Clients that reserve the name of call_tool call it by
    another.
    """
    options = ["--tools", "execute", "--page-size", "3", "--output-schema", "none"]
    process = started(tmp_path, *options, "--simulated-latency-s", "0.5", "--max-rows", "2")
    hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t"}}
    wanted = {"notifications": {"toolsListChanged": True}, "_meta": META}
    orders = (
        {"name": "get_coin", "parameters": {"uuid": "x"}},
        {"name": "coins_get_analysis", "parameters": {"pair_id": 1}},
    )
    asked = (
        *(call(n, name="execute_tool", arguments=order) for n, order in enumerate(orders)),
        request(LISTEN, wanted, "stream"),
        request("initialize", hello, "hello"),
        LISTING | {"id": "list"},
        PING | {"id": "p"},
    )
    output, log = process.communicate(lines(*asked)[:-1], 60)
    assert (process.returncode, log) == (0, b"")
    answers = decoded(output)
    assert [*answers].index("p") < min(map([*answers].index, (0, 1)))
    assert answers["p"]["result"] == {}
    assert answers["hello"]["result"]["protocolVersion"] == "2024-11-05"
    assert answers["list"]["result"]["nextCursor"] == "3"
    tools = answers["list"]["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["search_tools", "describe_tool", "execute_tool"]
    assert not any("outputSchema" in tool for tool in tools)
    told = [answers[n]["result"] for n in (0, 1)]
    assert all(result.keys() == {"content", "isError"} for result in told)
    coin, table = (json.loads(result["content"][0]["text"]) for result in told)
    assert (coin["data"]["symbol"], len(table["data"])) == ("x", 2)
    assert answers[None]["params"]["_meta"] == {SUBSCRIPTION_KEY: "stream"}
    closed = answers["stream"]["result"]
    assert closed["resultType"] == "complete"
    assert closed["_meta"][SUBSCRIPTION_KEY] == "stream"


def test_only_the_protocol_is_on_standard_output(tmp_path: Path) -> None:
    """What else is printed, be it by a process that it starts, goes to standard error."""
    code = (
        "import subprocess, sys, os\n"
        "from gateway import Gateway\n"
        "from gateway.cli.main import main\n"
        "call = Gateway.call\n"
        "async def loud(*args):\n"
        "    print('printed'); subprocess.run(['echo', 'by a child']); os.write(1, b'written')\n"
        "    assert sys.stdin.read() == '' and subprocess.run(['cat']).returncode == 0\n"
        "    return await call(*args)\n"
        "Gateway.call = loud\n"
        "sys.argv = ['finport', 'mcp', '--upstream', 'simulated']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=lines(call()),
        env={**os.environ, "FINPORT_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert [*decoded(done.stdout)] == [1]
    assert decoded(done.stdout)[1]["result"]["isError"] is False
    for text in (b"printed", b"by a child", b"written"):
        assert text in done.stderr


def test_the_command_line_knows_every_output_schema() -> None:
    assert get_args(OutputSchema) == OUTPUT_SCHEMAS
    usual = Visitor(Caller())
    assert (usual.page_size, usual.output_schema) == (1_000, OUTPUT_SCHEMAS[0])


def test_a_signal_ends_it_at_once(tmp_path: Path) -> None:
    process = started(tmp_path, "--simulated-hang-rate", "1")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines(call(2), PING))
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    output, log = process.communicate()
    assert output == b""
    assert b"Traceback" not in log


def test_a_signal_ends_it_while_nobody_reads_what_it_says(tmp_path: Path) -> None:
    process = started(tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines(*(LISTING | {"id": n} for n in range(500))))
    process.stdin.flush()
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0
    process.communicate()


def test_it_ends_quietly_when_nobody_reads_it(tmp_path: Path) -> None:
    process = started(tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()
    process.stdin.write(lines(*(call(n) for n in range(100))))
    process.stdin.flush()
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    process.stdin.close()
    process.stderr.close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--tools", "domain:stocks"), "no domain is named 'stocks'"),
        (("--tools", "names:get_cion"), "no tool is named 'get_cion'; did you mean"),
        (("--tools", ""), "tools are selected by"),
        (("--page-size", "0"), "page-size"),
        (("--output-schema", "long"), "output-schema"),
        (("--max-rows", "0"), "max-rows"),
        (("--mode", "offline"), "needs a snapshot"),
    ],
)
def test_wrong_options_are_usage_errors(options: tuple[str, ...], text: str) -> None:
    done = finport("mcp", "--upstream", "simulated", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr


@pytest.fixture
async def pipe(local: LocalGateway) -> AsyncIterator[Pipe]:
    async with opened(local) as it:
        yield it


@pytest.mark.anyio
async def test_a_notification_ends_the_work_upstream(pipe: Pipe) -> None:
    play(pipe.local, hang_rate=1.0)
    for id_ in (7, "seven"):
        pipe.send(call(id_))
        await under_way(pipe.local, 1)
        pipe.send(cancel(f"{id_}!"), cancel(id_))
        await under_way(pipe.local, 0)
    play(pipe.local)
    pipe.send(call(8), cancel(8), PING | {"id": 9})
    assert (await pipe.read())["id"] == 9  # the call ended before it had begun
    pipe.send(call(8))
    answer = await pipe.read()
    assert (answer["id"], answer["result"]["isError"]) == (8, False)


@pytest.mark.anyio
async def test_requests_are_answered_side_by_side(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.api.mcp.PROGRESS_S", 0.05)
    held = Held()
    async with (
        upstream(held.handle) as url,
        open_local_gateway(catalog, tmp_path, rapidapi_base_url=url) as local,
        opened(local) as pipe,
    ):
        pipe.send(
            call("slow", _meta={"progressToken": 0}),
            call("slow"),  # an id that is in use
            request("server/discover", {"_meta": META}, "new"),
            request("nothing", id_="none"),
        )
        told, answers = list[dict[str, Any]](), dict[object, Any]()
        while len(told) < 3 or len(answers) < 3:
            message = await pipe.read()
            if "method" in message:
                told.append(message)
            else:
                answers[message["id"]] = message
        assert answers["slow"]["error"]["code"] == -32600
        assert answers["new"]["result"]["resultType"] == "complete"
        assert answers["none"]["error"]["code"] == -32601
        assert {m["method"] for m in told} == {"notifications/progress"}
        assert {m["params"]["progressToken"] for m in told} == {0}
        held.released.set()
        last = await pipe.read()
        while "method" in last:
            last = await pipe.read()
        assert last["id"] == "slow"
        assert last["result"]["structuredContent"]["ok"] is True


@pytest.mark.anyio
async def test_what_cannot_be_read_is_told_and_the_rest_answered(pipe: Pipe) -> None:
    ping = {"jsonrpc": "2.0", "method": "ping"}
    wrong: Iterable[tuple[object, object, int]] = (
        (b"{\n", None, -32700),
        (b"\xff\n", None, -32700),
        (17, None, -32600),
        ([], None, -32600),
        ([ping | {"id": 1}], None, -32600),
        (ping | {"id": None}, None, -32600),
        (ping | {"id": 2, "params": [1]}, 2, -32602),
        (ping | {"id": 3, "params": {"_meta": {REVISION_KEY: "2026-07-28"}}}, 3, -32602),
        (ping | {"id": 4, "params": {"_meta": META | {REVISION_KEY: "2030-01-01"}}}, 4, -32022),
        (ping | {"id": 5, "params": {"_meta": META}}, 5, -32601),
        (call(6, name="get_cion"), 6, -32602),
    )
    for message, id_, code in wrong:
        pipe.send(message)
        answer = await pipe.read()
        assert (answer["id"], answer["error"]["code"]) == (id_, code), message
    pipe.send(b"\n \n\r\n", ping, {"jsonrpc": "2.0", "id": 1, "result": {}}, ping | {"id": "end"})
    assert await pipe.read() == {"jsonrpc": "2.0", "id": "end", "result": {}}


@pytest.mark.anyio
async def test_a_line_too_long_is_one_error_whatever_stands_in_it(pipe: Pipe) -> None:
    tail = b" " * (2**20 - 10) + lines(PING | {"id": "hidden"})
    for text in (tail + lines(PING), b'"' + b"x" * 2**22 + b'"\n' + lines(PING)):
        await pipe.send_all(text)
        first, second = await pipe.read(), await pipe.read()
        assert (first["id"], first["error"]["code"]) == (None, -32600)
        assert "over 1048576 bytes" in first["error"]["message"]
        assert second == {"jsonrpc": "2.0", "id": 1, "result": {}}
    padded = lines(PING)[:-1] + b" " * (2**20 - len(lines(PING))) + b"\n"
    await pipe.send_all(padded)
    assert (await pipe.read())["result"] == {}


@pytest.mark.anyio
async def test_what_hangs_at_the_end_of_input_ends_with_the_drain_time(local: LocalGateway) -> None:
    local.gateway.settings.drain_s = 0.3
    play(local, hang_rate=1.0)
    async with opened(local) as pipe:
        pipe.send(call(1), call(2, arguments={"name": "get_coin", "arguments": {"uuid": "y"}}))
        await under_way(local, 2)
    await under_way(local, 0)


@pytest.mark.anyio
async def test_many_requests_at_once_are_all_answered(pipe: Pipe) -> None:
    messages = [
        call(n, arguments={"name": "get_coin", "arguments": {"uuid": f"c{n % 50}"}})
        for n in range(2_000)
    ]
    sending = asyncio.create_task(pipe.send_all(lines(*messages)))
    answers = await pipe.read_some(2_000)
    await sending
    assert {*answers} == {*range(2_000)}
    for n, answer in answers.items():
        assert isinstance(n, int)
        assert answer["result"]["structuredContent"]["data"]["symbol"] == f"c{n % 50}"
