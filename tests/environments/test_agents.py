"""An agent of a framework in a run of the bench, as docs/environments.md shows it.

TEST_ENVIRONMENTS names a folder of Python environments with the frameworks, which `.ci/run` makes.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkout import ROOT
from tests.support.installed import ENVIRONMENTS, framework_is_missing, metadata
from tests.support.played_model import playing, says
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

WHY = framework_is_missing("agents")
PLACE = Path(ENVIRONMENTS or ".").resolve() / "agents"


async def turn(body: dict[str, Any]) -> dict[str, Any]:
    """A model that makes two calls at once, then answers."""
    if body["messages"][-1]["role"] == "tool":
        return says("65,000 USD")
    names = [tool["function"]["name"] for tool in body["tools"]]
    assert "get_coin" in names
    return says(None, ("get_coin", {"uuid": "Qwsogvtv82FCd"}), ("rates", {"base": "EUR"}))


@pytest.mark.skipif(WHY is not None, reason=WHY or "")
async def test_an_agent_of_pydantic_ai_plays_a_run(tmp_path: Path) -> None:
    async with playing() as model:
        model.plan = turn
        program = "from bench.cli.main import main; main()"
        process = await asyncio.create_subprocess_exec(
            *(PLACE / "bin" / "python", "-c", program, "run", "starter"),
            *("--agent", "python:analyst:analyst", "--upstream", "simulated"),
            *("--retrieval", "all", "--episodes", "3", "--out", tmp_path / "run", "--json"),
            cwd=ROOT / "docs" / "examples",
            env={
                "PYTHONPATH": f"{ROOT}{os.pathsep}{metadata(tmp_path)}",
                "HOME": str(tmp_path),
                "FINPORT_CACHE_DIR": str(tmp_path / "cache"),
                "MODEL": "played",
                "OPENAI_BASE_URL": model.url,
                "OPENAI_API_KEY": "none",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(4 * PATIENCE_S):
            said, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert json.loads(said)["episodes"] == 3
    lines = (tmp_path / "run" / "episodes.jsonl").read_bytes().splitlines()
    for record in map(json.loads, lines):
        assert (record["execution_result"], record["ending"]) == ("65,000 USD", "answer")
        calls = [(call["step"], call["tool_name"], call["ok"]) for call in record["tool_calls"]]
        assert calls == [(1, "get_coin", True), (1, "rates", True)]
