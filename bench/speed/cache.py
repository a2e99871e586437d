"""Speed of cached calls in process, and of the disk tier: writes behind the event loop, and hits.

A call that is answered from memory is bound, keyed and looked up; a recorded one also goes to a
trace file and the metrics. Beside them runs a loop of the same primitive steps: pydantic
validation, JSON with sorted keys, BLAKE2b, a dictionary look-up and a slotted record.

The lag of the event loop is measured while 2,000 new results of 20 KB a second go to disk, then
while as many are recorded into a snapshot, each acknowledged by fsync. Then calls are answered from
disk by a gateway whose memory holds nothing.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import orjson
from pydantic import BaseModel

from bench.runs.metrics import RunMetrics
from bench.speed.harness import Figures, Harness, each, latencies, log
from bench.suites.fintoolbench.suite import LabelledTasks
from cache import DiskTier, Entry, Recorder, Row
from gateway import Gateway, GatewaySettings
from gateway.telemetry.vitals import Vitals
from gateway.trace import JsonLines

TOOL = "stock_zh_a_hist"
ARGUMENTS = {"symbol": "600519", "start_date": "20240101", "end_date": "20240115"}
ROUNDS = 5
MEMORY_CALLS = 50_000

RESULTS_PER_S = 2_000
WRITING_S = 5.0
BEAT_S = 0.005
CALLS = 2_000
READERS = 64

_LUCK = random.Random(0)  # noqa: S311 - test data
_RECORDS = [
    orjson.dumps({"date": f"2024-{n % 12 + 1:02d}", "open": _LUCK.random() * 100, "volume": n**4})
    for n in range(1_000)
]


async def measure(harness: Harness) -> Figures:
    """Calls a second from memory and disk, milliseconds of lag, and results a second."""
    return await _memory_hits(harness) | await _writes(harness) | await _disk_hits(harness)


async def _writes(harness: Harness) -> Figures:
    folder, seconds = harness.folder, harness.seconds(WRITING_S)
    async with DiskTier.open(folder / "writes", 2**31) as tier:

        async def put(number: int) -> None:
            tier.put(f"{number:032x}", _result(number), keep_s=3_600)

        log.info("new results are kept on disk")
        writing = await _while_writing(put, seconds)
        written = 1 - tier.left_out / (RESULTS_PER_S * seconds)
    async with Recorder.open(folder / "s.snap") as recorder:

        async def add(number: int) -> None:
            await recorder.add(Row("get_coin", "0" * 16, {"n": number}, "ok", _result(number)))

        log.info("new results are recorded")
        recording = await _while_writing(add, seconds)
    return {
        "written_share": written,
        "loop_lag_p99_ms": writing["loop_lag_p99_ms"],
        "recording_loop_lag_p99_ms": recording["loop_lag_p99_ms"],
        "recording_acknowledged_p99_ms": recording["p99_ms"],
    }


async def _while_writing(write: Callable[[int], Awaitable[None]], seconds: float) -> Figures:
    """The loop's lag, and how long a write held its caller."""
    took_s: list[float] = []

    async def timed(number: int) -> None:
        started = time.perf_counter()
        await write(number)
        took_s.append(time.perf_counter() - started)

    loop, a_beat = asyncio.get_running_loop(), int(RESULTS_PER_S * BEAT_S)
    async with Vitals.watch() as vitals, asyncio.TaskGroup() as writes:
        started = loop.time()
        for beat in range(int(seconds / BEAT_S)):
            for number in range(a_beat):
                writes.create_task(timed(beat * a_beat + number))
            await asyncio.sleep(max(started + (beat + 1) * BEAT_S - loop.time(), 0))
    return latencies(took_s) | {"loop_lag_p99_ms": vitals.lag_ms.at(0.99) or 0.0}


def _result(number: int) -> Entry:
    """A unique table of about 20 KB."""
    start = number * 7 % 700
    data = b'[{"number":%d},\n' % number + b",\n".join(_RECORDS[start : start + 290]) + b"]"
    return Entry(data, ("date", "open", "volume"), 291, time.time(), 5.0, "simulated")


async def _disk_hits(harness: Harness) -> Figures:
    log.info("answers from disk")
    cache = harness.folder / "hits"
    settings = GatewaySettings(upstream="simulated", cache_dir=cache, memory_bytes=0)
    given = [{"uuid": str(number)} for number in range(harness.number(CALLS))]
    for calls in (given, given * 5):  # those of the first time are answered by the upstream
        async with Gateway.open(settings) as gateway:
            took_s = await each(calls, READERS, partial(gateway.call, "get_coin"))
            outcomes = gateway.outcomes
    return {
        "disk_hits_per_s": len(given) * 5 / took_s,
        "disk_hit_share": outcomes["cached"] / outcomes.total(),
    }


async def _memory_hits(harness: Harness) -> Figures:
    settings = GatewaySettings(upstream="simulated", cache_dir=harness.folder)
    path, metrics = harness.folder / "calls.jsonl", RunMetrics(LabelledTasks)
    calls = harness.number(MEMORY_CALLS)
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
