"""Speed of the disk tier: writes behind the event loop, and hits.

The lag of the event loop is measured while 2,000 new results of 20 KB a second go to disk, then
while as many are recorded into a snapshot, each acknowledged by fsync. Then calls are answered from
disk by a gateway whose memory holds nothing.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial

import orjson

from bench.speed.harness import Figures, Harness, each, latencies, log
from cache import DiskTier, Entry, Recorder, Row
from gateway import Gateway, GatewaySettings
from gateway.telemetry.vitals import Vitals

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
    """Milliseconds of lag, results and calls a second."""
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
        "results_per_s": RESULTS_PER_S,
        "result_bytes": len(_result(0).data),
        "written_share": written,
        "loop_lag_p99_ms": writing["loop_lag_p99_ms"],
        "recording_loop_lag_p99_ms": recording["loop_lag_p99_ms"],
        "recording_acknowledged_p99_ms": recording["p99_ms"],
        **await _disk_hits(harness),
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
