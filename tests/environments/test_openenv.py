"""The environment for OpenEnv, by OpenEnv's own commands and clients, over HTTP and WebSockets.

TEST_ENVIRONMENTS names a folder of Python environments with the frameworks, which `.ci/run` makes.
"""

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from gateway import Gateway, GatewaySettings
from gateway.server import http
from tests.support.checkout import ROOT
from tests.support.installed import ENVIRONMENTS, framework_is_missing, metadata
from tests.support.markets import write_market
from tests.support.waiting import PATIENCE_S

PACKAGE = ROOT / "environments" / "finport_openenv"
WHY = framework_is_missing("openenv")
PLACE = Path(ENVIRONMENTS or ".").resolve() / "openenv"
KEY = "fp_0451"

WAIT_S = 4 * PATIENCE_S
"""OpenEnv imports a web interface, which takes seconds of a core in each process."""

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(WHY is not None, reason=WHY or ""),
]


def variables(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a program that has this checkout and the package, installed or not."""
    places = [ROOT, PACKAGE.parent, metadata(folder)]
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("FINPORT_", "OPENENV_"))}
    path = f"{PLACE / 'bin'}{os.pathsep}{kept['PATH']}"
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, places)), "PATH": path, **more}


async def said(folder: Path, *command: str) -> str:
    """What a command prints; it succeeds."""
    process = await asyncio.create_subprocess_exec(
        str(PLACE / "bin" / command[0]),
        *command[1:],
        cwd=folder,
        env=variables(folder),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), WAIT_S)
    assert process.returncode == 0, (output + errors).decode()
    return output.decode()


@asynccontextmanager
async def serving(folder: Path, port: int, **settings: str) -> AsyncIterator[str]:
    """The environment's server; its URL."""
    process = await asyncio.create_subprocess_exec(
        *(str(PLACE / "bin" / "uvicorn"), "server.app:app", "--port", str(port)),
        cwd=PACKAGE,
        env=variables(folder, FINPORT_AKSHARE_WORKERS="1", **settings),
        stdin=PIPE,
        stdout=PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        await answering(url, process)
        yield url
    finally:
        process.terminate()
        await asyncio.wait_for(process.communicate(), PATIENCE_S)


async def answering(url: str, process: Process) -> None:
    """Wait until a server says that it is healthy."""
    async with aiohttp.ClientSession() as client, asyncio.timeout(WAIT_S):
        while True:
            assert process.returncode is None, (await process.communicate())[0].decode()
            try:
                async with client.get(f"{url}/health") as response:
                    assert (await response.json())["status"] == "healthy"
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.2)


@pytest.mark.soak
async def test_the_package_is_valid(tmp_path: Path) -> None:
    validate = ("validate", str(PACKAGE), "--level", "static", "--skip-build")
    assert "Verdict: PASS" in await said(tmp_path, "openenv", *validate)


async def test_episodes_over_websockets(tmp_path: Path, free_tcp_port: int) -> None:
    market = write_market(tmp_path / "market")
    suites = f"generated,investorbench={market}"
    async with serving(tmp_path, free_tcp_port, OPENENV_FINPORT_SUITES=suites) as url:
        assert "Verdict: PASS" in await said(tmp_path, "openenv", "validate", "--url", url)
        program = str(ROOT / "tests" / "environments" / "play_openenv.py")
        seen = json.loads(await said(tmp_path, "python", program, url, "everything"))
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{url}/finport_openenv/splits") as response:
                splits = [one["name"] for one in await response.json()]
            ask = {"split": "investorbench"}
            async with client.post(f"{url}/finport_openenv/num_tasks", json=ask) as response:
                number = (await response.json())["num_tasks"]
    assert splits == ["generated", "investorbench"]
    assert number == 3
    assert len({one["task"] for one in seen["together"]}) == 12
    for one in seen["together"]:
        assert one["offers"], one
        assert one["question"], one
        assert one["first"] == [None, False]
        assert one["step"] == [None, False, 1, False]
        assert all(one["replies"]), one
        assert (one["reward"], one["done"], one["outage"]) == (1.0, True, None), one
        assert one["credit"] in (1.0, None)
    assert len(set(seen["seeded"])) == 1
    wrong = seen["wrong"]
    assert (wrong["reward"], wrong["passed"], wrong["outage"]) == (0.0, False, None)
    assert wrong["credit"] == 1.0
    early, suite, task, index, both = seen["refused"]
    assert "`reset` begins one" in early
    assert "there are: generated, investorbench" in suite
    assert "no task 'no_such_task'" in task
    assert "tasks 0 to 255" in index
    assert both
    mcp = seen["mcp"]
    assert mcp["listed"], mcp
    assert mcp["schemas"], mcp
    assert (mcp["reward"], mcp["credit"]) == (1.0, 1.0), mcp
    market_seen = seen["market"]
    assert market_seen["tools"] == ["market_observe", "market_trade", "market_recall"]
    assert not market_seen["session"]
    assert market_seen["outage"] is None
    assert market_seen["reward"] == market_seen["figures"]["CR"]


@pytest.mark.soak
async def test_a_gateway_that_goes_is_an_outage(tmp_path: Path, free_tcp_port: int) -> None:
    settings = GatewaySettings(
        upstream="simulated",
        akshare_workers=1,
        cache_dir=tmp_path / "cache",
        api_keys=(SecretStr(f"mine={KEY}"),),
    )
    program = str(ROOT / "tests" / "environments" / "play_openenv.py")
    async with Gateway.open(settings) as gateway:
        serve = http.serve(gateway)
        there = await serve.__aenter__()
        own = {"OPENENV_FINPORT_GATEWAY": there, "OPENENV_FINPORT_KEY": KEY}
        async with serving(tmp_path, free_tcp_port, **own) as url:
            process = await asyncio.create_subprocess_exec(
                *(str(PLACE / "bin" / "python"), program, url, "outage"),
                env=variables(tmp_path),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
            )
            assert process.stdout is not None
            line = await asyncio.wait_for(process.stdout.readline(), WAIT_S)
            await serve.__aexit__(None, None, None)
            output, errors = await asyncio.wait_for(process.communicate(b"\n"), WAIT_S)
    assert line == b"played\n", errors.decode()
    assert process.returncode == 0, errors.decode()
    seen: dict[str, Any] = json.loads(output)
    assert seen["before"]["reward"] == 1.0
    after = seen["after"]
    assert (after["reward"], after["done"], after["passed"]) == (None, True, None)
    assert "did not answer" in after["outage"]
    assert after["metadata"] == {"outage": after["outage"]}
