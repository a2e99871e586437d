"""AkShare from asyncio: a few worker processes, each with a small pool of threads.

This side never imports akshare. A call takes a turn at its upstream host, then a free thread of a
worker. The worker bounds every socket by the call's deadline; a worker that still holds a call some
time after its deadline is killed and replaced, and what else ran in it fails as `crashed`. Workers
start on first use, get no secrets in their environment, and end with their parent.
"""

import asyncio
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from typing import Any

import anyio
import orjson

from adapters.akshare_worker import LENGTHS, frame
from adapters.credential import credential_arguments
from adapters.fault import UpstreamFault
from adapters.host import HostLimits, registrable_domain
from adapters.normalise import Answer
from manifests import AkShareBinding, Manifest, Scalar

GRACE_S = 2.0
"""How long after its deadline a call may still hold a thread."""

START_S = 60.0

_ENVIRONMENT = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH"),
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)

Reply = tuple[dict[str, Any], bytes]


class AkShareAdapter:
    """Runs AkShare functions. Made by `AkShareAdapter.open`."""

    def __init__(
        self,
        hello: Mapping[str, Any],
        workers: int,
        per_host: int,
        credentials: Mapping[str, str],
    ) -> None:
        self._workers = [_Worker(hello) for _ in range(workers)]
        self._threads = asyncio.Semaphore(workers * hello["threads"])
        self._hosts = HostLimits(per_host)
        self._credentials = credentials

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        functions: Sequence[str],
        *,
        base_url: str | None = None,
        workers: int = 2,
        threads: int = 16,
        per_host: int = 16,
        credentials: Mapping[str, str] | None = None,
    ) -> AsyncIterator["AkShareAdapter"]:
        """`functions` may be called and no others; `base_url` redirects all their requests."""
        hello = {"functions": functions, "base_url": base_url, "threads": threads}
        adapter = cls(hello, workers, per_host, credentials or {})
        try:
            yield adapter
        finally:
            with anyio.CancelScope(shield=True):
                await asyncio.gather(*(worker.stop() for worker in adapter._workers))

    async def fetch(
        self, manifest: Manifest, arguments: Mapping[str, Scalar], timeout_s: float
    ) -> Answer:
        binding = manifest.binding
        if not isinstance(binding, AkShareBinding):
            raise TypeError(f"{manifest.name} is no AkShare tool")
        if importlib.util.find_spec("akshare") is None:
            raise UpstreamFault(
                "not_configured", "AkShare is not installed: pip install 'finport[akshare]'"
            )
        deadline = asyncio.get_running_loop().time() + timeout_s
        with ExitStack() as turns:
            for turn in (self._hosts.of(registrable_domain(manifest.upstream)), self._threads):
                await turn.acquire()
                turns.callback(turn.release)
            worker = min(self._workers, key=lambda w: w.load)
            worker.load += 1
            turns.callback(worker.unload)
            complete = self._complete(manifest, arguments, deadline)
            call = await worker.send(binding.function, complete, deadline)
            # The turns stay taken until the worker lets go, also when this caller is cancelled.
            held = turns.pop_all()
            call.add_done_callback(lambda _: held.close())
        head, data = await asyncio.shield(call)
        if "fault" in head:
            raise UpstreamFault(**head["fault"])
        columns = head["columns"]
        return Answer(data, None if columns is None else tuple(columns), head["rows"])

    def _complete(
        self, manifest: Manifest, arguments: Mapping[str, Scalar], deadline: float
    ) -> dict[str, Scalar]:
        left = deadline - asyncio.get_running_loop().time()
        timeouts = {p.name: left for p in manifest.parameters if p.filled_by == "deadline"}
        return {**arguments, **credential_arguments(manifest, self._credentials), **timeouts}


class _Worker:
    """One worker process, started when first needed and again after it ended."""

    def __init__(self, hello: Mapping[str, Any]) -> None:
        self.load = 0
        self.calls: dict[int, asyncio.Future[Reply]] = {}
        self._hello = hello
        self._process: Process | None = None
        self._start: asyncio.Task[Process] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._ids = count()

    def unload(self) -> None:
        self.load -= 1

    async def send(
        self, function: str, arguments: Mapping[str, Scalar], deadline: float
    ) -> asyncio.Future[Reply]:
        """Hand one call over; the future holds its reply, or a fault if the worker ends."""
        process = await self._started()
        loop = asyncio.get_running_loop()
        call, number = loop.create_future(), next(self._ids)
        self.calls[number] = call
        stuck = loop.call_at(deadline + GRACE_S, self.kill)
        call.add_done_callback(lambda _: stuck.cancel())
        job = {
            "id": number,
            "function": function,
            "arguments": arguments,
            "timeout_s": deadline - loop.time(),
        }
        _input(process).write(frame(job))
        return call

    def kill(self) -> None:
        """End the process and whatever it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def stop(self) -> None:
        """Close the worker's input, upon which it ends whatever it does."""
        if self._start is not None:
            await asyncio.wait([self._start])
        if self._process is not None and self._listening is not None:
            _input(self._process).close()
            with anyio.move_on_after(GRACE_S):
                await asyncio.shield(self._listening)
            self.kill()
            await self._listening

    async def _started(self) -> Process:
        """The running process. A caller that leaves does not end its start."""
        if self._process is not None:
            return self._process
        if self._start is None:
            self._start = asyncio.create_task(self._launch())
        return await asyncio.shield(self._start)

    async def _launch(self) -> Process:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "adapters.akshare_worker"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                start_new_session=True,  # Ctrl-C is for the parent, which ends its workers itself
            )
            self._process = process
            _input(process).write(frame(self._hello))
            try:
                with anyio.fail_after(START_S):
                    head, _ = await _read(process)
            except (TimeoutError, asyncio.IncompleteReadError):
                head = {"failed": "the AkShare worker did not start"}
            if "failed" in head:
                self.kill()
                self._process = None
                raise UpstreamFault("not_configured", head["failed"])
            self._listening = asyncio.create_task(self._listen(process))
            return process
        finally:
            self._start = None

    async def _listen(self, process: Process) -> None:
        """Deliver replies until the worker ends; then fail what it still held."""
        ended = asyncio.create_task(self._wait(process))
        try:
            while True:
                head, data = await _read(process)
                self.calls.pop(head["id"]).set_result((head, data))
        except asyncio.IncompleteReadError:
            pass
        finally:
            self._process = None
            message = "the worker process that ran the call ended"
            fault = {"kind": "crashed", "message": message, "retryable": True}
            lost, self.calls = self.calls, {}
            for call in lost.values():
                call.set_result(({"fault": fault}, b""))
            await ended

    async def _wait(self, process: Process) -> None:
        """A process that ended takes along what it forked: that would hold its pipe open."""
        await process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _input(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    return process.stdin


async def _read(process: Process) -> Reply:
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    head, body = LENGTHS.unpack(await process.stdout.readexactly(LENGTHS.size))
    text = await process.stdout.readexactly(head)
    return orjson.loads(text), await process.stdout.readexactly(body)
