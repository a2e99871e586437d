"""Runs AkShare functions from asyncio, in a few worker processes with a small pool of threads each.

This process never imports akshare. A call takes a free thread of a worker. Functions that fetch
pages have a worker of their own and never take the threads of others. No host can take all threads.
The worker bounds every wait by the call's deadline and ends a call whose caller has left. A worker
that still holds a call some time after its deadline is killed.

If a worker dies or runs out of memory, each of its calls runs once more, in a process where no
other call runs. So only the call at fault fails. Calls of transactional tools do not run twice.

A worker is retired if it asks for that, has grown, or has answered many calls: it gets no new calls
and ends after the last it holds.
Workers start on first use, get no secrets in their environment, and end with their parent.
"""

import asyncio
import importlib.util
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from typing import Any

import anyio

from adapters.adapter import Adapter, credential_arguments
from adapters.fair_queue import Shares
from adapters.fault import UpstreamFault
from adapters.host import registrable_domain
from adapters.normalise import Answer
from adapters.process import kill, receive, send, standard_input, start
from manifests import AkShareBinding, Manifest, Scalar

GRACE_S = 2.0
"""Seconds after its deadline for which a call may still hold a thread."""

STOOD_S = 0.5
"""Seconds of delay of a timer that show that this process was stalled."""

START_S = 60.0

ALONE = 2
"""Processes that rerun calls whose worker died, each of them one call at a time."""

MOST_CALLS = 20_000
"""Calls that a worker answers before it is retired."""

Reply = tuple[dict[str, Any], bytes]


class AkShareAdapter(Adapter):
    """Runs AkShare functions. Made by `AkShareAdapter.open`."""

    def __init__(
        self, hello: Mapping[str, Any], workers: int, credentials: Mapping[str, str]
    ) -> None:
        self._plain, self._paged = _Lane(hello, workers), _Lane(hello, 1)
        self._alone = _Lane({**hello, "threads": 1}, ALONE)
        self._credentials = credentials
        self._is_installed = importlib.util.find_spec("akshare") is not None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        functions: Sequence[str],
        *,
        base_url: str | None = None,
        workers: int = 2,
        threads: int = 16,
        worker_bytes: int = 2**30,
        credentials: Mapping[str, str] | None = None,
    ) -> AsyncIterator["AkShareAdapter"]:
        """Open an adapter that calls only `functions`; `base_url` redirects all their requests.

        A worker is retired when more than `worker_bytes` of its memory are resident. It can never
        get more than twice that.
        """
        hello = {
            "functions": functions,
            "base_url": base_url,
            "threads": threads,
            "worker_bytes": worker_bytes,
        }
        adapter = cls(hello, workers, credentials or {})
        try:
            yield adapter
        finally:
            with anyio.CancelScope(shield=True):
                await asyncio.gather(*(lane.stop() for lane in adapter._lanes))

    def workers(self) -> dict[str, int]:
        workers = [worker for lane in self._lanes for worker in lane.workers]
        living = [p for worker in workers for p in worker.processes if not p.has_ended]
        busy = sum(p.is_open and bool(p.calls) for p in living)
        retiring = sum(not p.is_open for p in living)
        return {
            "busy": busy,
            "idle": len(living) - busy - retiring,
            "retiring": retiring,
            "started": sum(worker.started for worker in workers),
        }

    async def fetch(
        self,
        manifest: Manifest,
        arguments: Mapping[str, Scalar],
        timeout_s: float,
        client: str = "",  # noqa: ARG002 - its tools have no sessions
    ) -> Answer:
        binding = manifest.binding
        if not isinstance(binding, AkShareBinding):
            raise TypeError(f"{manifest.name} is no AkShare tool")
        if not self._is_installed:
            raise UpstreamFault(
                "not_configured", "AkShare is not installed: pip install 'finport[akshare]'"
            )
        deadline = asyncio.get_running_loop().time() + timeout_s
        lane = self._paged if binding.paged else self._plain
        job = {
            "function": binding.function,
            "arguments": arguments,
            "credentials": credential_arguments(manifest, self._credentials),
        }
        head, data = await self._run(lane, manifest, job, deadline)
        is_read = manifest.intent_type != "transactional"
        if head.get("again") and is_read and asyncio.get_running_loop().time() < deadline:
            head, data = await self._run(self._alone, manifest, job, deadline)
        if "fault" in head:
            raise UpstreamFault(**head["fault"])
        return Answer.of(head, data)

    @property
    def _lanes(self) -> tuple["_Lane", ...]:
        return self._plain, self._paged, self._alone

    async def _run(
        self, lane: "_Lane", manifest: Manifest, job: Mapping[str, Any], deadline: float
    ) -> Reply:
        with ExitStack() as taken:
            host = registrable_domain(manifest.upstream)
            await lane.threads.take(host)
            taken.callback(lane.threads.give_back, host)
            worker = min(lane.workers, key=lambda w: w.load)
            worker.load += 1
            taken.callback(worker.unload)
            process = await worker.process()
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                raise UpstreamFault("timeout", "no worker was ready in time", retryable=True)
            bounds = {p.name: left for p in manifest.parameters if p.filled_by == "deadline"}
            arguments = {**job["arguments"], **bounds}
            number, reply = process.send({**job, "arguments": arguments, "timeout_s": left})
            # The thread stays taken until the worker replies, even if this caller is cancelled.
            held = taken.pop_all()
            reply.add_done_callback(lambda _: held.close())
        try:
            return await asyncio.shield(reply)
        except asyncio.CancelledError:
            process.cancel(number)
            raise


