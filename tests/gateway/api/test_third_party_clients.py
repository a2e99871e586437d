"""What third-party clients see of a gateway with keys.

Each client is a program of its own in tests/clients or tests/node. TEST_CLIENTS names the folder of
their Python environments, which `.ci/run` installs; Node is found as for the conformance suite.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway import Gateway, GatewaySettings
from gateway.server import http
from manifests import Catalog
from tests.support.checkout import ROOT
from tests.support.installed import NODE, PACKAGES, node_is_missing
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

TESTS = ROOT / "tests"
ENVIRONMENTS = os.environ.get("TEST_CLIENTS")

CLIENTS = {
    "fastmcp": "sdk2",
    "langchain": "sdk1",
    "openai_agents": "sdk2",
    "openapi_python_client": "sdk2",
    "pydantic_ai": "sdk2",
    "typescript_sdk": "node",
}
"""Clients, and the environment of each: `sdk1` has MCP's Python SDK before its version 2."""

KEY = "fp_0451"

REASON = "this key is not known, or was revoked"


@dataclass
class Seen:
    """What a client gave its caller, and what it wrote to stderr."""

    listed: list[str]
    called: list[str]
    error: str
    wrong_key: str
    logged: str


@pytest.fixture(scope="module")
async def url(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    settings = GatewaySettings(
        upstream="simulated",
        akshare_workers=1,
        cache_dir=tmp_path_factory.mktemp("third-party") / "cache",
        api_keys=(SecretStr(f"mine={KEY}"),),
    )
    async with Gateway.open(settings, catalog=catalog) as gateway, http.serve(gateway) as url:
        yield url


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    """A client that is installed here."""
    name: str = request.param
    if reason := why_missing(CLIENTS[name]):
        pytest.skip(reason)
    return name


@pytest.fixture(scope="module")
async def seen(client: str, url: str, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    output, errors = await run([*program(client), url, KEY], tmp_path_factory.mktemp(client))
    return Seen(**json.loads(output), logged=errors)


def why_missing(environment: str) -> str | None:
    """Why the clients of an environment can't run here."""
    if environment == "node":
        if not (PACKAGES / "sdk").is_dir():
            return "the TypeScript SDK is not installed: npm ci --prefix tests/node"
        return node_is_missing()
    if ENVIRONMENTS is None:
        return "TEST_CLIENTS names no folder with clients; .ci/run makes one"
    if not (Path(ENVIRONMENTS) / environment / f"{environment}.lock").is_file():
        return f"tests/clients/{environment}.lock could not be installed in {ENVIRONMENTS}"
    return None


def program(client: str) -> list[str]:
    environment = CLIENTS[client]
    if environment == "node":
        return [str(NODE), str(TESTS / "node" / f"with_{client}.mjs")]
    python = Path(str(ENVIRONMENTS)) / environment / "bin" / "python"
    return [str(python), str(TESTS / "clients" / f"with_{client}.py")]


async def run(words: list[str], folder: Path) -> tuple[str, str]:
    """What a program wrote to stdout and stderr. One that does not end is killed."""
    output, errors = folder / "stdout", folder / "stderr"
    own = {"HOME": str(folder), "TMPDIR": str(folder)}  # no proxies, keys or tracing from outside
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *words, env=own, stdout=stdout, stderr=stderr
        )
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * PATIENCE_S):
                    await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    told = output.read_text("utf-8"), errors.read_text("utf-8")
    assert process.returncode == 0, "\n".join((*words, *told))
    return told


async def test_every_tool_that_can_be_called_is_listed_once(seen: Seen, catalog: Catalog) -> None:
    assert len(seen.listed) == len(set(seen.listed))
    assert {tool.name for tool in catalog if not tool.unavailable} <= set(seen.listed)


async def test_a_document_a_table_and_a_call_by_name_reach_the_caller(seen: Seen) -> None:
    document, table, by_name, *others = seen.called
    assert '"symbol":"Qwsogvtv82FCd"' in document
    assert '"股票代码":"000001"' in table
    assert '"symbol":"Qwsogvtv82FCd"' in by_name
    assert all(others)


async def test_what_is_wrong_with_a_call_reaches_the_caller(seen: Seen) -> None:
    assert '"code":"invalid_arguments"' in seen.error
    assert "rows: is no argument of this tool" in seen.error


async def test_why_a_key_is_refused_is_shown(seen: Seen) -> None:
    assert REASON in seen.wrong_key + seen.logged
