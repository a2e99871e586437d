"""What the Model Context Protocol's own tools say: its conformance suite and its Inspector.

Both are npm packages (`npm ci --prefix tests/node`) that want Node 22 or newer: the one that
TEST_NODE names, or that on the PATH.
"""

import asyncio
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateways import ServedGateway
from tests.support.installed import NODE, PACKAGES, node_is_missing

pytestmark = pytest.mark.anyio


PASSED = {
    *("server-initialize", "ping", "tools-list", "dns-rebinding-protection"),
    *("server-sse-polling", "server-sse-multiple-streams"),
}

FAILED = re.compile(
    "no method is named '(logging/setLevel|completion/complete|prompts/|resources/)"
    "|Unknown tool: test_|Tool 'json_schema_2020_12_tool' not found"
)
"""What the suite is told in scenarios that can't pass: of what a server may offer, and this one
does not say it does, and of sample tools that the suite expects. Nothing else is wrong in them.
"""


def command(package: str, name: str) -> list[str]:
    """What runs a command of a package; skips where it can't."""
    if not (PACKAGES / package).is_dir():
        pytest.skip(f"{package} is not installed: npm ci --prefix tests/node")
    if reason := node_is_missing():
        pytest.skip(reason)
    described = json.loads((PACKAGES / package / "package.json").read_text())
    return [str(NODE), str(PACKAGES / package / described["bin"][name])]


@dataclass
class Ended:
    code: int | None
    output: str
    errors: str


async def run(words: list[str], home: Path) -> Ended:
    process = await asyncio.create_subprocess_exec(
        *words,
        env={**os.environ, "HOME": str(home), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), 120)
    return Ended(process.returncode, output.decode(), errors.decode())


def outcomes(folder: Path) -> dict[str, str]:
    """By scenario what failed in it first, or nothing."""
    found = {}
    for path in folder.glob("server-*/checks.json"):
        scenario = re.sub(r"^server-(.+)-\d{4}-\d\d-\d\dT.*$", r"\1", path.parent.name)
        checks = json.loads(path.read_text())
        assert checks, scenario
        failed = [c["errorMessage"] for c in checks if c["status"] not in ("SUCCESS", "INFO")]
        found[scenario] = failed[0] if failed else ""
    return found


async def test_every_server_scenario_that_can_pass_does(
    served: ServedGateway, tmp_path: Path
) -> None:
    suite = command("conformance", "conformance")
    whole = [*suite, "server", "--suite", "all", "--url", f"{served.url}/mcp", "-o", str(tmp_path)]
    ended = await run(whole, tmp_path)
    found = outcomes(tmp_path)
    assert {name for name, failure in found.items() if not failure} == PASSED, ended.output
    for name in found.keys() - PASSED:
        assert FAILED.search(found[name]), name


async def test_a_list_of_all_tools_conforms_as_well(served: ServedGateway, tmp_path: Path) -> None:
    suite = command("conformance", "conformance")
    url = f"{served.url}/mcp?tools=all"
    scenario = ["server", "--scenario", "tools-list", "--url", url, "-o", str(tmp_path)]
    ended = await run([*suite, *scenario], tmp_path)
    assert (ended.code, outcomes(tmp_path)) == (0, {"tools-list": ""}), ended.output


async def inspect(
    served: ServedGateway, home: Path, query: str, *words: str
) -> tuple[int | None, Any, str]:
    """How the Inspector ends, what it shows and what it complains of."""
    inspector = command("inspector", "mcp-inspector")
    url = f"{served.url}/mcp{query}"
    ended = await run([*inspector, "--cli", url, "--transport", "http", *words], home)
    return ended.code, json.loads(ended.output) if ended.output else None, ended.errors


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_lists_and_calls(
    served: ServedGateway, tmp_path: Path, era: str
) -> None:
    listing = ("--protocol-era", era, "--method", "tools/list", "--strict")
    code, shown, complaints = await inspect(served, tmp_path, "", *listing)
    assert (code, complaints) == (0, "")
    names = [tool["name"] for tool in shown["tools"]]
    assert names == ["search_tools", "describe_tool", "call_tool", "read_result"]
    call = ("--protocol-era", era, "--method", "tools/call", "--tool-name")
    order = ("--tool-arg", "name=get_coin", 'arguments={"uuid":"x"}')
    code, shown, complaints = await inspect(served, tmp_path, "", *call, "call_tool", *order)
    assert (code, shown["isError"], complaints) == (0, False, "")
    assert shown["structuredContent"]["data"]["symbol"] == "x"


async def test_the_inspector_finds_every_schema_portable(
    served: ServedGateway, tmp_path: Path
) -> None:
    listing = ("--method", "tools/list", "--strict")
    code, shown, complaints = await inspect(served, tmp_path, "?tools=all", *listing)
    assert (code, complaints) == (0, "")
    assert len(shown["tools"]) > 700
    call = ("--method", "tools/call", "--tool-name", "get_coin")
    code, shown, _ = await inspect(served, tmp_path, "?tools=all", *call, "--tool-arg", "uuid=x")
    assert (code, shown["isError"]) == (0, False)
    code, shown, _ = await inspect(served, tmp_path, "?tools=all", *call, "--tool-arg", "rows=1")
    assert (code, shown["isError"]) == (5, True)
    assert json.loads(shown["content"][0]["text"])["error"]["code"] == "invalid_arguments"
