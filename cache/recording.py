"""Recording a snapshot: rows go into a journal beside it, and into the snapshot at the end.

`Recorder.add` returns when its row is on disk (fsync), and rows that wait are written together. A
killed recorder leaves the journal, and the next recorder of the same file goes on with it. A disk
that takes no more ends the recording: every later `add` raises, the journal stays readable.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import anyio

from cache.merge import journal_end, merge
from cache.row import OK, Row, RowHead
from cache.snapshot import JOURNAL, LENGTH, SnapshotError, Summary, frames

WAITING_BYTES = 64 * 2**20
"""Bytes of rows that may wait to be written; who comes then waits too."""


class Recorder:
    """Writes one snapshot; owned by one event loop. Made by `Recorder.open`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path.with_name(f"{path.name}.journal")
        self.summary: Summary | None = None
        """What the snapshot holds, once it is made."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="record")
        self._file: BinaryIO
        self._last: dict[str, tuple[str, bytes]] = {}  # status and digest on disk, by key
        self._waiting: list[tuple[Row, asyncio.Future[None]]] = []
        self._waiting_bytes = 0
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._closing = False
        self._failure: str | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path) -> AsyncIterator["Recorder"]:
        """Record until the context ends; then the snapshot `path` is made and the journal goes.

        Raises `SnapshotError`: where `path` exists, where another process records it, where its
        journal is damaged, and where the disk does not take it.
        """
        recorder = cls(path)
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(recorder._thread, recorder._begin)
            writer = asyncio.create_task(recorder._write())
            try:
                yield recorder
            finally:
                recorder._closing = True
                recorder._filled.set()
                with anyio.CancelScope(shield=True):
                    await writer
                    await loop.run_in_executor(recorder._thread, recorder._finish)
        finally:
            recorder._thread.shutdown()

    def answered(self, key: str) -> bool:
        """Whether the recording holds an answer, not just an error, to the call of that key."""
        return key in self._last and self._last[key][0] == OK

    async def add(self, row: Row) -> None:
        """Record `row`, unless that is what the recording says last of its call; on return it is on
        disk. Raises `SnapshotError` once writing has failed.
        """
        while self._waiting_bytes >= WAITING_BYTES:
            self._room.clear()
            await self._room.wait()
        if self._failure is not None:
            raise SnapshotError(self._failure)
        if self._last.get(row.key) == (row.status, row.digest):
            return
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, written))
        self._waiting_bytes += len(row.entry.data)
        self._filled.set()
        await written

    async def _write(self) -> None:
        """Write what waits, again and again, until the recorder closes."""
        while self._waiting or not self._closing:
            await self._filled.wait()
            self._filled.clear()
            batch, self._waiting = self._waiting, []
            rows = [row for row, _ in batch]
            await asyncio.get_running_loop().run_in_executor(self._thread, self._append, rows)
            for row, written in batch:
                self._waiting_bytes -= len(row.entry.data)
                if written.done():  # the caller has gone
                    continue
                if self._failure is None:
                    written.set_result(None)
                else:
                    written.set_exception(SnapshotError(self._failure))
            self._room.set()

    def _begin(self) -> None:
        if self.path.exists():
            raise SnapshotError(
                f"{self.path} exists, and a snapshot never changes; name a new file"
            )
        try:
            self.journal.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.journal, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._file = os.fdopen(descriptor, "r+b", buffering=0)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise SnapshotError(f"{self.path} is being recorded by another process") from None
        except OSError as error:
            raise SnapshotError(f"{self.journal}: {error.strerror}") from error
        try:
            self._recover()
        except BaseException:
            self._file.close()
            raise

    def _recover(self) -> None:
        """Go on behind the last whole row of a journal that a killed recorder left."""
        name, size = str(self.journal), os.fstat(self._file.fileno()).st_size
        if size < len(JOURNAL):
            os.ftruncate(self._file.fileno(), 0)
            self._file.write(JOURNAL)
            return
        if os.pread(self._file.fileno(), len(JOURNAL), 0) != JOURNAL:
            raise SnapshotError(f"{name} is no journal of a recording; move it away")
        end = journal_end(self._file, size, name)
        for _, frame in frames(self._file, len(JOURNAL), end, name):
            head = RowHead.of(frame)
            self._last[head.key.hex()] = (head.status, head.digest)
        os.ftruncate(self._file.fileno(), end)
        self._file.seek(end)

    def _append(self, rows: list[Row]) -> None:
        if self._failure is not None:
            return
        end = self._file.tell()
        try:
            text = memoryview(b"".join(map(_block, rows)))
            while text:
                text = text[self._file.write(text) :]
            os.fsync(self._file.fileno())
            self._last.update({row.key: (row.status, row.digest) for row in rows})
        except (OSError, ValueError, TypeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            self._failure = f"{self.journal}: {why}; what was recorded before is in it"
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), end)

    def _finish(self) -> None:
        """Make the snapshot, unless writing has failed: then the journal is what is left."""
        try:
            if self._failure is not None:
                raise SnapshotError(self._failure)
            self.summary = merge([self.journal], self.path)
            self.journal.unlink()
        finally:
            self._file.close()


def _block(row: Row) -> bytes:
    frame = row.encode()
    return LENGTH.pack(len(frame)) + frame
