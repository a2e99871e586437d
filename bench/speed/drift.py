"""Speed of comparing snapshots: `finbench drift diff` as a whole command, and its memory.

Two simulated snapshots of three calls a tool, with drift planted in them, are compared first. Then
each of their calls stands many times in two larger ones, so that there are `CALLS` answers in each.
The memory is the sum of what the command's processes hold at the same time.
"""

import asyncio
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bench.speed.measurement import MeasurementError
from cache import Recorder, Row, Snapshot

log = logging.getLogger("finbench.speed")

CALLS = 100_000
AT_ONCE = 500
LOOK_S = 0.1

Figures = dict[str, float | str]

_FINBENCH = (sys.executable, "-P", "-c", "from bench.cli.main import main; main()", "drift")


def drift(calls: int = CALLS) -> Figures:
    """Seconds, MiB and findings of both comparisons."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        folder = Path(name)
        log.info("simulating two snapshots")
        _run("accuracy", "--seed", "1", "--out", str(folder), "--json")
        pair = [folder / f"{side}.snapshot" for side in ("before", "after")]
        for what in ("three_calls", f"{calls}_answers"):
            if what != "three_calls":
                log.info("writing two snapshots of %d answers", calls)
                larger = [path.with_stem(f"{path.stem}-large") for path in pair]
                for path, large in zip(pair, larger, strict=True):
                    asyncio.run(_multiply(path, large, calls))
                pair = larger
            log.info("comparing %s", what)
            seconds, most = _run("diff", *map(str, pair), "--json")
            with Snapshot(pair[0]) as snapshot:
                figures[f"{what}_compared"] = snapshot.summary.rows
                figures[f"{what}_mib"] = snapshot.bytes / 2**20
            figures[f"{what}_s"] = seconds
            figures[f"{what}_peak_mib"] = most / 2**20
    return figures


async def _multiply(path: Path, large: Path, calls: int) -> None:
    """Write the rows of a snapshot again and again, each time with another argument."""
    with Snapshot(path) as snapshot:
        times = -(-calls // snapshot.summary.rows)
        async with Recorder.open(large, "simulated") as recorder:
            rows = islice(_copies(snapshot.rows(), times), calls)
            while batch := [*islice(rows, AT_ONCE)]:
                await asyncio.gather(*map(recorder.add, batch))


def _copies(rows: Iterable[Row], times: int) -> Iterator[Row]:
    for row in rows:
        for number in range(times):
            yield replace(row, arguments={**row.arguments, "simulated_copy": number})


def _run(*arguments: str) -> tuple[float, int]:
    """Run the command; returns its seconds, and the most bytes its processes held at once."""
    started, most = time.perf_counter(), 0
    quiet = subprocess.DEVNULL
    command = [*_FINBENCH, *arguments]
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:  # noqa: S603 - ours
        while process.poll() is None:
            most = max(most, sum(map(_rss_bytes, _with_children(process.pid))))
            time.sleep(LOOK_S)
    if process.returncode:
        raise MeasurementError(f"finbench drift {arguments[0]} ended with {process.returncode}")
    return time.perf_counter() - started, most


def _with_children(process: int) -> Iterator[int]:
    yield process
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _with_children(int(child))


def _rss_bytes(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    held = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(held[0]) * 1024 if held else 0
