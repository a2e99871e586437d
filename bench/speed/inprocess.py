"""A cached call in process beside a loop of the same primitive steps.

A call is bound, keyed and looked up; a recorded one also goes to a trace file and the metrics. The
primitive steps are pydantic validation, JSON with sorted keys, BLAKE2b, a dictionary look-up and a
slotted record.
"""

import time
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import orjson
from pydantic import BaseModel

from bench.runs.metrics import RunMetrics
from bench.speed.harness import Figures, Harness
from bench.suites.fintoolbench.suite import LabelledTasks
from gateway import Gateway, GatewaySettings
from gateway.trace import JsonLines

TOOL = "stock_zh_a_hist"
ARGUMENTS = {"symbol": "600519", "start_date": "20240101", "end_date": "20240115"}
ROUNDS = 5
CALLS = 50_000


async def measure(harness: Harness) -> Figures:
    """Calls a second of `Gateway.call` on a cached answer, without and with trace and metrics, and
    of the primitive steps.
    """
    settings = GatewaySettings(upstream="simulated", cache_dir=harness.folder)
    path, metrics = harness.folder / "calls.jsonl", RunMetrics(LabelledTasks)
    calls = harness.number(CALLS)
    async with JsonLines.open(path, count=metrics.add) as stream:
        sides = {
            "cached_calls": partial(_calls, settings, None, calls),
            "recorded_calls": partial(_calls, settings, stream, calls),
            "primitive_steps": partial(_primitive_steps, calls),
        }
        turns = await harness.in_turns(ROUNDS, sides)
    return {
        **turns.medians(),
        "ratio": turns.ratio("per_s", "cached_calls", "primitive_steps"),
        "ratio_recorded": turns.ratio("per_s", "recorded_calls", "primitive_steps"),
    }


async def _calls(settings: GatewaySettings, trace: JsonLines | None, calls: int) -> Figures:
    async with Gateway.open(settings, trace=trace) as gateway:
        await gateway.call(TOOL, ARGUMENTS)
        started = time.perf_counter()
        for _ in range(calls):
            await gateway.call(TOOL, ARGUMENTS)
        return {"per_s": calls / (time.perf_counter() - started)}


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


async def _primitive_steps(calls: int) -> Figures:
    answers: dict[bytes, bytes] = {}
    started = time.perf_counter()
    for _ in range(calls):
        arguments = _Arguments.model_validate(ARGUMENTS).__dict__
        text = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
        key = blake2b(text, digest_size=16).digest()
        _Record(key, answers.setdefault(key, text), time.perf_counter())
    return {"per_s": calls / (time.perf_counter() - started)}
