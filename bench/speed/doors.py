"""Speed of the API: the same cached call over REST, over MCP and in batches, one gateway process.

There are two baselines, measured in the same run and in turns. One is an aiohttp handler that reads
and parses the body and sends ready bytes, those of the REST answer. The other is FastMCP with a
tool that returns the same data, as installed and tuned (JSON answers, uvloop), if
`FINBENCH_FASTMCP_PYTHON` names a Python that has it. The load comes from wrk if it is installed,
else from `bench/speed/load.py`.
"""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import aiohttp
import orjson
from aiohttp import web

from bench.environment import FASTMCP_PYTHON
from bench.speed.bare_server import Handler
from bench.speed.baselines import SERVERS
from bench.speed.harness import Figures, Harness, MeasurementError, log
from bench.speed.load import CONNECTIONS, ROUND_S, ROUNDS, measured, request

TOOL = "stock_zh_a_hist"
ARGUMENTS = {"symbol": "600519", "start_date": "20240101", "end_date": "20240115"}
BODY = orjson.dumps(ARGUMENTS)
BATCH = 100_000
CLIENT = "wrk" if shutil.which("wrk") else "bench/speed/load.py"

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


async def measure(harness: Harness) -> Figures:
    """Calls a second over each interface, and of the baselines."""
    call = {"name": "call_tool", "arguments": {"name": TOOL, "arguments": ARGUMENTS}}
    mcp_body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    gateway, client = await harness.gateway(upstream="simulated"), await harness.client()
    rest_url, mcp_url = f"{gateway}/v1/tools/{TOOL}", f"{gateway}/mcp"
    await _whole_answer(client, rest_url, BODY)  # the second one is cached
    rest = await _whole_answer(client, rest_url, BODY)
    answer = harness.folder / "answer.json"
    answer.write_bytes(rest)
    targets = {
        "bare_aiohttp": (await harness.serve(bare, str(answer)), BODY),
        "rest": (rest_url, BODY),
        "mcp": (mcp_url, mcp_body),
    }
    fastmcp = ("installed", "tuned") if FASTMCP_PYTHON in os.environ else ()
    for how in fastmcp:
        command = (os.environ[FASTMCP_PYTHON], "-P", SERVERS, "fastmcp", str(answer), how)
        targets[f"fastmcp_{how}"] = (f"{await harness.server(*command)}/mcp", mcp_body)
    sides = {name: partial(_load, harness, url, body) for name, (url, body) in targets.items()}
    turns = await harness.in_turns(ROUNDS, sides)
    calls = harness.number(BATCH)
    log.info("a batch of %d calls", calls)
    figures = {
        "client": CLIENT,
        "connections": CONNECTIONS,
        "rest_answer_bytes": len(rest),
        "mcp_answer_bytes": len(await _whole_answer(client, mcp_url, mcp_body)),
        **turns.medians(),
        **turns.spread("rest_ratio", "calls_per_s", "rest", "bare_aiohttp"),
        **turns.spread("mcp_ratio", "calls_per_s", "mcp", "bare_aiohttp"),
        "batch_calls": calls,
        "batch_calls_per_s": calls / await _batch_s(client, gateway, calls),
    }
    for how in fastmcp:
        ratio = turns.ratio("calls_per_s", "mcp", f"fastmcp_{how}")
        figures[f"mcp_to_fastmcp_{how}"] = ratio
    if not fastmcp:
        figures["fastmcp"] = f"not measured: set {FASTMCP_PYTHON}"
    return figures


async def bare(answer: str) -> Handler:
    body = Path(answer).read_bytes()  # noqa: ASYNC240 - it serves nothing yet

    async def handle(request: web.Request) -> web.Response:
        orjson.loads(await request.read())
        return web.Response(body=body, content_type="application/json")

    return handle


async def _whole_answer(client: aiohttp.ClientSession, url: str, body: bytes) -> bytes:
    """The body of the answer to one request."""
    async with client.post(url, data=body, headers=_HEADERS) as response:
        return await response.read()


async def _load(harness: Harness, url: str, body: bytes) -> Figures:
    """Calls a second in a closed loop of one request."""
    seconds, folder = harness.seconds(ROUND_S), harness.folder
    if CLIENT != "wrk":
        call = request("POST", url, body, _HEADERS)
        return {"calls_per_s": (await measured(url, lambda: call, seconds))["calls_per_s"]}
    (folder / "body").write_bytes(body)
    heads = "".join(f'wrk.headers["{name}"]="{value}"\n' for name, value in _HEADERS.items())
    script = f'wrk.method="POST"\nwrk.body=io.open("body","rb"):read("*a")\n{heads}'
    (folder / "post.lua").write_text(script)
    process = await asyncio.create_subprocess_exec(
        *("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{max(round(seconds), 1)}s", "-s", "post.lua", url),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
    )
    text = (await process.communicate())[0].decode()
    if "Non-2xx" in text or "Socket errors" in text or "Requests/sec:" not in text:
        raise MeasurementError(text)
    return {"calls_per_s": float(text.partition("Requests/sec:")[2].split()[0])}


async def _batch_s(client: aiohttp.ClientSession, url: str, calls: int) -> float:
    """Seconds of one batch request; answers are counted, and each must be there."""

    async def body() -> AsyncIterator[bytes]:
        line = b'{"id":%%d,"tool":"%b","arguments":%b}\n' % (TOOL.encode(), BODY)
        for first in range(0, calls, 1_000):
            yield b"".join(line % number for number in range(first, min(first + 1_000, calls)))

    started, answered = time.perf_counter(), 0
    headers = {"Content-Type": "application/x-ndjson"}
    async with client.post(f"{url}/v1/calls", data=body(), headers=headers) as response:
        async for chunk in response.content.iter_any():
            answered += chunk.count(b"\n")
    if answered != calls:
        raise MeasurementError(f"{answered} of {calls} calls of a batch were answered")
    return time.perf_counter() - started
