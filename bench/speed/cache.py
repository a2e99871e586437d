"""Speed of the caches: writes behind the event loop, hits from memory and disk, a snapshot of 1 GB.

`cache` measures the lag of the event loop while 2,000 new results of 20 KB a second go to disk,
then while as many are recorded into a snapshot, each acknowledged by fsync. It also measures cached
calls a second of `Gateway.call` from memory, and from disk where memory holds nothing. `snapshot`
measures opening a snapshot of 1 GB, looking calls up in it, and checking every byte of it.
"""

import asyncio
import logging
import random
import tempfile
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import orjson

from bench.speed.measurement import MeasurementError
from cache import DiskTier, Entry, Recorder, Row, Snapshot
from gateway import Gateway, GatewaySettings
from gateway.telemetry.quantile import Quantiles
from gateway.telemetry.vitals import Vitals
from manifests.common.memory import rss_bytes

log = logging.getLogger("finbench.speed")

RESULTS_PER_S = 2_000
RESULT_BYTES = 20_000
WRITING_S = 5.0
BEAT_S = 0.005
CALLS = 2_000
READERS = 64
SNAPSHOT_BYTES = 10**9
LOOK_UPS = 20_000

Figures = dict[str, float]


async def cache() -> Figures:
    """Milliseconds of lag, results and calls a second."""
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        folder = Path(name)
        async with DiskTier.open(folder / "writes", 2**31) as tier:
            log.info("new results are kept on disk")
            lag_ms, _ = await _while_writing(_put_into(tier))
            kept = RESULTS_PER_S * WRITING_S - tier.left_out
        async with Recorder.open(folder / "s.snap") as recorder:
            log.info("new results are recorded")
            recording_lag_ms, acknowledged_ms = await _while_writing(_add_to(recorder))
        return {
            "results_per_s": RESULTS_PER_S,
            "result_bytes": len(_result(0).data),
            "written_share": kept / (RESULTS_PER_S * WRITING_S),
            "loop_lag_p99_ms": lag_ms,
            "recording_loop_lag_p99_ms": recording_lag_ms,
            "recording_acknowledged_p99_ms": acknowledged_ms,
            **await _hits(folder / "hits"),
        }


Write = Callable[[int], Awaitable[None]]


def _put_into(tier: DiskTier) -> Write:
    async def write(number: int) -> None:
        tier.put(f"{number:032x}", _result(number), keep_s=3_600)

    return write


def _add_to(recorder: Recorder) -> Write:
    async def write(number: int) -> None:
        await recorder.add(Row("get_coin", "0" * 16, {"n": number}, "ok", _result(number)))

    return write


async def _while_writing(write: Write) -> tuple[float, float]:
    """The 99th percentiles of the loop's lag and of how long a write held its caller, in ms."""
    held_ms = Quantiles()

    async def held(number: int) -> None:
        started = time.perf_counter()
        await write(number)
        held_ms.add((time.perf_counter() - started) * 1e3)

    loop, a_beat = asyncio.get_running_loop(), int(RESULTS_PER_S * BEAT_S)
    async with Vitals.watch() as vitals, asyncio.TaskGroup() as writes:
        started = loop.time()
        for beat in range(int(WRITING_S / BEAT_S)):
            for number in range(a_beat):
                writes.create_task(held(beat * a_beat + number))
            await asyncio.sleep(max(started + (beat + 1) * BEAT_S - loop.time(), 0))
    return vitals.lag_ms.at(0.99) or 0.0, held_ms.at(0.99) or 0.0


_LUCK = random.Random(0)  # noqa: S311 - test data
_RECORDS = [
    {
        "date": f"2024-{n % 12 + 1:02d}",
        "open": _LUCK.random() * 100,
        "volume": _LUCK.getrandbits(40),
    }
    for n in range(1_000)
]


