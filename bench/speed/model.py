"""Speed of requests to a model: processor time of one call by the official client, by the same over
aiohttp, and by `ModelClient`, in turns against one server in its own process.

Each call offers 20 tools in a conversation of four messages and gets a ready completion with a call
of a tool. Only this process's time is counted, so the server's work is not in it. The official
client checks and encodes the tools with every call; ours gets them as JSON. `python -m
bench.speed.model` is that server.
"""

import asyncio
import gc
import logging
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import uvloop
from aiohttp import web

from bench.models.client import ModelClient
from bench.record import ModelCallRecord
from bench.speed.baselines.bare_server import serve
from bench.speed.measurement import MeasurementError
from bench.speed.servers import server
from manifests import Catalog
from manifests.export import export

log = logging.getLogger("finbench.speed")

CONCURRENCY = 64
CALLS = 500
ROUNDS = 5
TOOLS = 20
MODEL = "bare"

_FUNCTION = {"name": "stock_zh_a_hist", "arguments": '{"symbol": "600519", "period": "daily"}'}
_MESSAGE = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "type": "function", "function": _FUNCTION}],
}
_COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 0,
    "model": MODEL,
    "choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "tool_calls"}],
    "usage": {"prompt_tokens": 6_000, "completion_tokens": 40, "total_tokens": 6_040},
}

_Call = Callable[[], Awaitable[object]]


async def model_calls(calls: int = CALLS, rounds: int = ROUNDS) -> dict[str, float]:
    """Milliseconds of processor time a call, the median of `rounds`; those of the official client
    only if it is installed.
    """
    tools = [export(manifest, "openai") for manifest in islice(Catalog.load(), TOOLS)]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You answer questions about finance with tools." * 20},
        {"role": "user", "content": "At what price did Kweichow Moutai close on 2 January 2024?"},
        _MESSAGE,
        {"role": "tool", "tool_call_id": "call_1", "content": '{"close": 1685.01}' * 25},
    ]
    command = (sys.executable, "-P", "-m", "bench.speed.model")
    async with AsyncExitStack() as parts:
        base_url = await parts.enter_async_context(server(Path.cwd(), *command))
        ways = {
            name: await parts.enter_async_context(way)
            for name, way in _official(base_url, messages, tools).items()
        }
        ways["ours"] = await parts.enter_async_context(_ours(base_url, messages, tools))
        took: dict[str, list[float]] = {name: [] for name in ways}
        for way in ways.values():  # connections and first uses are not counted
            await _measure(way, min(calls, CONCURRENCY * 2))
        for number in range(1, rounds + 1):
            log.info("round %d of %d", number, rounds)
            for name, way in ways.items():
                took[name].append(await _measure(way, calls))
    figures = {f"{name}_cpu_ms": statistics.median(found) for name, found in took.items()}
    for name in took.keys() - {"ours"}:
        pairs = zip(took[name], took["ours"], strict=True)
        figures[f"{name}_to_ours"] = statistics.median(a / b for a, b in pairs)
    sizes = {"tools_bytes": len(orjson.dumps(tools)), "messages_bytes": len(orjson.dumps(messages))}
    return {"concurrency": CONCURRENCY, **sizes, **figures}


async def _measure(call: _Call, calls: int) -> float:
    """Milliseconds of this process's time a call, with `CONCURRENCY` calls at a time."""
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await call()

    gc.collect()
    started = time.process_time()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return (time.process_time() - started) * 1e3 / calls


@asynccontextmanager
async def _ours(
    base_url: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> AsyncIterator[_Call]:
    encoded = [orjson.dumps(tool) for tool in tools]
    async with ModelClient.open(base_url, MODEL, "no-key", temperature=0.0) as model:

        async def call() -> None:
            record = ModelCallRecord(1, "act", MODEL, 0.0, 0.0)
            answer = await model.complete(messages, tools=encoded, record=record)
            if answer.calls[0].arguments != _FUNCTION["arguments"]:
                raise MeasurementError("our client: not what was sent")

        yield call


def _official(
    base_url: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> dict[str, Any]:
    """The official client over each transport, as contexts that give a call."""
    try:
        from openai import AsyncOpenAI, DefaultAioHttpClient
    except ImportError:
        return {}

    @asynccontextmanager
    async def open_(**transport: Any) -> AsyncIterator[_Call]:
        client: Any = AsyncOpenAI(base_url=base_url, api_key="no-key", **transport)
        async with client:

            async def call() -> None:
                answer = await client.chat.completions.create(
                    model=MODEL, messages=messages, tools=tools, temperature=0.0
                )
                said = answer.choices[0].message.tool_calls[0].function.arguments
                if said != _FUNCTION["arguments"]:
                    raise MeasurementError(
                        "the official client does not bring what the server sends"
                    )

            yield call

    try:
        over_aiohttp = DefaultAioHttpClient()
    except RuntimeError:  # its extra is not installed
        return {"openai": open_()}
    return {"openai": open_(), "openai_aiohttp": open_(http_client=over_aiohttp)}


async def _serve() -> None:
    answer = orjson.dumps(_COMPLETION)

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=answer, content_type="application/json")

    await serve("bare", [web.post("/v1/chat/completions", handle)], "/v1")


if __name__ == "__main__":
    uvloop.run(_serve())
