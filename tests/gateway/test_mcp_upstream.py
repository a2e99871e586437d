"""MCP servers as upstreams: one made with the official SDK and an official one, behind a gateway."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import Client, StdioServerParameters

from finport import Gateway, SettingsError
from gateway import CallContext
from gateway.server import http
from tests.support.checkout import ROOT
from tests.support.commands import FINPORT, finbench, finport
from tests.support.mcp_servers import (
    Desk,
    command_of,
    desk_over_http,
    entry,
    new_desk,
    raw_server,
    settings_of,
    texts,
)
from tests.support.servers import asked, server
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

LOCK = ROOT / "tests" / "clients" / "servers.lock"


@pytest.fixture(scope="module")
def time_server(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program of an official server, in an environment of its own."""
    given = os.environ.get("TEST_CLIENTS")
    if given and (Path(given) / "servers" / "servers.lock").is_file():
        folder = Path(given) / "servers"
    else:
        folder = tmp_path_factory.mktemp("servers") / "env"
        uv = [sys.executable, "-m", "uv"]
        install = ["pip", "install", "--quiet", "--require-hashes", "-r", str(LOCK)]
        for words in (
            [*uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
            [*uv, *install, "--python", str(folder / "bin" / "python")],
        ):
            done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode:
                pytest.skip(f"mcp-server-time can't be installed: {done.stderr[-200:]}")
    return [str(folder / "bin" / "mcp-server-time"), "--local-timezone", "UTC"]


def told(result: Any) -> Any:
    """What the official client got of a server."""
    assert not result.is_error, result
    if result.structured_content is not None:
        return result.structured_content
    (part,) = result.content
    return orjson.loads(part.text)


PRICE = ("price", {"ticker": "ACME"})
CONVERT = (
    "convert_time",
    {"source_timezone": "UTC", "time": "16:30", "target_timezone": "Asia/Tokyo"},
)


async def recorded(folder: Path, providers: dict[str, Any], name: str) -> list[Any]:
    """What both servers answer through the gateway's own MCP, recorded as a snapshot."""
    settings = settings_of(
        folder, providers=providers, mode="record", snapshot=folder / f"{name}.snapshot"
    )
    async with Gateway.open(settings) as gateway, http.serve(gateway) as url:
        async with Client(f"{url}/mcp?tools=all") as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"d_price", "d_order", "convert_time", "get_current_time"} <= {*listed}
            assert listed["d_price"].description is not None
            assert listed["d_price"].description.startswith("The price of a ticker on the desk.")
            return [
                told(await client.call_tool(f"{prefix}{tool}", arguments))["data"]
                for prefix, (tool, arguments) in (("d_", PRICE), ("", CONVERT))
            ]


async def test_two_servers_answer_as_directly_and_replay_when_they_are_gone(
    tmp_path: Path, time_server: list[str]
) -> None:
    async with desk_over_http(tmp_path) as desk:
        providers: dict[str, Any] = {
            "desk": {"mcp": desk.url, "prefix": "d_"},
            "time": {"command": time_server, "intent": "informational"},
        }
        async with Client(desk.url) as client:
            direct = [told(await client.call_tool(*PRICE))]
        program = StdioServerParameters(command=time_server[0], args=time_server[1:])
        async with Client(program) as client:
            direct.append(told(await client.call_tool(*CONVERT)))
        assert await recorded(tmp_path, providers, "monday") == direct
        (desk.folder / "price").write_text('"2.5 EUR"')
        later = await recorded(tmp_path, providers, "tuesday")
        assert later[0] == {**direct[0], "price": "2.5 EUR"}
    for day, price in (("monday", direct[0]), ("tuesday", later[0])):
        settings = settings_of(
            tmp_path, providers=providers, mode="offline", snapshot=tmp_path / f"{day}.snapshot"
        )
        async with Gateway.open(settings) as gateway:
            answers = [
                await gateway.call(f"d_{PRICE[0]}", PRICE[1]),
                await gateway.call(*CONVERT),
            ]
            assert [answer.source for answer in answers] == ["replayed", "replayed"]
            assert [answer.value for answer in answers] == [price, direct[1]]
    days = [str(tmp_path / f"{day}.snapshot") for day in ("monday", "tuesday")]
    report = finbench("drift", "diff", *days, "--json")
    assert "d_price" in report.stdout, report.stdout + report.stderr
