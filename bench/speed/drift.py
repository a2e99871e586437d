"""Speed of comparing snapshots: `finbench drift diff` as a whole command, and its memory.

Two simulated snapshots of three calls a tool, with drift planted in them, are compared first. Then
each of their calls stands many times in two larger ones, so that there are `CALLS` answers in each.
The memory is the sum of what the command's processes hold at the same time.
"""

import asyncio
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bench.processes import FINBENCH
from bench.speed.harness import Figures, Harness, MeasurementError, each, log
from cache import Recorder, Row, Snapshot

CALLS = 100_000
AT_ONCE = 500
LOOK_S = 0.1


async def measure(harness: Harness) -> Figures:
    """Seconds and MiB of both comparisons."""
    calls = harness.number(CALLS)
    log.info("simulating two snapshots")
    await asyncio.to_thread(_run, "accuracy", "--seed", "1", "--out", harness.folder, "--json")
    pair = [harness.folder / f"{side}.snapshot" for side in ("before", "after")]
    figures = await _compared("three_calls", pair)
    log.info("writing two snapshots of %d answers", calls)
    larger = [await _multiplied(path, calls) for path in pair]
    return figures | await _compared(f"{calls}_answers", larger)


async def _compared(what: str, pair: list[Path]) -> Figures:
    log.info("comparing %s", what)
    took_s, most = await asyncio.to_thread(_run, "diff", *pair, "--json")
    with Snapshot(pair[0]) as snapshot:
        return {
            f"{what}_compared": snapshot.summary.rows,
            f"{what}_mib": snapshot.bytes / 2**20,
            f"{what}_s": took_s,
            f"{what}_peak_mib": most / 2**20,
        }


async def _multiplied(path: Path, calls: int) -> Path:
    """A snapshot with the rows of another again and again, each time with another argument."""
    large = path.with_stem(f"{path.stem}-large")
    with Snapshot(path) as snapshot:
        times = -(-calls // snapshot.summary.rows)
        async with Recorder.open(large, "simulated") as recorder:
            await each(islice(_copies(snapshot.rows(), times), calls), AT_ONCE, recorder.add)
    return large


def _copies(rows: Iterable[Row], times: int) -> Iterator[Row]:
    for row in rows:
        for number in range(times):
            yield replace(row, arguments={**row.arguments, "simulated_copy": number})


def _run(*arguments: str | Path) -> tuple[float, int]:
    """Run the command; returns its seconds, and the most bytes its processes held at once."""
    started, most = time.perf_counter(), 0
    quiet = subprocess.DEVNULL
    command = [*FINBENCH, "drift", *arguments]
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:  # noqa: S603 - ours
        while process.poll() is None:
            most = max(most, _rss_bytes(str(process.pid)))
            time.sleep(LOOK_S)
    if process.returncode:
        raise MeasurementError(f"finbench drift {arguments[0]} ended with {process.returncode}")
    return time.perf_counter() - started, most


def _rss_bytes(pid: str) -> int:
    """The memory that a process and its descendants hold; 0 if it has ended."""
    proc = Path("/proc") / pid
    with suppress(OSError):
        status = (proc / "status").read_text().partition("VmRSS:")[2].split()
        children = (proc / "task" / pid / "children").read_text().split()
        own = int(status[0]) * 1024 if status else 0
        return own + sum(map(_rss_bytes, children))
    return 0
