"""The worker process with an upstream library of our own making, whose functions misbehave."""

import asyncio
import io
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from adapters.akshare.adapter import AkShareAdapter, _Process
from adapters.akshare.worker import Worker
from adapters.fault import UpstreamFault
from adapters.normalise import Answer
from manifests import AkShareBinding, Manifest
from tests.support.checkout import ROOT
from tests.support.installed import NEEDS_AKSHARE
from tests.support.processes import akshare_workers, is_running
from tests.support.upstreams import CONTINUE, bare_server, for_ever, upstream
from tests.support.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.anyio, NEEDS_AKSHARE]

LIBRARY = """
import ctypes, functools, http.client, os, resource, signal, ssl, sys, threading, time
import urllib.request
import requests, urllib3
__version__ = "made for tests"
kept = []

def pid(): return os.getpid()
def slow(): time.sleep(0.3); return os.getpid()
def leaks(): raise ValueError("https://x/?token=planted-token and /root/planted/path")
def surrogate(): raise ValueError("\\ud800")
class Odd(Exception):
    def __str__(self): raise RuntimeError
def odd(): raise Odd
def lone():
    import pandas
    return pandas.DataFrame({"a": ["\\ud800"], "b": [1]}, dtype=object)
def leaves(): sys.exit(3)
def prints(): print("x" * 100_000); sys.stderr.write("y" * 100_000); return 1
def reads(): return sys.stdin.read(10)
def large(): return "x" * (17 * 2**20)
def swallows():
    try: requests.get("https://made.example/x").raise_for_status()
    except Exception: pass
    return []
def decodes(): return requests.get("https://made.example/x").json()
def nothing(): return []
def forks():
    child = os.fork()
    if child == 0: time.sleep(60); os._exit(0)
    return child
def forks_and_returns():
    process = os.getpid()
    os.fork()
    return process
def sleeps(): time.sleep(60)
def nap(): time.sleep(1.5); return os.getpid()
def get_requests(url): return requests.get(url, verify=False, timeout=30).text
def get_streamed(url): return [*requests.get(url, stream=True).iter_content(1)]
def get_urllib(url): return urllib.request.urlopen(url).read().decode()
def get_urllib3(url): return urllib3.PoolManager(cert_reqs="CERT_NONE").request("GET", url).data
def get_client(url):
    connection = http.client.HTTPConnection(url.split("/")[2])
    connection.request("GET", "/drip")
    return connection.getresponse().read().decode()
def get_trusting(url):
    while True:
        try: return requests.get(url, timeout=30).json()["data"]
        except Exception: time.sleep(0.1)
def spins():
    while True: pass
def retries():
    while True:
        try: requests.get("https://made.example/drip")
        except: pass
def swallows_all():
    while True:
        try:
            while True: pass
        except: pass
def sleeps_in_c(): ctypes.CDLL(None).sleep(60)
def waits(): threading.Lock().acquire(); lock = threading.Lock(); lock.acquire(); lock.acquire()
def stops_all(): ctypes.PyDLL(None).sleep(60)
def quits(): exit()
def leaves_at_once(): os._exit(3)
def ends(): os.kill(os.getpid(), signal.SIGTERM)
def crashes(): ctypes.string_at(0)
def leaves_in_thread():
    thread = threading.Thread(target=sys.exit)
    thread.start(); thread.join()
    return 1
def floods():
    for _ in range(64): os.write(1, b"x" * 2**20)
    print("x" * 2**24)
    return 1
def grows(): kept.append(b"x" * 2**25); return os.getpid()
def waits_for(file):
    while not os.path.exists(file): time.sleep(0.02)
    time.sleep(0.2)
    return os.getpid()
def waits_and_crashes(file):
    while not os.path.exists(file): time.sleep(0.01)
    crashes()
def waits_and_takes_all(file):
    while not os.path.exists(file): time.sleep(0.01)
    takes_all()
def frame():
    import pandas
    return pandas.DataFrame({"a": range(50_000), "b": 1.5})
@functools.lru_cache
def a_table() -> "pandas.DataFrame": return frame()[:1].assign(at=time.perf_counter_ns())
@functools.lru_cache
def a_number() -> int: return time.perf_counter_ns()
def grow_old():
    from adapters.akshare import worker_caches
    worker_caches.KEPT_S = 0
    return 1
def takes_all():
    blocks = []
    while True: blocks.append(bytearray(2**24))
def leaves_threads():
    for _ in range(120): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
def leaves_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    while True: kept.append(open(os.devnull))
"""