class _Lane:
    """Workers for one kind of function, and the fair queue for their threads."""

    def __init__(self, hello: Mapping[str, Any], workers: int) -> None:
        self.workers = [_Worker(hello) for _ in range(workers)]
        self.threads = Shares(workers * hello["threads"])

    async def stop(self) -> None:
        await asyncio.gather(*(worker.stop() for worker in self.workers))


class _Worker:
    """The slot of one process: started on first use, and again after it ended or retired."""

    def __init__(self, hello: Mapping[str, Any]) -> None:
        self.load = 0
        self.started = 0
        self.processes: list[_Process] = []
        self._hello = hello
        self._start: asyncio.Task[_Process] | None = None
        self._has_stopped = False

    def unload(self) -> None:
        self.load -= 1

    async def process(self) -> "_Process":
        """Return the process that takes calls; start one if needed. If the caller is cancelled, the
        start continues. Raises `UpstreamFault` (`crashed`) once the worker has been stopped.
        """
        if self._has_stopped:
            raise UpstreamFault("crashed", "the AkShare workers have ended", retryable=True)
        if self.processes and self.processes[-1].is_open:
            return self.processes[-1]
        if self._start is None:
            self._start = asyncio.create_task(self._launch())
            self._start.add_done_callback(_take_note)
        return await asyncio.shield(self._start)

    async def stop(self) -> None:
        self._has_stopped = True
        if self._start is not None:
            await asyncio.wait([self._start])
        await asyncio.gather(*(process.stop() for process in self.processes))

    async def _launch(self) -> "_Process":
        try:
            process = await start("adapters.akshare.worker")
            send(process, self._hello)
            try:
                with anyio.fail_after(START_S):
                    head, _ = await receive(process)
            except (TimeoutError, asyncio.IncompleteReadError):
                head = {"failed": "the AkShare worker did not start"}
            if "failed" in head:
                kill(process)
                raise UpstreamFault("not_configured", head["failed"])
            started = _Process(process, self._hello["worker_bytes"])
            self.processes = [p for p in self.processes if not p.has_ended] + [started]
            self.started += 1
            return started
        finally:
            self._start = None


