"""Turns bodies into outcomes: short bodies at once, long ones in another process.

So long bodies do not block the event loop. A thread would not help, because orjson holds the
interpreter's lock while it reads. A process starts on first use and reads one body at a time,
within bounds of memory and time. It is ended if it fails, has grown, or its caller has left. All
data for a body, including secrets, goes through a pipe.
"""

import asyncio
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import anyio

from adapters.conventions import UpstreamErrorBody
from adapters.fair_queue import Shares
from adapters.fault import UpstreamFault
from adapters.http import Reply
from adapters.normalise import Answer
from adapters.process import has_ended, kill, receive, send_with_body, start

READ_AT_ONCE = 2**15
"""Size in bytes below which a body is read at once: at most 5 ms, and 0.5 ms for most bodies."""

READ_S = 30.0
"""Seconds that a process may take to read one body."""

PROCESSES = 2
MARGIN_S = 0.02
"""Seconds before its deadline when an answer must be read, so that the upstream is not blamed."""

KEPT_BYTES = 96 * 2**20
"""A process that holds more memory is not used again."""

_Outcome = TypeVar("_Outcome", bound=Answer | UpstreamErrorBody)


class Reader:
    """Reads bodies. Made by `Reader.open`."""

    def __init__(self) -> None:
        self._processes = Shares(PROCESSES)
        self._idle: list[Process] = []

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator["Reader"]:
        reader = cls()
        try:
            yield reader
        finally:
            for process in reader._idle:
                await _end(process)

    async def read(
        self,
        host: str,
        reply: Reply,
        into: Callable[..., _Outcome],
        *said: Any,
        until: float | None = None,
    ) -> _Outcome:
        """Return `into(reply, *said)`, computed here or in a process. So `into` must be at the top
        level of a module, and `said` must be JSON. Long bodies of one `host` do not block others.
        Raises `UpstreamFault`, which is `unread` shortly before the deadline `until` (loop time).
        """
        if len(reply.body) < READ_AT_ONCE:
            return into(reply, *said)
        job = {
            "outcome": (into.__module__, into.__qualname__),
            "status": reply.status,
            "charset": reply.charset,
            "said": said,
        }
        try:
            async with asyncio.timeout_at(until and until - MARGIN_S):
                await self._processes.take(host)
                try:
                    head, data = await self._exchange(job, reply.body)
                finally:
                    self._processes.give_back(host)
        except TimeoutError:
            text = "the answer came, but could not be read in time"
            raise UpstreamFault("unread", text, retryable=True) from None
        if "fault" in head:
            raise UpstreamFault(**head["fault"])
        is_refusal = "refusal" in head
        outcome = UpstreamErrorBody(**head["refusal"]) if is_refusal else Answer.of(head, data)
        return cast(_Outcome, outcome)

    async def _exchange(
        self, job: dict[str, Any], body: bytes | bytearray
    ) -> tuple[dict[str, Any], bytes]:
        process = await self._process()
        is_usable = False
        try:
            async with asyncio.timeout(READ_S):
                await send_with_body(process, job, body)
                head, data = await receive(process)
            is_usable = head["bytes"] <= KEPT_BYTES
        except TimeoutError:
            text = f"reading the answer took more than {READ_S:g} s"
            raise UpstreamFault("too_large", text) from None
        except (asyncio.IncompleteReadError, OSError):  # orjson does not survive a lack of memory
            text = "reading the answer takes more memory than there is for it"
            raise UpstreamFault("too_large", text) from None
        finally:
            if is_usable:
                self._idle.append(process)
            else:
                await _end(process)
        return head, data

    async def _process(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if not has_ended(process):
                return process
        return await start("adapters.reader_worker")


async def _end(process: Process) -> None:
    kill(process)
    with anyio.CancelScope(shield=True):
        await process.wait()
