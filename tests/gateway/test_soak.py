"""Endurance: a hundred thousand calls among faults of all kinds. `make soak`."""

import asyncio
import ctypes
import gc
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from adapters.simulator import Fault, Faults
from gateway import Gateway
from gateway.trace import JsonLines
from manifests import Catalog
from tests.support.gateways import open_local_gateway

pytestmark = [pytest.mark.anyio, pytest.mark.soak]

CALLS, AT_ONCE, FAULTY = 100_000, 2_000, 0.2
WARM_UP = 20_000
ONE_IN = 40
"""One call in so many goes to AkShare, through real worker processes."""

LARGE = {Fault.HUGE: 0.0003, Fault.GZIP_BOMB: 0.0003, Fault.DRIP: 0.002, Fault.HANG: 0.002}
# A quota that is used up would end all later calls to its host before they are made.
OTHERS = [fault for fault in Fault if fault not in LARGE and fault is not Fault.QUOTA_EXHAUSTED]


def resources() -> dict[str, int]:
    return {
        "tasks": len(asyncio.all_tasks()),
        # anyio keeps its own for as long as the loop runs, 40 at most
        "threads": sum("AnyIO" not in thread.name for thread in threading.enumerate()),
        "files": len(os.listdir("/proc/self/fd")),
        "processes": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
    }


def memory_mib() -> float:
    """What is held: not what the allocator keeps for later (malloc_trim(3))."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def test_every_call_among_mixed_faults_ends_once_and_leaves_nothing(
    catalog: Catalog, tmp_path: Path
) -> None:
    ended = Counter[str]()

    async def call(gateway: Gateway, number: int) -> None:
        if number % ONE_IN == 0:
            dates = {"start_date": "20240101", "end_date": "20240105"}
            result = await gateway.call("stock_zh_a_hist", {"symbol": f"{number:06}", **dates})
        else:
            arguments = {"uuid": "x", "referencecurrencyuuid": f"u{number}"}
            result = await gateway.call("get_coin", arguments)
        ended[result.error.code.value if result.error else "ok"] += 1

    async def drive(gateway: Gateway, numbers: range) -> None:
        left = iter(numbers)

        async def work() -> None:
            for number in left:
                await call(gateway, number)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    rate = (FAULTY - sum(LARGE.values())) / len(OTHERS)
    faults = Faults(rates={**LARGE, **dict.fromkeys(OTHERS, rate)})
    settings: dict[str, Any] = {
        "attempt_timeout_s": 5.0,
        "deadline_s": 60.0,
        "max_concurrency_per_host": 256,
        "akshare_workers": 2,
        "memory_bytes": 16 * 2**20,  # so that every tier is full after the first calls
        "disk_bytes": 8 * 2**20,
    }
    async with open_local_gateway(catalog, tmp_path / "first", faults, **settings) as local:
        await drive(local.gateway, range(WARM_UP))  # what is opened or filled once stays so
    await asyncio.sleep(0.5)
    ended.clear()
    before, before_mib, started = resources(), memory_mib(), time.monotonic()
    async with (
        JsonLines.open(tmp_path / "calls.jsonl") as trace,
        open_local_gateway(catalog, tmp_path, faults, trace, **settings) as local,
    ):
        await drive(local.gateway, range(CALLS))
        asked = local.simulator.requests.total()
        assert local.gateway.answers.pending == local.gateway.answers.under_way == 0
    await asyncio.sleep(0.5)
    after, after_mib, took_s = resources(), memory_mib(), time.monotonic() - started
    lines = (tmp_path / "calls.jsonl").read_bytes().splitlines()
    records = [orjson.loads(line) for line in lines]
    sys.stdout.write(
        f"\n{CALLS} calls, {asked} upstream requests in {took_s:.0f} s: {dict(ended)}\n"
        f"before {before}, {before_mib:.0f} MiB; after {after}, {after_mib:.0f} MiB\n"
    )
    assert ended.total() == len(records) == len({r["call_id"] for r in records}) == CALLS
    assert Counter(r["code"] or "ok" for r in records) == ended
    assert ended["internal"] == 0
    assert ended["ok"] > CALLS * (1 - FAULTY) * 0.9
    assert after == before
    assert after_mib < before_mib * 1.1
