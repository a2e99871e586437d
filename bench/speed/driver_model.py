"""Model-driven episodes of `finbench speed driver`, each side in its own process: a program.

An episode is four completions and three calls of a tool. `ours` is the agent `llm` in the driver,
with traces and metrics. `official` is a hand-written loop around the official client, with a local
function instead of the gateway and without records. It takes its first messages, tools and outputs
from our requests, as the endpoint received them, so both sides ask the same. `endpoint` is the
model, which answers at once by the number of outputs in the request.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import orjson
import uvloop
from aiohttp import web

from bench.agents.registry import AgentSettings, open_agent
from bench.models.settings import ModelSettings
from bench.runs.driver import Driver
from bench.speed.baselines.bare_server import serve
from bench.speed.driver_stage import (
    ARGUMENTS,
    TOOL,
    UNBOUND_STARTS_PER_S,
    CheckedAgent,
    Figures,
    Stage,
    costing,
    log_bytes,
    suite,
)
from bench.speed.measurement import MeasurementError
from bench.task import Task
from gateway.server.process import raise_file_limit
from manifests import Manifest

MODEL = "bare"
ANSWER = "In the second one, on 12 January."
OFFERED = (TOOL, "stock_hk_hist", "get_coin")


async def ours(folder: Path, episodes: int, concurrency: int, url: str) -> Figures:
    async with Stage.open(folder) as stage:
        offered = [tool for name in OFFERED if (tool := stage.catalog.get(name)) is not None]

        async def offer(_: Task) -> Sequence[Manifest]:
            return offered

        settings = AgentSettings.of("llm", model=ModelSettings(MODEL, url))
        async with open_agent(settings, stage.catalog) as agent:
            driver = Driver(
                suite(),
                CheckedAgent(agent, stage.expected, ANSWER),
                stage.client,
                stage.directory,
                concurrency=concurrency,
                starts_per_s=UNBOUND_STARTS_PER_S,
                offer=offer,
            )
            with costing() as cost:
                await driver.run(episodes)
                await stage.written()
        stage.check(episodes)
    written = {"log_bytes_per_episode": log_bytes(folder, episodes) / episodes}
    return cost.of(episodes, concurrency) | written


async def official(
    folder: Path, episodes: int, concurrency: int, url: str, transport: str, asked: dict[str, Any]
) -> Figures:
    """Run the loop. `transport` is `default` or `aiohttp`; `asked` is the last request of one of
    our episodes.
    """
    del folder
    from openai import AsyncOpenAI, DefaultAioHttpClient

    outputs = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
    by_day = {given["start_date"]: text for given, text in zip(ARGUMENTS, outputs, strict=True)}
    functions = {TOOL: lambda given: by_day[given["start_date"]]}
    http_client = DefaultAioHttpClient() if transport == "aiohttp" else None
    left = iter(range(episodes))
    right = 0

    async with AsyncOpenAI(base_url=url, api_key="none", http_client=http_client) as client:

        async def episode() -> str | None:
            messages: list[Any] = asked["messages"][:2]
            while True:
                completion = await client.chat.completions.create(
                    model=MODEL, messages=messages, tools=asked["tools"]
                )
                message = completion.choices[0].message
                if not message.tool_calls:
                    return message.content
                made: list[dict[str, Any]] = []
                messages.append({"role": "assistant", "content": None, "tool_calls": made})
                for call in message.tool_calls:
                    assert call.type == "function"  # noqa: S101 - nothing else is offered
                    name, text = call.function.name, call.function.arguments
                    function = {"name": name, "arguments": text}
                    made.append({"id": call.id, "type": "function", "function": function})
                    output = functions[name](orjson.loads(text))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": output})

        async def work() -> None:
            nonlocal right
            for _ in left:
                answer = await episode()
                right += answer == ANSWER

        with costing() as cost:
            await asyncio.gather(*(work() for _ in range(min(concurrency, episodes))))
    if right != episodes:
        raise MeasurementError(f"{right} of {episodes} episodes ended with the right answer")
    return cost.of(episodes, concurrency)


def _completion(message: dict[str, Any], finish: str) -> bytes:
    return orjson.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940},
        }
    )


def _calling(number: int) -> bytes:
    function = {"name": TOOL, "arguments": orjson.dumps(ARGUMENTS[number]).decode()}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return _completion(message, "tool_calls")


async def _serve() -> None:
    """Serve the endpoint until standard input closes. `GET /` returns the number of requests,
    their bytes, and the last request to which the model gave its final answer.
    """
    final = _completion({"role": "assistant", "content": ANSWER}, "stop")
    ready = [*(_calling(number) for number in range(len(ARGUMENTS))), final]
    requests = bytes_read = 0
    last = b"null"

    async def complete(request: web.Request) -> web.Response:
        nonlocal requests, bytes_read, last
        body = await request.read()
        outputs = sum(message["role"] == "tool" for message in orjson.loads(body)["messages"])
        requests, bytes_read = requests + 1, bytes_read + len(body)
        if outputs == len(ARGUMENTS):
            last = body
        return web.Response(body=ready[outputs], content_type="application/json")

    async def tell(_: web.Request) -> web.Response:
        counts = b'{"requests":%d,"bytes":%d,"last":%b}' % (requests, bytes_read, last)
        return web.Response(body=counts, content_type="application/json")

    routes = [web.post("/chat/completions", complete), web.get("/", tell)]
    await serve("endpoint", routes, backlog=2_048)


SIDES: dict[str, Callable[..., Coroutine[Any, Any, Figures]]] = {"ours": ours, "official": official}


def main(side: str, sizes: str) -> None:
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        figures = uvloop.run(SIDES[side](Path(folder), **orjson.loads(sizes)))
    print(orjson.dumps(figures).decode())  # noqa: T201


if __name__ == "__main__":
    raise_file_limit()
    if sys.argv[1] == "endpoint":
        uvloop.run(_serve())
    else:
        main(*sys.argv[1:])
