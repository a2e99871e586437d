"""Speed, measured beside a bare baseline in the same run; the ratio is what counts.

`http`: a cached call over HTTP beside an aiohttp handler that reads and parses the body and sends
the same bytes; each server one process, in turns, the same client for both. `inprocess`: a cached
call in process (bound, keyed, looked up; then also recorded in a trace file and in the metrics)
beside a loop of the same primitive steps: pydantic validation, JSON with sorted keys, BLAKE2b, a
dictionary look-up, a slotted record. `cache` and `snapshot` stand in `bench/speed_cache.py`,
`akshare` in `bench/speed_akshare.py`, `overload` in `bench/speed_overload.py`.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import blake2b
from operator import truediv
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import uvloop
from pydantic import BaseModel

from bench import speed_akshare, speed_cache, speed_overload
from bench.load import measure
from bench.metrics import RunMetrics
from bench.run_dir import Stream
from bench.servers import ready, served_gateway
from gateway import Gateway, GatewaySettings
from gateway.trace import JsonLines

TOOL = "stock_zh_a_hist"
ARGUMENTS = {"symbol": "600519", "start_date": "20240101", "end_date": "20240115"}
CONNECTIONS = 64
ROUND_S = 2.0
ROUNDS = 5
CALLS = 50_000

Figures = dict[str, float]


async def http() -> Figures:
    """Calls a second of both servers in turns, and the ratio of each pair."""
    path = f"/v1/tools/{TOOL}"
    body = orjson.dumps(ARGUMENTS)
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        async with served_gateway(Path(folder), latency_s=0, failure_rate=0) as url:
            for _ in range(2):  # the second answer is a cached one
                async with aiohttp.ClientSession() as session:
                    response = await session.post(url + path, data=body)
                    answer = await response.read()
            async with _bare_server(answer) as bare_url:
                pairs = []
                for _ in range(ROUNDS):
                    ours = await measure(url + path, body, CONNECTIONS, ROUND_S)
                    bare = await measure(bare_url + path, body, CONNECTIONS, ROUND_S)
                    pairs.append((ours, bare))
    return {
        "answer_bytes": len(answer),
        "connections": CONNECTIONS,
        "finport_calls_per_s": statistics.median(ours for ours, _ in pairs),
        "bare_aiohttp_calls_per_s": statistics.median(bare for _, bare in pairs),
        "ratio": statistics.median(ours / bare for ours, bare in pairs),
        "ratio_min": min(ours / bare for ours, bare in pairs),
        "ratio_max": max(ours / bare for ours, bare in pairs),
    }


async def inprocess() -> Figures:
    """Calls a second of `Gateway.call` on a cached answer, without and with trace and metrics, and
    of the primitive steps; all in turns.
    """
    plain, recorded, steps = [], [], []
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        settings = GatewaySettings(upstream="simulated", cache_dir=Path(folder))
        async with JsonLines.open(Path(folder) / "calls.jsonl") as lines:
            stream = Stream(lines, RunMetrics())
            for _ in range(ROUNDS):
                async with Gateway.open(settings) as gateway:
                    plain.append(await _calls_per_s(gateway))
                async with Gateway.open(settings, trace=stream) as gateway:
                    recorded.append(await _calls_per_s(gateway))
                steps.append(_primitive_steps_per_s())
    return {
        "cached_calls_per_s": statistics.median(plain),
        "recorded_calls_per_s": statistics.median(recorded),
        "primitive_steps_per_s": statistics.median(steps),
        "ratio": statistics.median(map(truediv, plain, steps)),
        "ratio_recorded": statistics.median(map(truediv, recorded, steps)),
    }


async def _calls_per_s(gateway: Gateway) -> float:
    await gateway.call(TOOL, ARGUMENTS)
    started = time.perf_counter()
    for _ in range(CALLS):
        await gateway.call(TOOL, ARGUMENTS)
    return CALLS / (time.perf_counter() - started)


class _Arguments(BaseModel):
    symbol: str
    period: str = "daily"
    start_date: str = "19700101"
    end_date: str = "20500101"
    adjust: str = ""


@dataclass(slots=True)
class _Record:
    key: bytes
    answer: bytes
    at: float


def _primitive_steps_per_s() -> float:
    answers: dict[bytes, bytes] = {}
    started = time.perf_counter()
    for _ in range(CALLS):
        arguments = _Arguments.model_validate(ARGUMENTS).__dict__
        text = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
        key = blake2b(text, digest_size=16).digest()
        _Record(key, answers.setdefault(key, text), time.perf_counter())
    return CALLS / (time.perf_counter() - started)


@asynccontextmanager
async def _bare_server(answer: bytes) -> AsyncIterator[str]:
    process: Process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "bench.bare_server"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    process.stdin.write(len(answer).to_bytes(8, "big") + answer)
    try:
        yield await ready(process)
    finally:
        process.terminate()
        await process.wait()


def _run(measurement: Callable[[], Coroutine[Any, Any, Figures]]) -> Callable[[], Figures]:
    return lambda: uvloop.run(measurement())


ALL: dict[str, Callable[[], Mapping[str, float | str]]] = {
    "http": _run(http),
    "inprocess": _run(inprocess),
    "cache": _run(speed_cache.cache),
    "snapshot": speed_cache.snapshot,
    "akshare": lambda: uvloop.run(speed_akshare.akshare()),
    "overload": lambda: uvloop.run(speed_overload.overload()),
}