NAMES = [line[4 : line.index("(")] for line in LIBRARY.splitlines() if line.startswith("def ")]


@asynccontextmanager
async def open_library(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    start_s: float = 0,
    interrupts: bool = True,
    **options: Any,
) -> AsyncIterator[AkShareAdapter]:
    """An adapter of `LIBRARY`; without interrupts a call that ends has ended by itself."""
    package = folder / "library" / "akshare"
    package.mkdir(parents=True, exist_ok=True)
    code = f"{LIBRARY}\ntime.sleep({start_s})\n"
    if not interrupts:
        code += f"import __main__; __main__.INTERRUPT_S = __main__.GIVE_UP_S = {2 * PATIENCE_S}\n"
        monkeypatch.setattr("adapters.akshare.adapter.GRACE_S", 2 * PATIENCE_S)
    (package / "__init__.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", f"{package.parent}{os.pathsep}{ROOT}")
    options = {"workers": 1, "threads": 4, **options}
    async with AkShareAdapter.open(NAMES, **options) as adapter:
        yield adapter


Library = Callable[..., AbstractAsyncContextManager[AkShareAdapter]]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    return partial(open_library, tmp_path, monkeypatch)


def tool(function: str, paged: bool = False) -> Manifest:
    return Manifest(
        name=function,
        description="x",
        timeliness="daily",
        intent_type="informational",
        regulatory_domains=("equity",),
        binding=AkShareBinding(function=function, hosts=(f"{function}.com",), paged=paged),
    )


async def call(
    adapter: AkShareAdapter, function: str, timeout_s: float = PATIENCE_S, **arguments: str
) -> object:
    return json.loads((await adapter.fetch(tool(function), arguments, timeout_s)).data)


async def fault(
    adapter: AkShareAdapter, function: str, timeout_s: float = PATIENCE_S, **arguments: str
) -> UpstreamFault:
    with pytest.raises(UpstreamFault) as caught:
        await adapter.fetch(tool(function), arguments, timeout_s)
    return caught.value


def process_of(adapter: AkShareAdapter) -> _Process:
    (worker,) = adapter._plain.workers
    return worker.processes[-1]


