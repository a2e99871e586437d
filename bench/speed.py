"""Speed, measured beside a bare baseline in the same run; the ratio is what counts.

`inprocess`: a cached call in process (bound, keyed, looked up; then also recorded in a trace file
and in the metrics) beside a loop of the same primitive steps: pydantic validation, JSON with sorted
keys, BLAKE2b, a dictionary look-up, a slotted record. `doors`, `akshare`, `overload`, `strangers`,
`driver`, `hangs`, `model` and `rows` stand in modules of these names, `cache` and `snapshot` in
`bench/speed_cache.py`.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from operator import truediv
from pathlib import Path
from typing import Any

import orjson
import uvloop
from pydantic import BaseModel

from bench import (
    speed_akshare,
    speed_cache,
    speed_doors,
    speed_driver,
    speed_hangs,
    speed_model,
    speed_overload,
    speed_rows,
    speed_strangers,
)
from bench.metrics import RunMetrics
from bench.run_dir import Stream
from gateway import Gateway, GatewaySettings
from gateway.trace import JsonLines

TOOL = "stock_zh_a_hist"
ARGUMENTS = {"symbol": "600519", "start_date": "20240101", "end_date": "20240115"}
ROUNDS = 5
CALLS = 50_000

Figures = dict[str, float]


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


def _run(measurement: Callable[[], Coroutine[Any, Any, Figures]]) -> Callable[[], Figures]:
    return lambda: uvloop.run(measurement())


ALL: dict[str, Callable[[], Mapping[str, float | str]]] = {
    "doors": lambda: uvloop.run(speed_doors.doors()),
    "inprocess": _run(inprocess),
    "cache": _run(speed_cache.cache),
    "snapshot": speed_cache.snapshot,
    "akshare": lambda: uvloop.run(speed_akshare.akshare()),
    "overload": lambda: uvloop.run(speed_overload.overload()),
    "strangers": lambda: uvloop.run(speed_strangers.strangers()),
    "driver": lambda: uvloop.run(speed_driver.driver()),
    "model": _run(speed_model.model_calls),
    "hangs": lambda: uvloop.run(speed_hangs.hangs()),
    "rows": lambda: uvloop.run(speed_rows.rows()),
}
