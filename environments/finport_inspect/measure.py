"""Measures the tasks of Inspect AI with a model that always calls what the oracle calls.

    python measure.py outage [--samples 600]
    python measure.py speed [--samples 512] [--rounds 3]

`outage` kills the gateway twice while samples are played, and retries the samples that have an
error until there are none. Each score must be 1: a 0 would be the gateway's. `speed` plays the
samples all at once, through Finport and through a FastMCP server that only returns the same texts,
in turn.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from finport_inspect.choice import Choice, suite_of
from inspect_ai import Task, eval_async, eval_retry_async, task
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ChatMessage, ModelAPI, ModelOutput, ModelUsage, modelapi
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import mcp_connection, mcp_server_http, mcp_tools
from inspect_ai.util._display import init_display_type

from bench.client import HttpClient, Untraced
from bench.own_gateway import READY_S, own_gateway
from bench.processes import gateway, server
from bench.suites.generated.answer import Answer
from finport import CallContext, Suite
from finport_inspect import TASKS
from manifests import Catalog
from manifests.export import export

FASTMCP = """
import json, sys
from fastmcp import FastMCP
from fastmcp.tools import Tool, ToolResult

told = json.load(open(sys.argv[1]))

class Told(Tool):
    async def run(self, arguments):
        return ToolResult(content=told["answers"][json.dumps([self.name, arguments])])

app = FastMCP("told")
for tool in told["tools"]:
    app.add_tool(Told(**tool))
