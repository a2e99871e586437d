"""A budget of function calls: no feature makes the path of those longer that do not use it."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from pathlib import Path

import aiohttp
import pytest

from bench.agents.registry import AgentSettings
from bench.runs.run import RunPlan, run
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.task import LabelledCall, Task
from finport import CallContext, Gateway, GatewaySettings
from gateway.server import http
from gateway.trace import JsonLines
from tests.support.function_calls import calls_of, counted

pytestmark = pytest.mark.anyio

TOOL, ARGUMENTS = "get_coin", {"uuid": "Qwsogvtv82FCd"}

BUDGET = {
    "a cached call": 6,
    "a cached call that is recorded": 8,
    "a live call": 163,
    "a cached call over REST": 24,
    "a cached call over MCP": 32,
    "a scripted episode of three cached calls": 104,
}
"""Calls of the project's own functions on the event loop's thread. A live call has its first
request to the host in it, but not the work of the simulated upstream.
"""


def check(what: str, calls: Counter[str]) -> None:
    most, total = BUDGET[what], calls.total()
    listed = "\n".join(f"{n:5d} {name}" for name, n in calls.most_common())
    text = f"{what} calls {total} functions, {total - most} over its budget of {most}:\n{listed}"
    assert total <= most, text
    assert total > most * 0.9, f"{what} calls {total} functions: its budget can be lowered"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    settings = GatewaySettings(upstream="simulated", cache_dir=tmp_path / "cache")
    async with Gateway.open(settings) as gateway:
        yield gateway


async def test_a_cached_call(gateway: Gateway) -> None:
    check("a cached call", await calls_of(lambda: gateway.call(TOOL, ARGUMENTS)))


async def test_a_cached_call_that_allows_a_stand_in(gateway: Gateway) -> None:
    context = CallContext(stand_in="allow")
    call = partial(gateway.call, TOOL, ARGUMENTS, context)
    check("a cached call", await calls_of(call))


async def test_a_cached_call_that_is_recorded(tmp_path: Path) -> None:
    settings = GatewaySettings(upstream="simulated", cache_dir=tmp_path / "cache")
    async with (
        JsonLines.open(tmp_path / "calls.jsonl") as trace,
        Gateway.open(settings, trace=trace) as gateway,
    ):
        calls = await calls_of(lambda: gateway.call(TOOL, ARGUMENTS))
    check("a cached call that is recorded", calls)


async def test_a_live_call(gateway: Gateway) -> None:
    numbers = count(10)

    async def call() -> None:
        result = await gateway.call(TOOL, {"uuid": f"Qwsogvtv82F{next(numbers)}"})
        assert result.source == "simulated"

    check("a live call", await calls_of(call))


@pytest.mark.parametrize("door", ["REST", "MCP"])
async def test_a_cached_call_over_http(gateway: Gateway, door: str) -> None:
    numbers = count()

    async def call() -> None:
        path, body = f"/v1/tools/{TOOL}", dict[str, object](ARGUMENTS)
        if door == "MCP":
            params = {"name": "call_tool", "arguments": {"name": TOOL, "arguments": ARGUMENTS}}
            asked = {"jsonrpc": "2.0", "id": next(numbers), "method": "tools/call"}
            path, body = "/mcp", {**asked, "params": params}
        async with client.post(url + path, json=body) as response:
            assert "simulated" in await response.text()

    async with AsyncExitStack() as parts:
        url = await parts.enter_async_context(http.serve(gateway))
        client = await parts.enter_async_context(aiohttp.ClientSession())
        check(f"a cached call over {door}", await calls_of(call))


async def test_a_scripted_episode(tmp_path: Path) -> None:
    arguments = [{**ARGUMENTS, "uuid": f"Qwsogvtv82F{n}"} for n in "ABC"]
    labelled = tuple(LabelledCall(name=TOOL, arguments=given) for given in arguments)
    tasks = [
        Task(id=f"t{n}", category="crypto", question="What?", tools=labelled, answer="")
        for n in range(200)
    ]
    settings = GatewaySettings(upstream="simulated", cache_dir=tmp_path / "cache")
    flawless = {"no_call": 0.0, "wrong_tool": 0.0, "bad_arguments": 0.0}
    agent = AgentSettings.of("scripted", {"error_rates": flawless})
    totals = []
    for n in (100, 200):
        suite = LabelledTasks("budget", tasks)
        plan = RunPlan(suite, "embedded", n, concurrency=1, agent=agent)
        with counted() as calls:
            await run(plan, tmp_path / f"run{n}", settings, show=False)
        totals.append(calls)
    calls = Counter({name: n // 100 for name, n in (totals[1] - totals[0]).items()})
    for name in [*calls]:
        if "JsonLines._" in name:  # how many records are written together is chance
            del calls[name]
    check("a scripted episode of three cached calls", +calls)
