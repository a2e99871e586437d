"""The speed measurements: each beside a bare baseline in the same run, so that ratios count.

`inprocess` measures a cached call in process (bound, keyed, looked up; then also recorded in a
trace file and in the metrics) beside a loop of the same primitive steps: pydantic validation, JSON
with sorted keys, BLAKE2b, a dictionary look-up, a slotted record. `cache` and `snapshot` are in
`bench/speed/cache.py`, the others in modules of their names.
"""

import logging
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

from bench.runs.metrics import RunMetrics
from bench.speed import akshare as speed_akshare
from bench.speed import cache as speed_cache
from bench.speed import compress as speed_compress
from bench.speed import doors as speed_doors
from bench.speed import drift as speed_drift
from bench.speed import driver as speed_driver
from bench.speed import gateways as speed_gateways
from bench.speed import hangs as speed_hangs
from bench.speed import live as speed_live
from bench.speed import market as speed_market
from bench.speed import model as speed_model
from bench.speed import overload as speed_overload
from bench.speed import ray as speed_ray
from bench.speed import rows as speed_rows
from bench.speed import shapes as speed_shapes
from bench.speed import strangers as speed_strangers
from bench.speed import wire as speed_wire
from bench.suites.fintoolbench.suite import LabelledTasks
from gateway import Gateway, GatewaySettings
from gateway.trace import JsonLines

log = logging.getLogger("finbench.speed")

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
        metrics = RunMetrics(LabelledTasks)
        async with JsonLines.open(Path(folder) / "calls.jsonl", count=metrics.add) as stream:
            for number in range(1, ROUNDS + 1):
                log.info("round %d of %d", number, ROUNDS)
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


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement. `run` returns figures by name, or says in words why one is missing. It takes
    about `about_s` on two cores, without parts that need a Python named by the environment. It logs
    its progress to `finbench.speed`.
    """

    run: Callable[[], Mapping[str, float | str]]
    about_s: int


def _on_loop(
    measure: Callable[[], Coroutine[Any, Any, Mapping[str, float | str]]], about_s: int
) -> Measurement:
    return Measurement(lambda: uvloop.run(measure()), about_s)


ALL = {
    "doors": _on_loop(speed_doors.doors, 50),
    "live": _on_loop(speed_live.live, 40),
    "inprocess": _on_loop(inprocess, 25),
    "cache": _on_loop(speed_cache.cache, 60),
    "snapshot": Measurement(speed_cache.snapshot, 60),
    "akshare": _on_loop(speed_akshare.akshare, 90),
    "overload": _on_loop(speed_overload.overload, 60),
    "strangers": _on_loop(speed_strangers.strangers, 100),
    "driver": _on_loop(speed_driver.driver, 285),
    "model": _on_loop(speed_model.model_calls, 30),
    "hangs": _on_loop(speed_hangs.hangs, 10),
    "rows": _on_loop(speed_rows.rows, 5),
    "compress": _on_loop(speed_compress.compression, 50),
    "shapes": Measurement(speed_shapes.shapes, 5),
    "market": _on_loop(speed_market.market, 150),
    "drift": Measurement(speed_drift.drift, 600),
    "wire": _on_loop(speed_wire.wire, 300),
    "gateways": _on_loop(speed_gateways.gateways, 100),
    "ray": _on_loop(speed_ray.ray, 420),
}