print(f"fastmcp ready on http://127.0.0.1:{sys.argv[2]}", flush=True)
app.run("http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False, log_level="error")
"""


RETRIES = 5

ANSWERED: list[Callable[[], None]] = []
"""What is called after each right answer."""


@modelapi(name="oracle")
class Oracle(ModelAPI):
    """A model that makes the calls of a task's oracle, and gives the right answer. Its name is the
    number of tasks.
    """

    def __init__(self, model_name: str, *given: Any, **named: Any) -> None:
        super().__init__(model_name, *given, **named)
        suite = suite_of(Choice("generated", limit=int(model_name)))
        self._by_question = {task.question: task for task in suite.tasks}

    def max_connections(self) -> int:
        return 10_000

    async def generate(self, input: list[ChatMessage], *_: object, **__: object) -> ModelOutput:  # noqa: A002
        asked = self._by_question[input[0].text]
        made = sum(message.role == "assistant" for message in input)
        if made < len(asked.tools):
            call = asked.tools[made]
            output = ModelOutput.for_tool_call("oracle", call.name, call.arguments)
        else:
            text = Answer.model_validate_json(asked.answer).text
            output = ModelOutput.from_content("oracle", text)
            for answered in ANSWERED:
                answered()
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def outcomes(log: EvalLog) -> Counter[str]:
    """How many samples have which score, or an error of which kind."""
    found = Counter[str]()
    for sample in read_eval_log(log.location).samples or []:
        scores = sample.scores or {}
        if sample.error is not None:
            found["error"] += 1
        else:
            found[f"score {scores['finport_reward'].value}"] += 1
    return found


async def outage(samples: int) -> None:
    suite = suite_of(Choice("generated", limit=samples))
    own, answers = own_gateway(suite), 0
    at = [samples // 4, samples // 2]
    starts = 1 + len(at)

    def answered() -> None:
        nonlocal answers
        answers += 1
        if at and answers >= at[0] and own.starts == starts - len(at):  # it is there
            at.pop(0)
            os.killpg(own.process_id, signal.SIGKILL)
            print(f"gateway killed after {answers} answers", flush=True)

    ANSWERED.append(answered)
    with tempfile.TemporaryDirectory(prefix="finport-outage-") as name:
        options: dict[str, Any] = {"log_dir": f"{name}/logs", "fail_on_error": False}
        options |= {"max_samples": 64, "log_level": "critical", "log_realtime": False}
        made = TASKS["generated"](limit=samples, url=await own.url())
        (log,) = await eval_async(made, model=f"oracle/{samples}", **options)
        print(json.dumps(outcomes(log)), flush=True)
        for _ in range(RETRIES):
            if not outcomes(log)["error"]:
                break
            async with asyncio.timeout(READY_S):
                while own.starts < starts - len(at):
                    await asyncio.sleep(0.1)
            (log,) = await eval_retry_async(log, **options)
            print("retried:", json.dumps(outcomes(log)), flush=True)


@solver
def told_tools(url: str, names: dict[str, list[str]]) -> Solver:
    """The model with the tools of another MCP server."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        offered = names[str(state.sample_id)]
        source = mcp_tools(mcp_server_http(name="told", url=url, timeout=60), tools=offered)
        async with mcp_connection(source):
            state.tools = await source.tools()
            return await generate(state)

    return solve


async def tell(suite: Suite, url: str, file: Path) -> None:
    """Write what Finport answers to the oracle's calls, and the tools that the tasks offer."""
    answers: dict[str, str] = {}
    calls = [call for asked in suite.tasks for call in asked.tools]
    async with HttpClient.open(url, Untraced()) as client:
        made = (client.call(call.name, call.arguments, CallContext()) for call in calls)
        for call, result in zip(calls, await asyncio.gather(*made), strict=True):
            said = {"ok": True, "tool": call.name, "data": json.loads(result.data)}
            answers[json.dumps([call.name, call.arguments])] = json.dumps(said)
    catalog, tools = Catalog.load(), []
    for name in sorted({name for asked in suite.tasks for name in suite.offered(asked) or ()}):
        function = export(catalog.get(name), "openai")["function"]
        keys = ("name", "description", "parameters")
        tools.append({key: function[key] for key in keys})
    text = json.dumps({"tools": tools, "answers": answers})
    await asyncio.to_thread(file.write_text, text)
    print(f"{len(tools)} tools, {len(answers)} calls", flush=True)


@asynccontextmanager
async def fastmcp(file: Path) -> AsyncIterator[str]:
    command = (sys.executable, "-c", FASTMCP, str(file), str(free_port()))
    async with server(file.parent, *command) as one:
        await asyncio.sleep(3)
        yield f"{one.url}/mcp"


async def speed(samples: int, rounds: int) -> None:
    suite = suite_of(Choice("generated", limit=samples))
    settings = {"upstream": "simulated", **suite.gateway_settings}
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        folder = Path(name)
        async with gateway(folder, quiet=True, **settings) as one:
            await tell(suite, one.url, folder / "told.json")
            async with fastmcp(folder / "told.json") as other:
                offered = {asked.id: list(suite.offered(asked) or ()) for asked in suite.tasks}

                @task(name="told")
                def told() -> Task:
                    made: Task = TASKS["generated"](limit=samples)
                    made.solver = told_tools(other, offered)
                    return made

                rates: dict[str, list[float]] = {"finport": [], "fastmcp": []}
                for _ in range(rounds):
                    for kind, times in rates.items():
                        finport = TASKS["generated"](limit=samples, url=one.url)
                        made = finport if kind == "finport" else told()
                        started = time.perf_counter()
                        (log,) = await eval_async(
                            made,
                            model=f"oracle/{samples}",
                            log_dir=f"{name}/logs",
                            fail_on_error=False,
                            log_level="critical",
                            log_realtime=False,
                            max_samples=samples,
                            max_connections=samples,
                        )
                        times.append(round(samples / (time.perf_counter() - started), 1))
                        print(kind, times[-1], json.dumps(outcomes(log)), flush=True)
    medians = {kind: statistics.median(times) for kind, times in rates.items()}
    print(json.dumps({"samples_per_s": medians}))


def main() -> None:
    init_display_type("none")
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["outage", "speed"])
    parser.add_argument("--samples", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.what == "outage":
        asyncio.run(outage(given.samples or 600))
    else:
        asyncio.run(speed(given.samples or 512, given.rounds))


if __name__ == "__main__":
    main()