def _result(number: int) -> Entry:
    """A unique table of about 20 KB."""
    start = number * 7 % 700
    lines = [orjson.dumps(record) for record in _RECORDS[start : start + 290]]
    data = b'[{"number":%d},\n' % number + b",\n".join(lines) + b"]"
    return Entry(data, ("date", "open", "volume"), 291, time.time(), 5.0, "simulated")


async def _hits(folder: Path) -> Figures:
    memory_and_disk = GatewaySettings(upstream="simulated", cache_dir=folder)
    disk_only = memory_and_disk.model_copy(update={"memory_bytes": 0})
    calls = [("get_coin", {"uuid": str(number)}) for number in range(CALLS)]
    log.info("answers from memory and from disk")
    async with Gateway.open(memory_and_disk) as gateway:
        await _calls_per_s(gateway, calls)
        memory = await _calls_per_s(gateway, calls * 20)
    async with Gateway.open(disk_only) as gateway:
        disk = await _calls_per_s(gateway, calls * 5)
        outcomes = gateway.outcomes
    return {
        "memory_hits_per_s": memory,
        "disk_hits_per_s": disk,
        "disk_hit_share": outcomes["cached"] / outcomes.total(),
    }


async def _calls_per_s(gateway: Gateway, calls: list[tuple[str, dict[str, str]]]) -> float:
    left = iter(calls)

    async def read() -> None:
        for tool, arguments in left:
            await gateway.call(tool, arguments)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as readers:
        for _ in range(READERS):
            readers.create_task(read())
    return len(calls) / (time.perf_counter() - started)


def snapshot() -> Figures:
    """Milliseconds to open, microseconds a look-up, bytes of memory."""
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        path = Path(name) / "s.snap"
        log.info("a snapshot of 1 GB is recorded")
        keys = asyncio.run(_record(path))
        with ProcessPoolExecutor(1, get_context("spawn")) as fresh_process:
            opened_ms, memory_bytes = fresh_process.submit(_opened, path, keys[0]).result()
        with Snapshot(path) as opened:
            log.info("calls are looked up in it")
            look_up_us = Quantiles()
            for key in random.Random(1).choices(keys, k=LOOK_UPS):  # noqa: S311 - test data
                started = time.perf_counter()
                if opened.get(key) is None:
                    raise MeasurementError(f"{key} is not found in the snapshot")
                look_up_us.add((time.perf_counter() - started) * 1e6)
            started = time.perf_counter()
            log.info("it is verified")
            problems = opened.verify()
            verified_s = time.perf_counter() - started
            return {
                "bytes": opened.bytes,
                "rows": opened.summary.rows,
                "open_ms": opened_ms,
                "open_memory_bytes": memory_bytes,
                "look_up_p50_us": look_up_us.at(0.5) or 0.0,
                "look_up_p99_us": look_up_us.at(0.99) or 0.0,
                "verify_s": verified_s,
                "verify_problems": len(problems),
            }


async def _record(path: Path) -> list[str]:
    """Record a snapshot of 1 GB; returns the keys of its rows."""
    keys: list[str] = []
    luck, left = random.Random(2), SNAPSHOT_BYTES  # noqa: S311 - test data
    async with Recorder.open(path) as recorder:
        while left > 0:
            rows = []
            for _ in range(500):
                number = len(keys)
                noise = luck.randbytes(RESULT_BYTES)
                data = b'"%b"' % b64encode(noise)
                entry = Entry(data, None, None, time.time(), 5.0, "simulated")
                rows.append(Row("get_coin", "0" * 16, {"n": number}, "ok", entry))
                keys.append(rows[-1].key)
                left -= len(noise)
            await asyncio.gather(*map(recorder.add, rows))
    return keys


def _opened(path: Path, key: str) -> tuple[float, int]:
    """Milliseconds of the first opening in a process, and by how much memory grew by it and one
    look-up.
    """
    before, started = rss_bytes(), time.perf_counter()
    with Snapshot(path) as opened:
        took_ms = (time.perf_counter() - started) * 1e3
        opened.get(key)
        return took_ms, rss_bytes() - before
