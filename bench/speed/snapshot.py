"""Speed of a snapshot of 1 GB: opening it, looking calls up in it, and checking every byte."""

import random
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from bench.speed.harness import Figures, Harness, MeasurementError, each, in_process, latencies, log
from cache import Entry, Recorder, Row, Snapshot
from manifests.common.memory import rss_bytes

ROWS, RESULT_BYTES = 50_000, 20_000
LOOK_UPS = 20_000
AT_ONCE = 500


async def measure(harness: Harness) -> Figures:
    """Milliseconds to open, microseconds a look-up, bytes of memory."""
    path, rows = harness.folder / "s.snap", harness.number(ROWS)
    log.info("a snapshot of %d rows is recorded", rows)
    keys: list[str] = []
    async with Recorder.open(path) as recorder:

        async def add(row: Row) -> None:
            await recorder.add(row)
            keys.append(row.key)

        await each(_rows(rows), AT_ONCE, add)
    opened_ms, memory_bytes = await in_process(_opened, path, keys[0])
    with Snapshot(path) as snapshot:
        log.info("calls are looked up in it")
        took_s = []
        for key in random.Random(1).choices(keys, k=LOOK_UPS):  # noqa: S311 - test data
            started = time.perf_counter()
            if snapshot.get(key) is None:
                raise MeasurementError(f"{key} is not found in the snapshot")
            took_s.append(time.perf_counter() - started)
        log.info("it is verified")
        started = time.perf_counter()
        problems = snapshot.verify()
        verified_s = time.perf_counter() - started
        look_up = latencies(took_s)
        return {
            "bytes": snapshot.bytes,
            "rows": snapshot.summary.rows,
            "open_ms": opened_ms,
            "open_memory_bytes": memory_bytes,
            "look_up_p50_us": look_up["p50_ms"] * 1e3,
            "look_up_p99_us": look_up["p99_ms"] * 1e3,
            "verify_s": verified_s,
            "verify_problems": len(problems),
        }


def _rows(number: int) -> Iterator[Row]:
    """Rows with answers that do not compress."""
    luck = random.Random(2)  # noqa: S311 - test data
    for n in range(number):
        data = b'"%b"' % b64encode(luck.randbytes(RESULT_BYTES))
        entry = Entry(data, None, None, time.time(), 5.0, "simulated")
        yield Row("get_coin", "0" * 16, {"n": n}, "ok", entry)


async def _opened(_: Path, path: Path, key: str) -> tuple[float, int]:
    """Milliseconds of the first opening in a process, and by how much memory grew by it and one
    look-up.
    """
    before, started = rss_bytes(), time.perf_counter()
    with Snapshot(path) as opened:
        took_ms = (time.perf_counter() - started) * 1e3
        opened.get(key)
        return took_ms, rss_bytes() - before
