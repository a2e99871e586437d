"""Speed of model-driven episodes, each side in its own process.

An episode is four completions and three calls of a tool. `ours` is the agent `llm` in the driver,
with traces and metrics. `official` is a hand-written loop around the official client over aiohttp,
with a local function instead of the gateway and without records. It takes its first messages,
tools and outputs from our requests, as the endpoint received them, so both sides ask the same.
"""

import time
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from bench.agents.registry import AgentSettings, open_agent
from bench.models.settings import ModelSettings
from bench.speed.bare_server import Handler
from bench.speed.episodes import ARGUMENTS, TOOL, Stage
from bench.speed.harness import (
    Figures,
    Harness,
    MeasurementError,
    asked,
    each,
    in_process,
    in_turns,
)
from bench.task import Task
from manifests import Manifest

MODEL = "bare"
ANSWER = "In the second one, on 12 January."
OFFERED = (TOOL, "stock_hk_hist", "get_coin")
EPISODES, CONCURRENCY, ROUNDS = 1_500, 256, 3


async def measure(
    harness: Harness,
    episodes: int = EPISODES,
    concurrency: int = CONCURRENCY,
    rounds: int = ROUNDS,
) -> Figures:
    """Our agent beside a loop around the official client."""
    url = await harness.serve(endpoint)
    client = await harness.client()
    await in_process(ours, 1, 1, url)
    last = (await asked(client, url))["last"]

    async def counted(side: Any) -> Figures:
        before = (await asked(client, url))["requests"]
        figures: Figures = await side()
        requests = (await asked(client, url))["requests"] - before
        if requests != (len(ARGUMENTS) + 1) * episodes:
            raise MeasurementError(f"{requests} requests were sent")
        return figures

    sides = {"model": partial(counted, partial(in_process, ours, episodes, concurrency, url))}
    if find_spec("openai") is None:
        turns = await in_turns(rounds, sides)
        return turns.medians() | {"official": "not measured: openai is not installed"}
    loop = partial(in_process, official, episodes, concurrency, url, last)
    turns = await in_turns(rounds, sides | {"official_aiohttp": partial(counted, loop)})
    ratio = turns.ratio("episodes_per_s", "model", "official_aiohttp")
    return turns.medians() | {"model_to_official_aiohttp": ratio}


async def ours(folder: Path, episodes: int, concurrency: int, url: str) -> Figures:
    """The agent `llm` in the driver."""
    async with Stage.open(folder) as stage:
        offered = [tool for name in OFFERED if (tool := stage.catalog.get(name)) is not None]

        async def offer(_: Task) -> Sequence[Manifest]:
            return offered

        settings = AgentSettings.of("llm", model=ModelSettings(MODEL, url))
        async with open_agent(settings, stage.catalog) as agent:
            return await stage.play(agent, episodes, concurrency, answer=ANSWER, offer=offer)


async def official(
    _: Path, episodes: int, concurrency: int, url: str, last: dict[str, Any]
) -> Figures:
    """The loop. `last` is the last request of one of our episodes."""
    from openai import AsyncOpenAI, DefaultAioHttpClient

    outputs = [message["content"] for message in last["messages"] if message["role"] == "tool"]
    by_day = {given["start_date"]: text for given, text in zip(ARGUMENTS, outputs, strict=True)}
    functions = {TOOL: lambda given: by_day[given["start_date"]]}

    async with AsyncOpenAI(
        base_url=url, api_key="none", http_client=DefaultAioHttpClient()
    ) as client:

        async def episode(_: int) -> None:
            messages: list[Any] = last["messages"][:2]
            while True:
                completion = await client.chat.completions.create(
                    model=MODEL, messages=messages, tools=last["tools"]
                )
                message = completion.choices[0].message
                if not message.tool_calls:
                    break
                made: list[dict[str, Any]] = []
                messages.append({"role": "assistant", "content": None, "tool_calls": made})
                for call in message.tool_calls:
                    assert call.type == "function"  # noqa: S101 - nothing else is offered
                    name, text = call.function.name, call.function.arguments
                    function = {"name": name, "arguments": text}
                    made.append({"id": call.id, "type": "function", "function": function})
                    output = functions[name](orjson.loads(text))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
            if message.content != ANSWER:
                raise MeasurementError(f"an episode ended with {message.content!r}")

        cpu = time.process_time()
        wall_s = await each(range(episodes), concurrency, episode)
        cpu_s = time.process_time() - cpu
    return {"episodes_per_s": episodes / wall_s, "cpu_ms_per_episode": cpu_s / episodes * 1e3}


async def endpoint() -> Handler:
    """The model, which answers at once by the number of outputs in the request. `GET` tells the
    number of requests, and the last one to which it gave its final answer.
    """
    ready = [_completion({"content": None, "tool_calls": [_call(n)]}) for n in range(3)]
    ready.append(_completion({"content": ANSWER}))
    requests, last = 0, b"null"

    async def handle(request: web.Request) -> web.Response:
        nonlocal requests, last
        if request.method == "GET":
            body = b'{"requests":%d,"last":%b}' % (requests, last)
        else:
            asked = await request.read()
            outputs = sum(message["role"] == "tool" for message in orjson.loads(asked)["messages"])
            requests, body = requests + 1, ready[outputs]
            last = asked if outputs == len(ARGUMENTS) else last
        return web.Response(body=body, content_type="application/json")

    return handle


def _call(number: int) -> dict[str, Any]:
    function = {"name": TOOL, "arguments": orjson.dumps(ARGUMENTS[number]).decode()}
    return {"id": f"call_{number}", "type": "function", "function": function}


def _completion(message: dict[str, Any]) -> bytes:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    said = {"role": "assistant", **message}
    return orjson.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [{"index": 0, "message": said, "finish_reason": finish}],
            "usage": {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940},
        }
    )
