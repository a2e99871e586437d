"""The worker process with an upstream library of our own making, whose functions misbehave."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from adapters.akshare import AkShareAdapter
from adapters.fault import UpstreamFault
from manifests import AkShareBinding, Manifest
from tests.adapters.test_rapidapi import upstream

pytestmark = pytest.mark.anyio

pytest.importorskip("akshare", reason="the akshare extra is not installed")

LIBRARY = """
import multiprocessing, os, sys, threading, time
time.sleep(0.5)
__version__ = "made for tests"

def pid(): return os.getpid()
def slow(): time.sleep(0.3); return os.getpid()
def leaks(): raise ValueError("https://x/?token=planted-token and /root/planted/path")
def surrogate(): raise ValueError("\\ud800")
class Odd(Exception):
    def __str__(self): raise RuntimeError
def odd(): raise Odd
def unencodable(): return {"a": "\\ud800"}
def leaves(): sys.exit(3)
def prints(): print("x" * 100_000); sys.stderr.write("y" * 100_000); return 1
def reads(): return sys.stdin.read(10)
def large(): return "x" * (17 * 2**20)
def spins():
    while True: pass
def swallows():
    import requests
    try: requests.get("https://made.example/x").raise_for_status()
    except Exception: pass
    return []
def nothing(): return []
def forks():
    child = os.fork()
    if child == 0: time.sleep(60); os._exit(0)
    return child
"""

NAMES = [line[4 : line.index("(")] for line in LIBRARY.splitlines() if line.startswith("def ")]


@asynccontextmanager
async def library(
    folder: Path, monkeypatch: pytest.MonkeyPatch, workers: int = 1, base_url: str | None = None
) -> AsyncIterator[AkShareAdapter]:
    package = folder / "library" / "akshare"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(LIBRARY)
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{package.parent}{os.pathsep}{root}")
    async with AkShareAdapter.open(NAMES, base_url=base_url, workers=workers, threads=4) as adapter:
        yield adapter


def tool(function: str) -> Manifest:
    return Manifest(
        name=function,
        description="x",
        timeliness="daily",
        intent_type="informational",
        regulatory_domains=("equity",),
        binding=AkShareBinding(function=function, hosts=(f"{function}.com",)),
    )


async def call(adapter: AkShareAdapter, function: str, timeout_s: float = 10) -> object:
    return json.loads((await adapter.fetch(tool(function), {}, timeout_s)).data)


async def fault(adapter: AkShareAdapter, function: str, timeout_s: float = 10) -> UpstreamFault:
    with pytest.raises(UpstreamFault) as caught:
        await adapter.fetch(tool(function), {}, timeout_s)
    return caught.value


async def test_whatever_a_function_does_its_call_ends_in_one_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with library(tmp_path, monkeypatch) as adapter:
        process = await call(adapter, "pid")
        for function, kind in (
            ("leaks", "invalid"),
            ("surrogate", "invalid"),
            ("odd", "invalid"),
            ("unencodable", "invalid"),
            ("leaves", "invalid"),
            ("large", "too_large"),
        ):
            found = await fault(adapter, function)
            assert found.kind == kind, function
            assert "planted" not in found.message
        assert await call(adapter, "prints") == 1
        assert await call(adapter, "reads") == ""
        assert await call(adapter, "pid") == process, "one process bore it all"


async def test_a_call_that_cannot_be_stopped_costs_the_process_and_no_later_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with library(tmp_path, monkeypatch) as adapter:
        process = await call(adapter, "pid")
        found = await fault(adapter, "spins", timeout_s=0.2)
        assert (found.kind, found.retryable) == ("crashed", True)
        assert await call(adapter, "pid") != process


async def test_a_child_of_a_function_does_not_keep_a_dead_worker_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with library(tmp_path, monkeypatch) as adapter:
        child = await call(adapter, "forks")
        (worker,) = adapter._workers
        worker.kill()
        await asyncio.sleep(0.2)
        assert isinstance(await call(adapter, "pid"), int)
    assert not is_running(child)


def is_running(process: object) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # an orphan that nobody has reaped is dead all the same


async def test_a_start_that_takes_longer_than_a_caller_waits_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with library(tmp_path, monkeypatch) as adapter:
        outcomes = []
        for _ in range(12):
            try:
                async with asyncio.timeout(0.2):
                    outcomes.append(await call(adapter, "pid", timeout_s=0.2))
            except (TimeoutError, UpstreamFault):
                outcomes.append(None)
        assert any(outcomes), "the start went on while its callers left"


async def test_a_first_burst_is_spread_over_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with library(tmp_path, monkeypatch, workers=2) as adapter:
        processes = await asyncio.gather(*(call(adapter, "slow") for _ in range(8)))
        assert sorted(processes.count(p) for p in set(processes)) == [4, 4]


async def test_an_empty_answer_after_transport_trouble_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=statuses.pop())

    statuses = [200, 503]
    async with (
        upstream(handler) as url,
        library(tmp_path, monkeypatch, base_url=url) as adapter,
    ):
        trouble = await fault(adapter, "swallows")
        assert (trouble.kind, trouble.retryable) == ("status", True)
        assert trouble.message == "the function returned nothing, after HTTP 503"
        assert await call(adapter, "swallows") == [], "without trouble an empty answer is one"
        assert await call(adapter, "nothing") == []
    (tmp_path / "refused").mkdir()
    async with library(tmp_path / "refused", monkeypatch, base_url=url) as adapter:
        assert (await fault(adapter, "swallows")).kind == "unreachable"