def _take_note(start: "asyncio.Task[_Process]") -> None:
    """A start fails for all who wait for it, or, once they are cancelled, for nobody."""
    if not start.cancelled():
        start.exception()


class _Process:
    """One started process and the calls that it holds. Each call gets a reply."""

    def __init__(self, process: Process, most_bytes: int) -> None:
        self.id = process.pid
        self.calls: dict[int, asyncio.Future[Reply]] = {}
        self.is_open = True
        self.has_ended = False
        self._process = process
        self._most_bytes = most_bytes
        self._numbers = count()
        self._answered = 0
        self._ending = "ended"
        self._listening = asyncio.create_task(self._listen())

    def send(self, job: Mapping[str, Any]) -> tuple[int, asyncio.Future[Reply]]:
        """Send one call to the process; return its number and the future of its reply."""
        loop = asyncio.get_running_loop()
        number, reply = next(self._numbers), loop.create_future()
        if not self.is_open:  # it ended between its start and this call
            reply.set_result(self._lost())
            return number, reply
        self.calls[number] = reply
        due = loop.time() + job["timeout_s"] + GRACE_S
        stuck = loop.call_at(due, self._kill_stuck, number, due)
        reply.add_done_callback(lambda _: stuck.cancel())
        send(self._process, {"id": number, **job})
        return number, reply

    def cancel(self, number: int) -> None:
        """Tell the process that the caller of this call has gone."""
        if number in self.calls:
            send(self._process, {"cancel": number})

    def kill(self) -> None:
        """Kill the process and all processes that it has started."""
        if not self.has_ended:
            kill(self._process)

    async def stop(self) -> None:
        """End the process, even if it is stuck."""
        self._close()
        await self._listening

    def _kill_stuck(self, number: int, due: float) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() > due + STOOD_S:  # timers run before pipes are read: the reply may be there
            again = loop.time() + GRACE_S
            loop.call_at(again, self._kill_stuck, number, again)
            return
        if number not in self.calls:
            return
        self._ending = f"was killed, as a call in it held on {GRACE_S:g} s after its deadline"
        self.kill()

    def _close(self) -> None:
        """Close the process's input, so that it ends; kill it if it is stuck."""
        self.is_open = False
        standard_input(self._process).close()
        asyncio.get_running_loop().call_later(GRACE_S, self.kill)

    async def _listen(self) -> None:
        """Deliver replies until the process ends; then fail the calls that it still held."""
        replies = asyncio.create_task(self._deliver())
        ended = asyncio.create_task(self._process.wait())
        await asyncio.wait({replies, ended}, return_when=asyncio.FIRST_COMPLETED)
        self.is_open = False
        self.kill()  # kills its children too, which may hold its pipe open
        status = await ended
        self.has_ended = True
        await asyncio.wait({replies}, timeout=GRACE_S)
        replies.cancel()
        await asyncio.gather(replies, return_exceptions=True)
        if self._ending == "ended":
            self._ending = f"ended {_status(status)}"
        lost, self.calls = self.calls, {}
        for reply in lost.values():
            reply.set_result(self._lost())

    async def _deliver(self) -> None:
        """Deliver replies. Raises when the pipe ends or holds an invalid frame."""
        while True:
            head, data = await receive(self._process)
            self._answered += 1
            if head["retire"] or head["bytes"] > self._most_bytes or self._answered >= MOST_CALLS:
                self.is_open = False
            self.calls.pop(head["id"]).set_result((head, data))
            if not self.is_open and not self.calls:
                self._close()

    def _lost(self) -> Reply:
        """Return a fault with which the call runs once more, alone. If it is lost there too, it is
        not tried again.
        """
        message = f"the worker process that ran the call {self._ending}"
        return {"fault": {"kind": "crashed", "message": message}, "again": True}, b""


def _status(status: int) -> str:
    if status >= 0:
        return f"with status {status}"
    try:
        return f"by signal {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"
