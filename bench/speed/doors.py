"""Speed of the API: the same cached call over REST, over MCP and in batches, one gateway process.

There are two baselines, measured in the same run and in turns. One is an aiohttp handler that reads
and parses the body and sends ready bytes, those of the REST answer. The other is FastMCP with a
tool that returns the same data, as installed and tuned (JSON answers, uvloop), if
`FINBENCH_FASTMCP_PYTHON` names a Python that has it. The load comes from wrk if it is installed,
else from `bench/speed/load.py`.
"""

import asyncio
import logging
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import orjson

from bench.environment import FASTMCP_PYTHON
from bench.speed.load import measure
from bench.speed.measurement import MeasurementError
from bench.speed.servers import served_gateway, server

log = logging.getLogger("finbench.speed")

TOOL = "stock_zh_a_hist"
ARGUMENTS = {"symbol": "600519", "start_date": "20240101", "end_date": "20240115"}
CONNECTIONS = 64
ROUND_S = 3.0
ROUNDS = 5
BATCH = 100_000

_FASTMCP = Path(__file__).parent / "baselines" / "fastmcp.py"

Figures = dict[str, float | str]
Load = Callable[[str, bytes, float], Awaitable[float]]


async def doors(
    seconds: float = ROUND_S, rounds: int = ROUNDS, batch_calls: int = BATCH
) -> Figures:
    """Calls a second over each interface, and of the baselines."""
    rest_body = orjson.dumps(ARGUMENTS)
    call = {"name": "call_tool", "arguments": {"name": TOOL, "arguments": ARGUMENTS}}
    mcp_body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    path = f"/v1/tools/{TOOL}"
    async with AsyncExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="finport-speed-")))
        gateway = served_gateway(folder, latency_s=0, failure_rate=0)
        url = await parts.enter_async_context(gateway)
        await whole_answer(url + path, rest_body)  # the second one is cached
        rest = await whole_answer(url + path, rest_body)
        mcp = await whole_answer(f"{url}/mcp", mcp_body)
        bare = await parts.enter_async_context(_bare_server(folder, rest))
        targets = {
            "bare_aiohttp": (bare + path, rest_body),
            "rest": (url + path, rest_body),
            "mcp": (f"{url}/mcp", mcp_body),
        }
        python = os.environ.get(FASTMCP_PYTHON)
        if python is not None:
            for how in ("installed", "tuned"):
                (folder / "answer.json").write_bytes(rest)
                opened = server(folder, python, "-P", str(_FASTMCP), "answer.json", how)
                fastmcp = await parts.enter_async_context(opened)
                targets[f"fastmcp_{how}"] = (f"{fastmcp}/mcp", mcp_body)
        load, client = load_generator(folder)
        rates: dict[str, list[float]] = {name: [] for name in targets}
        for number in range(1, rounds + 1):
            log.info("round %d of %d", number, rounds)
            for name, (target, body) in targets.items():
                rates[name].append(await load(target, body, seconds))
        log.info("a batch of %d calls", batch_calls)
        batch = await _batch(url, batch_calls)
    figures: Figures = {
        "client": client,
        "connections": CONNECTIONS,
        "rest_answer_bytes": len(rest),
        "mcp_answer_bytes": len(mcp),
        **{f"{name}_calls_per_s": statistics.median(found) for name, found in rates.items()},
    }
    for name in ("rest", "mcp"):
        ratios = [a / b for a, b in zip(rates[name], rates["bare_aiohttp"], strict=True)]
        figures[f"{name}_ratio"] = statistics.median(ratios)
        figures[f"{name}_ratio_min"], figures[f"{name}_ratio_max"] = min(ratios), max(ratios)
    for how in ("installed", "tuned"):
        if f"fastmcp_{how}" in rates:
            pairs = zip(rates["mcp"], rates[f"fastmcp_{how}"], strict=True)
            figures[f"mcp_to_fastmcp_{how}"] = statistics.median(a / b for a, b in pairs)
    if python is None:
        figures["fastmcp"] = f"not measured: set {FASTMCP_PYTHON}"
    return figures | {"batch_calls": batch_calls, "batch_calls_per_s": batch}


_MCP_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


async def whole_answer(url: str, body: bytes) -> bytes:
    """The body of the answer to one request."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers=_MCP_HEADERS) as response,
    ):
        return await response.read()


async def _batch(url: str, calls: int) -> float:
    """Calls a second of one batch request; answers are counted, and each must be ok."""
    lines = (
        orjson.dumps({"id": n, "tool": TOOL, "arguments": ARGUMENTS}) + b"\n" for n in range(calls)
    )

    async def body() -> AsyncIterator[bytes]:
        block = bytearray()
        for line in lines:
            block += line
            if len(block) > 2**16:
                yield bytes(block)
                block.clear()
        yield bytes(block)

    started, answered = time.perf_counter(), 0
    headers = {"Content-Type": "application/x-ndjson"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/calls", data=body(), headers=headers) as response,
    ):
        async for chunk in response.content.iter_any():
            answered += chunk.count(b"\n")
    if answered != calls:
        raise MeasurementError(f"{answered} of {calls} calls of a batch were answered")
    return calls / (time.perf_counter() - started)


def load_generator(folder: Path) -> tuple[Load, str]:
    """A load of one request for some seconds, and the name of what makes it: wrk or ours."""
    wrk = shutil.which("wrk")
    if wrk is None:

        async def by_us(url: str, body: bytes, seconds: float) -> float:
            return (await measure(url, lambda: body, CONNECTIONS, seconds)).per_s()

        return by_us, "bench/speed/load.py"

    async def by_wrk(url: str, body: bytes, seconds: float) -> float:
        (folder / "body").write_bytes(body)
        script = folder / "post.lua"
        heads = "".join(f'wrk.headers["{name}"]="{v}"\n' for name, v in _MCP_HEADERS.items())
        script.write_text(f'wrk.method="POST"\nwrk.body=io.open("body","rb"):read("*a")\n{heads}')
        said = await asyncio.create_subprocess_exec(
            *(wrk, "-t1", f"-c{CONNECTIONS}", f"-d{max(round(seconds), 1)}s"),
            *("-s", str(script), url),
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
        )
        text = (await said.communicate())[0].decode()
        if "Non-2xx" in text or "Socket errors" in text or "Requests/sec:" not in text:
            raise MeasurementError(text)
        return float(text.partition("Requests/sec:")[2].split()[0])

    return by_wrk, "wrk"


@asynccontextmanager
async def _bare_server(folder: Path, answer: bytes) -> AsyncIterator[str]:
    (folder / "ready").write_bytes(answer)
    command = (
        sys.executable,
        "-P",
        "-m",
        "bench.speed.baselines.bare_server",
        str(folder / "ready"),
    )
    async with server(folder, *command) as url:
        yield url