@asynccontextmanager
async def dripping(tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """An upstream that sends a byte every 0.1 s, and nothing at all for `/hang`."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(2 * PATIENCE_S if request.path == "/hang" else 0)
        response = web.StreamResponse(headers={"Content-Length": "9000"})
        await response.prepare(request)
        for _ in range(9000):
            await response.write(b"x")
            await asyncio.sleep(0.1)
        return response

    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def own_certificate(folder: Path) -> ssl.SSLContext:
    openssl = shutil.which("openssl") or pytest.skip("openssl makes the certificate")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    options = f"req -x509 -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout {key}"
    run = [openssl, *options.split(), "-out", str(certificate)]
    subprocess.run(run, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


async def test_whatever_a_function_does_its_call_ends_in_one_reply(library: Library) -> None:
    async with library() as adapter:
        process = await call(adapter, "pid")
        assert await call(adapter, "reads") == ""
        for function, kind in (
            ("leaks", "invalid"),
            ("surrogate", "invalid"),
            ("odd", "invalid"),
            ("leaves", "invalid"),
            ("quits", "invalid"),
            ("large", "too_large"),
        ):
            found = await fault(adapter, function)
            assert found.kind == kind, function
            assert "planted" not in found.message
        assert await call(adapter, "lone") == [{"a": "\ufffd", "b": 1}]
        assert await call(adapter, "prints") == 1
        assert await call(adapter, "floods") == 1
        assert await call(adapter, "leaves_in_thread") == 1
        assert await call(adapter, "forks_and_returns") == process
        assert await call(adapter, "pid") == process, "one process bore it all"


async def test_every_wait_ends_at_the_deadline_and_costs_no_process(library: Library) -> None:
    async with (
        dripping() as clear,
        library(base_url=clear, threads=16, interrupts=False) as adapter,
    ):
        process = await call(adapter, "pid")
        waits = [
            fault(adapter, "sleeps", 0.5),
            fault(adapter, "get_client", 0.5, url=f"{clear}/drip"),
            fault(adapter, "get_requests", 0.5, url=f"{clear}/hang"),
            fault(adapter, "get_trusting", 0.5, url=f"{clear}/hang"),
            *(
                fault(adapter, function, 0.5, url=f"{clear}/drip")
                for function in ("get_requests", "get_streamed", "get_urllib", "get_urllib3")
            ),
        ]
        async with asyncio.timeout(PATIENCE_S):
            faults = await asyncio.gather(*waits)
        assert {(f.kind, f.retryable) for f in faults} == {("timeout", True)}
        await until(lambda: process_of(adapter).calls == {})
        assert await call(adapter, "pid") == process


async def test_informational_heads_without_end_end_at_the_deadline(library: Library) -> None:
    async with (
        bare_server(for_ever(CONTINUE)) as url,
        library() as adapter,
    ):
        process = await call(adapter, "pid", 60)
        for function in ("get_client", "get_requests", "get_urllib", "get_urllib3"):
            assert (await fault(adapter, function, 0.5, url=url)).kind == "timeout"
            assert await call(adapter, "pid", 60) == process
            assert process_of(adapter).calls == {}


async def test_a_wait_over_tls_ends_at_the_deadline_too(library: Library, tmp_path: Path) -> None:
    async with (
        dripping(own_certificate(tmp_path)) as tls,
        library(interrupts=False) as adapter,
    ):
        process = await call(adapter, "pid")
        for function in ("get_requests", "get_urllib3"):
            async with asyncio.timeout(PATIENCE_S):
                assert (await fault(adapter, function, 0.5, url=tls)).kind == "timeout"
        assert await call(adapter, "pid") == process


async def test_what_goes_on_after_its_deadline_costs_its_process_but_no_other_call(
    library: Library,
) -> None:
    async with (
        dripping() as url,
        library(base_url=url, threads=8) as adapter,
    ):
        for functions in (
            ("spins", "sleeps_in_c", "waits"),
            ("retries", "swallows_all"),
        ):
            first = await call(adapter, "pid")
            other = asyncio.create_task(call(adapter, "nap"))
            async with asyncio.timeout(PATIENCE_S):
                faults = await asyncio.gather(*(fault(adapter, f, 0.2) for f in functions))
            assert {(f.kind, f.retryable) for f in faults} == {("timeout", True)}
            second = await call(adapter, "pid")
            assert second != first
            assert akshare_workers(adapter) == [second]
            assert await other == first, "it was let end"
            await until(lambda: not is_running(first))  # noqa: B023 - awaited here


async def test_a_gateway_that_stood_still_kills_no_worker(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with library(interrupts=False) as adapter:
        monkeypatch.setattr("adapters.akshare.adapter.GRACE_S", 0.1)
        process = await call(adapter, "pid")
        asked = asyncio.create_task(call(adapter, "pid", 0.3))
        while not (process_of(adapter).calls or asked.done()):
            await asyncio.sleep(0)
        time.sleep(1.2)  # noqa: ASYNC251 - so that its reply and its last moment are both there
        await asyncio.gather(asked, return_exceptions=True)
        assert await call(adapter, "pid") == process


async def test_an_ended_process_says_how_and_is_replaced(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.akshare.adapter.GRACE_S", 0.5)
    async with library() as adapter:
        for function, how, timeout_s in (
            ("leaves_at_once", "ended with status 3", 30),
            ("ends", "ended by signal SIGTERM", 30),
            ("crashes", "ended by signal SIGSEGV", 30),
            ("stops_all", "was killed, as a call in it held on 0.5 s after its deadline", 1),
        ):
            await call(adapter, "pid", 30)
            async with asyncio.timeout(PATIENCE_S):
                found = await fault(adapter, function, timeout_s)
            assert (found.kind, found.retryable) == ("crashed", False), "it ran alone once more"
            assert found.message == f"the worker process that ran the call {how}"
        process = await call(adapter, "pid", 30)
        slow = asyncio.create_task(call(adapter, "nap"))
        await until(lambda: process_of(adapter).calls)
        os.kill(process_of(adapter).id, signal.SIGKILL)
        assert await slow != process, "it ran once more"
        assert await call(adapter, "pid", 30) != process


@pytest.mark.parametrize(
    ("function", "kind"), [("waits_and_crashes", "crashed"), ("waits_and_takes_all", "too_large")]
)
async def test_a_call_that_costs_its_worker_takes_no_other_call_along(
    library: Library, tmp_path: Path, function: str, kind: str
) -> None:
    async with library(threads=16, worker_bytes=2**28) as adapter:
        gate = tmp_path / "gate"
        first = await call(adapter, "pid", 60)
        others = [call(adapter, "waits_for", 60, file=str(gate)) for _ in range(4)]
        tasks = [asyncio.create_task(other) for other in others]
        blamed = asyncio.create_task(fault(adapter, function, 60, file=str(gate)))
        await until(lambda: len(process_of(adapter).calls) == 5)
        gate.touch()
        assert (await blamed).kind == kind
        processes = await asyncio.gather(*tasks)
        assert all(isinstance(process, int) for process in processes)
        if kind == "crashed":
            assert first not in processes, "each of them ran once more"


async def test_a_transactional_call_does_not_run_twice(library: Library) -> None:
    async with library() as adapter:
        await call(adapter, "pid", 60)
        placed = tool("sleeps").model_copy(update={"intent_type": "transactional"})
        tasks = [asyncio.create_task(adapter.fetch(placed, {}, 60)) for _ in range(2)]
        await until(lambda: len(process_of(adapter).calls) == 2)
        os.kill(process_of(adapter).id, signal.SIGKILL)
        for task in tasks:
            with pytest.raises(UpstreamFault, match="ended by signal SIGKILL") as caught:
                await task
            assert caught.value.kind == "crashed"


async def test_calls_that_the_end_cuts_off_start_no_process(library: Library) -> None:
    async with library() as adapter:
        await call(adapter, "pid")
        tasks = [asyncio.create_task(fault(adapter, "sleeps", 600)) for _ in range(20)]
        await until(lambda: process_of(adapter).calls)
    async with asyncio.timeout(PATIENCE_S):
        assert {found.kind for found in await asyncio.gather(*tasks)} == {"crashed"}


async def test_many_frames_at_once_stay_within_a_worker_s_memory(library: Library) -> None:
    async with library(threads=32, worker_bytes=2**28) as adapter:
        first = await call(adapter, "pid", 60)
        answers = [adapter.fetch(tool("frame"), {}, 60) for _ in range(16)]
        assert {answer.rows for answer in await asyncio.gather(*answers)} == {50_000}
        assert adapter.workers()["started"] == 1, first


async def test_a_table_that_a_function_keeps_for_itself_is_made_anew(library: Library) -> None:
    async with library() as adapter:
        made = [(await adapter.fetch(tool("a_table"), {}, 60)).data for _ in range(2)]
        number = await call(adapter, "a_number")
        await call(adapter, "grow_old")
        made.append((await adapter.fetch(tool("a_table"), {}, 60)).data)
        assert made[0] == made[1] != made[2]
        assert await call(adapter, "a_number") == number, "only tables age"


async def test_a_worker_that_has_grown_is_retired(library: Library) -> None:
    async with library(worker_bytes=2**28) as adapter:
        processes = [await call(adapter, "grows") for _ in range(16)]
        assert 2 <= len(set(processes)) <= 4

        other = asyncio.create_task(call(adapter, "slow"))
        found = await fault(adapter, "takes_all")
        assert (found.kind, found.retryable) == ("too_large", False)
        assert found.message == "the call ran out of its worker's memory"
        first, second = await other, await call(adapter, "pid")
        assert first == processes[-1] != second


async def test_a_worker_is_retired_after_many_calls_and_if_threads_or_files_are_left_behind(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.akshare.adapter.MOST_CALLS", 3)
    async with library() as adapter:
        processes = [await call(adapter, "pid") for _ in range(4)]
        assert [processes.index(process) for process in processes] == [0, 0, 0, 3]
        assert (await fault(adapter, "leaves_threads")).kind == "empty"
        processes.append(await call(adapter, "pid"))
        assert (await fault(adapter, "leaves_files")).kind == "invalid"
        processes.append(await call(adapter, "pid"))
        assert len(set(processes)) == 4


async def test_functions_with_pages_take_no_thread_of_the_others(library: Library) -> None:
    async with library(threads=2) as adapter:

        def paged_call(function: str) -> Coroutine[Any, Any, Answer]:
            return adapter.fetch(tool(function, paged=True), {}, PATIENCE_S)

        await asyncio.gather(call(adapter, "pid"), paged_call("pid"))
        plain, paged = akshare_workers(adapter)
        assert plain != paged
        sleeping = [asyncio.create_task(paged_call("sleeps")) for _ in range(4)]
        await until(lambda: adapter._paged.workers[0].processes[-1].calls)
        assert await call(adapter, "pid") == plain
        assert not any(call.done() for call in sleeping)
        for sleeper in sleeping:
            sleeper.cancel()
        slow = await asyncio.gather(*(paged_call("slow") for _ in range(4)))
        assert {int(answer.data) for answer in slow} == {paged}


async def test_a_caller_who_leaves_frees_the_thread(library: Library) -> None:
    hanging = {"url": "https://made.example/hang"}
    calls: dict[str, dict[str, str]]
    calls = {"sleeps": {}, "get_requests": hanging, "get_streamed": hanging}
    async with (
        dripping() as url,
        library(base_url=url, threads=1, interrupts=False) as adapter,
    ):
        process = await call(adapter, "pid")
        for function, arguments in calls.items():
            left = asyncio.create_task(adapter.fetch(tool(function), arguments, 2 * PATIENCE_S))
            await until(lambda: process_of(adapter).calls)
            await asyncio.sleep(0.1)  # mostly it has begun by now; one that has not must go as well
            left.cancel()
            assert await call(adapter, "pid", PATIENCE_S / 2) == process


def test_a_call_that_is_cancelled_before_it_began_is_answered_and_not_run() -> None:
    out = io.BytesIO()
    worker = Worker({}, out)
    job = {"id": 7, "function": "pid", "arguments": {}, "credentials": {}, "timeout_s": 10}
    worker.submit(job)
    worker.cancel(7)
    assert b'"id":7' in out.getvalue()
    assert b'"timeout"' in out.getvalue()
    worker.cancel(7)
    worker.cancel(8)
    assert out.getvalue().count(b'"id"') == 1


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_worker_leaves_root_where_nobody_can_read_what_it_needs(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").touch()
    code = f"""
import os
from adapters.akshare.worker import _leave_root
_leave_root(["/", {str(closed / "file")!r}])
print(os.getresuid(), os.getresgid())
_leave_root(["/"])
print(os.getresuid(), os.getresgid(), os.getgroups())
"""
    run = [sys.executable, "-c", code]
    said = subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    nobody = (65534,) * 3
    assert said.splitlines() == ["(0, 0, 0) (0, 0, 0)", f"{nobody} {nobody} []"]


async def test_a_child_of_a_function_does_not_keep_a_dead_worker_alive(library: Library) -> None:
    async with library() as adapter:
        child = await call(adapter, "forks")
        killed = process_of(adapter)
        killed.kill()
        await until(lambda: killed.has_ended)
        assert isinstance(await call(adapter, "pid"), int)
    await until(lambda: not is_running(child))


async def test_a_start_that_takes_longer_than_a_caller_waits_is_not_lost(library: Library) -> None:
    async with library(start_s=0.5) as adapter:
        process = None
        async with asyncio.timeout(PATIENCE_S):
            while process is None:  # the start goes on while its callers leave
                with suppress(TimeoutError, UpstreamFault):
                    async with asyncio.timeout(0.2):
                        process = await call(adapter, "pid", timeout_s=0.2)
        assert akshare_workers(adapter) == [process]
        assert sum(worker.started for worker in adapter._plain.workers) == 1


async def test_a_first_burst_is_spread_over_the_workers(library: Library) -> None:
    async with library(workers=2, threads=8) as adapter:
        processes = await asyncio.gather(*(call(adapter, "slow") for _ in range(8)))
        assert sorted(processes.count(p) for p in set(processes)) == [4, 4]


async def test_trouble_on_the_way_is_told_and_arguments_are_not_blamed_for_it(
    library: Library,
) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=statuses.pop(0), text="<html>")

    statuses = [503, 403, 404, 200, 503, 200]
    hint = "the upstream may not know an argument's value, or answers in a new form"
    raised = "the function raised JSONDecodeError"
    async with upstream(handler) as url, library(base_url=url) as adapter:
        messages = [(await fault(adapter, "decodes")).message for _ in range(4)]
        assert messages[:2] == [f"{raised}, after HTTP 503", f"{raised}, after HTTP 403"]
        assert messages[2:] == [f"{raised}: {hint}, after HTTP 404", f"{raised}: {hint}"]
        trouble = await fault(adapter, "swallows")
        assert (trouble.kind, trouble.retryable) == ("status", True)
        assert trouble.message == "the function returned nothing, after HTTP 503"
        assert await call(adapter, "swallows") == [], "without trouble an empty answer is one"
        assert await call(adapter, "nothing") == []
    async with library(base_url=url) as adapter:
        lost = await fault(adapter, "decodes")
        assert lost.message == "the function raised ConnectionError, after ConnectionError"
        assert (await fault(adapter, "swallows")).kind == "unreachable"
