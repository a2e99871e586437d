"""Tells a command of changes, one change at a time.

Nobody waits for that. A change that can't be told is counted, and the log says so at most once in
`LOGGED_S`. The command runs without a shell, in a session of its own, with no secret in its
environment.
"""

import asyncio
import logging
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import orjson

from adapters.process import environment, kill, standard_input
from gateway.shapes.known import Change

log = logging.getLogger("finport")

QUEUED = 100
"""Changes that may wait."""

COMMAND_S = 10.0
"""How long one change may take."""

CLOSE_S = 1.0
"""How long the changes that wait may take when the gateway closes."""

LOGGED_S = 60.0


class UndeliveredError(Exception):
    """The command did not take a change; the text says why."""


class Notices:
    """The changes that wait for the command. Made by `Notices.open`."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._queue: asyncio.Queue[Change | None] = asyncio.Queue()  # bounded by `put`
        self._logged_at = -LOGGED_S
        self._untold = 0
        self.outcomes: Counter[str] = Counter()
        """Changes that were `sent`, have `failed`, or were `left_out`."""

    @classmethod
    @asynccontextmanager
    async def open(cls, command: Sequence[str]) -> AsyncIterator["Notices"]:
        """`command` is a program and its arguments; with none nothing is told."""
        notices = cls(command)
        try:
            async with working(notices._tell(), notices._queue, CLOSE_S):
                yield notices
        finally:
            if (left := notices._queue.qsize() - 1) > 0:  # the last one is the end
                notices._lose("left_out", "the gateway has closed", left)

    def put(self, change: Change) -> None:
        if not self._command:
            return
        if self._queue.qsize() >= QUEUED:
            self._lose("left_out", f"{QUEUED} changes wait already")
        else:
            self._queue.put_nowait(change)

    async def _tell(self) -> None:
        while (change := await self._queue.get()) is not None:
            try:
                await self._send(orjson.dumps(change.to_dict()))
                self.outcomes["sent"] += 1
            except UndeliveredError as error:
                self._lose("failed", str(error))
            except Exception as error:  # noqa: BLE001 - the next change can be told
                self._lose("failed", type(error).__name__)
            except asyncio.CancelledError:
                self._lose("failed", "the gateway has closed")
                raise

    def _lose(self, outcome: str, why: str, changes: int = 1) -> None:
        self.outcomes[outcome] += changes
        self._untold += changes
        if time.monotonic() >= self._logged_at + LOGGED_S:
            name = Path(self._command[0]).name
            log.warning("the command %s missed changes (%d): %s", name, self._untold, why)
            self._logged_at, self._untold = time.monotonic(), 0

    async def _send(self, change: bytes) -> None:
        quiet = subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=subprocess.PIPE,
                stdout=quiet,
                stderr=quiet,
                env=environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise UndeliveredError(f"it could not be started: {error.strerror}") from None
        try:
            async with asyncio.timeout(COMMAND_S):
                with suppress(OSError, RuntimeError):  # it may have ended without reading
                    pipe = standard_input(process)
                    pipe.write(change + b"\n")
                    pipe.close()
                await process.wait()
        except TimeoutError:
            raise UndeliveredError(f"it did not end within {COMMAND_S:g} s") from None
        finally:
            if process.returncode is None:
                kill(process)
                with anyio.CancelScope(shield=True):
                    await process.wait()
        if process.returncode:
            raise UndeliveredError(f"it ended with {process.returncode}")


@asynccontextmanager
async def working(
    work: Coroutine[Any, Any, None], queue: asyncio.Queue[Any], close_s: float
) -> AsyncIterator[None]:
    """Do `work`, which takes from `queue` until it gets None. It gets that when the context ends,
    and is cancelled `close_s` later.
    """
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        queue.put_nowait(None)
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task], timeout=close_s)
            task.cancel()
            await asyncio.wait([task])
