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
    NotMeasured,
    asked,
    each,
    in_process,
)
from bench.task import Task
from manifests import Manifest

ANSWER = "In the second one, on 12 January."
OFFERED = (TOOL, "stock_hk_hist", "get_coin")
EPISODES, CONCURRENCY, ROUNDS = 1_500, 256, 3


async def measure(harness: Harness) -> Figures:
    """Our agent beside a loop around the official client."""
    if find_spec("openai") is None:
        raise NotMeasured("openai is not installed")
    url, client = await harness.serve(endpoint), await harness.client()
    episodes, at_once = harness.number(EPISODES), harness.number(CONCURRENCY)
    await in_process(ours, 1, 1, url)
    last = (await asked(client, url))["last"]

    async def side(part: Any, *told: Any) -> Figures:
        before = (await asked(client, url))["requests"]
        figures: Figures = await in_process(part, episodes, at_once, url, *told)
        requests = (await asked(client, url))["requests"] - before
        if requests != (len(ARGUMENTS) + 1) * episodes:
            raise MeasurementError(f"{requests} requests were sent by {episodes} episodes")
        return figures

    sides = {"model": partial(side, ours), "official_aiohttp": partial(side, official, last)}
    turns = await harness.in_turns(ROUNDS, sides)
    ratio = turns.ratio("episodes_per_s", "model", "official_aiohttp")
    return turns.medians() | {"model_to_official_aiohttp": ratio}


async def ours(folder: Path, episodes: int, concurrency: int, url: str) -> Figures:
    """The agent `llm` in the driver, with transcripts, as in a run."""
    async with Stage.open(folder, is_transcribed=True) as stage:
        offered = [tool for name in OFFERED if (tool := stage.catalog.get(name)) is not None]

        async def offer(_: Task) -> Sequence[Manifest]:
            return offered

        settings = AgentSettings.of("llm", model=ModelSettings("bare", url))
        async with open_agent(settings, stage.catalog) as agent:
            return await stage.play(agent, episodes, concurrency, ANSWER, offer=offer)


async def official(
    _: Path, episodes: int, concurrency: int, url: str, last: dict[str, Any]
) -> Figures:
    """The loop. `last` is the last request of one of our episodes."""
    from openai import AsyncOpenAI, DefaultAioHttpClient

    outputs = [message["content"] for message in last["messages"] if message["role"] == "tool"]
    by_day = {given["start_date"]: text for given, text in zip(ARGUMENTS, outputs, strict=True)}
    functions = {TOOL: lambda given: by_day[given["start_date"]]}
    http = DefaultAioHttpClient()
    async with AsyncOpenAI(base_url=url, api_key="none", http_client=http) as client:

        async def episode(_: int) -> None:
            messages: list[Any] = last["messages"][:2]
            while True:
                completion = await client.chat.completions.create(
                    model="bare", messages=messages, tools=last["tools"]
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
    ready = [_completion(number) for number in range(len(ARGUMENTS) + 1)]
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


def _completion(outputs: int) -> bytes:
    """What the model says after so many outputs: a call, or at last its answer."""
    message: dict[str, Any] = {"role": "assistant", "content": ANSWER}
    if is_call := outputs < len(ARGUMENTS):
        function = {"name": TOOL, "arguments": orjson.dumps(ARGUMENTS[outputs]).decode()}
        call = {"id": f"call_{outputs}", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
    finish = "tool_calls" if is_call else "stop"
    return orjson.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "bare",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940},
        }
    )
