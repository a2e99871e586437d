"""Agents of frameworks, the examples of docs/examples: each calls a tool through a gateway and
gives its answer. TEST_CLIENTS names the folder of their environments, as for other clients.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway import Gateway, GatewaySettings
from gateway.server import http
from manifests import Catalog
from tests.support.checkout import ROOT
from tests.support.played_model import playing, says
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

ENVIRONMENTS = os.environ.get("TEST_CLIENTS")

EXAMPLES = {
    "agent_framework": "sdk2",
    "langgraph": "sdk1",
    "openai_agents": "sdk2",
    "pydantic_ai": "sdk2",
    "semantic_kernel": "sdk1",
    "smolagents": "sdk1",
}
"""The examples, and the environment of each in tests/clients."""

QUESTION = "What does Bitcoin cost?"
COIN = "get_coin"


@pytest.fixture(scope="module")
async def url(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    cache = tmp_path_factory.mktemp("examples") / "cache"
    settings = GatewaySettings(upstream="simulated", akshare_workers=1, cache_dir=cache)
    async with Gateway.open(settings, catalog=catalog) as gateway, http.serve(gateway) as url:
        yield f"{url}/mcp?tools=names:{COIN}"


async def turn(body: dict[str, Any]) -> dict[str, Any]:
    """The model's answer: a call, then what the framework wants as its answer."""
    offered = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
    name = next(name for name in offered if name.endswith(COIN))
    read = "".join(str(m["content"]) for m in body["messages"] if m["role"] in ("tool", "user"))
    assert QUESTION in read
    if "provenance" not in read:
        schemas = offered[name]["parameters"]["properties"]  # smolagents wants every argument
        given = {key: schema["default"] for key, schema in schemas.items() if "default" in schema}
        return says(None, (name, {**given, "uuid": "Qwsogvtv82FCd"}))
    if "final_answer" in offered:
        return says(None, ("final_answer", {"answer": "65,000 USD"}))
    return says("65,000 USD")


@pytest.mark.parametrize("example", EXAMPLES)
async def test_an_agent_of_a_framework_calls_a_tool_and_answers(
    example: str, url: str, tmp_path: Path
) -> None:
    environment = EXAMPLES[example]
    if ENVIRONMENTS is None:
        pytest.skip("TEST_CLIENTS names no folder with clients; .ci/run makes one")
    folder = Path(ENVIRONMENTS) / environment
    if not (folder / f"{environment}.lock").is_file():
        pytest.skip(f"tests/clients/{environment}.lock could not be installed in {folder}")
    program = ROOT / "docs" / "examples" / f"with_{example}.py"
    async with playing() as model:
        model.plan = turn
        process = await asyncio.create_subprocess_exec(
            *(folder / "bin" / "python", program, "played", QUESTION),
            env={
                "HOME": str(tmp_path),
                "TMPDIR": str(tmp_path),
                "GATEWAY_URL": url,
                "OPENAI_BASE_URL": model.url,
                "OPENAI_API_KEY": "none",
                "OPENAI_AGENTS_DISABLE_TRACING": "1",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(2 * PATIENCE_S):
                said, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, f"{errors.decode()}\n{model.broken}"
    assert said.decode().splitlines()[-1] == "65,000 USD"
    assert len(model.requests) == 2, "one call"


def test_an_example_has_at_most_20_lines() -> None:
    examples = [*(ROOT / "docs" / "examples").glob("with_*.py")]
    assert {one.stem.removeprefix("with_") for one in examples} == {*EXAMPLES}
    assert all(len(one.read_text("utf-8").splitlines()) <= 20 for one in examples)
