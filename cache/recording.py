"""Records a snapshot: rows are written to a journal first, and to the snapshot at the end.

`Recorder.add` returns when its row is on disk (fsync). Rows that wait are written together. A
recorder that is killed or interrupted leaves the journal, and the next recorder of the same file
continues it. A full disk ends the recording: every later `add` raises, and the journal stays
readable. No caller ever waits for a row that will not be written.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import anyio

from cache.blocks import block
from cache.merge import journal_rows, merge
from cache.row import OK, Row
from cache.snapshot import JOURNAL, NEVER_CHANGES, SnapshotError, Summary
from manifests.common.files import own_file, sync_folder, taken
from manifests.common.threads import run_in

log = logging.getLogger("finport")

WAITING_BYTES = 64 * 2**20
"""Bytes of rows that may wait to be written; beyond that, callers of `add` wait."""


class Recorder:
    """Writes one snapshot. `Recorder.open` makes it; one event loop owns it."""

    def __init__(self, path: Path, origin: str, without: Collection[str]) -> None:
        self.path = path
        self.journal = path.with_name(f"{path.name}.journal")
        self.failure: str | None = None
        """Why recording has failed, if it has."""
        self.summary: Summary | None = None
        """The summary of the snapshot, once it is made."""
        self._origin = origin
        self._without = without
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="record")
        self._file: BinaryIO
        self._last: dict[str, tuple[str, bytes]] = {}  # status and digest on disk, by key
        self._waiting: list[tuple[Row, asyncio.Future[None]]] = []
        self._waiting_bytes = 0
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._closing = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, origin: str = "", without: Collection[str] = ()
    ) -> AsyncIterator["Recorder"]:
        """Record until the context ends; then make the snapshot `path` and remove the journal.
        If the context ends by an exception, or without a row, no snapshot is made.

        `origin` says which upstream answers; a journal of another origin is not continued. Rows of
        the tools `without` in a journal are left out of the snapshot. Raises `SnapshotError` if
        `path` exists, if another process records it, if its journal is damaged or of another
        origin, or if the disk does not take it.
        """
        recorder = cls(path, origin, without)
        try:
            await run_in(recorder._thread, recorder._begin)
            try:
                writer = asyncio.create_task(recorder._write())
                try:
                    yield recorder
                finally:
                    recorder._closing = True
                    recorder._filled.set()
                    with anyio.CancelScope(shield=True):
                        await asyncio.wait({writer})
                with anyio.CancelScope(shield=True):
                    await run_in(recorder._thread, recorder._seal)
            finally:
                recorder._file.close()
        finally:
            recorder._thread.shutdown()

    @property
    def calls(self) -> int:
        """How many calls have been recorded."""
        return len(self._last)

    def answered(self, key: str) -> bool:
        """Whether the recording holds an answer to the call of that key, not only an error."""
        return self._last.get(key, ("", b""))[0] == OK

    def calls_outside(self, keys: Collection[str]) -> int:
        """How many recorded calls have a key that is none of `keys`."""
        return len(self._last.keys() - keys)

    async def add(self, row: Row) -> None:
        """Record `row`; on return it is on disk.

        A row is not written if the same outcome of its call is recorded already, nor is an error
        of a call that has a recorded answer. Raises `SnapshotError` if the row can't be written or
        the recording has failed or ended.
        """
        while self._waiting_bytes >= WAITING_BYTES and self.failure is None:
            self._room.clear()
            await self._room.wait()
        if self._closing or self.failure is not None:
            raise SnapshotError(self.failure or f"{self.path} is no longer recorded")
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, written))
        self._waiting_bytes += row.entry.size
        self._filled.set()
        await written

    async def _write(self) -> None:
        """Write waiting rows until the recorder closes."""
        while self._waiting or not self._closing:
            await self._filled.wait()
            self._filled.clear()
            batch, self._waiting = self._waiting, []
            problems: list[str | None] = ["writing was cut off"] * len(batch)
            try:
                problems = await run_in(self._thread, self._append, [row for row, _ in batch])
            except asyncio.CancelledError:
                self.failure = f"{self.journal}: writing was cut off"
                raise
            except Exception as error:  # noqa: BLE001 - no caller may be left waiting
                self.failure = f"{self.journal}: {error!r}"
                problems = [self.failure] * len(batch)
            finally:
                self._settle(batch, problems)

    def _settle(
        self, batch: list[tuple[Row, asyncio.Future[None]]], problems: list[str | None]
    ) -> None:
        for (row, written), problem in zip(batch, problems, strict=True):
            self._waiting_bytes -= row.entry.size
            if written.done():  # the caller has gone
                continue
            if problem is None:
                written.set_result(None)
            else:
                written.set_exception(SnapshotError(problem))
        self._room.set()

    def _begin(self) -> None:
        with ExitStack() as parts:
            try:
                self.journal.parent.mkdir(parents=True, exist_ok=True)
                descriptor = own_file(str(self.journal), os.O_RDWR | os.O_CREAT, 0o600)
                self._file = parts.enter_context(os.fdopen(descriptor, "r+b", buffering=0))
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._check_names()
                self._recover()
                sync_folder(self.journal.parent)
            except BlockingIOError:
                text = f"{self.path} is being recorded by another process"
                raise SnapshotError(text) from None
            except OSError as error:
                raise SnapshotError(f"{self.journal}: {error.strerror}") from error
            parts.pop_all()

    def _check_names(self) -> None:
        """Check what another recorder did between our opening and our locking of the journal."""
        if os.path.lexists(self.path):
            if not os.fstat(self._file.fileno()).st_size:
                self.journal.unlink(missing_ok=True)
            raise SnapshotError(f"{self.path}: {taken(self.path, NEVER_CHANGES).strerror}")
        locked = os.fstat(self._file.fileno())
        if not self.journal.exists() or not os.path.samestat(locked, self.journal.stat()):
            raise SnapshotError(f"{self.path} was being recorded by another process; try again")

    def _recover(self) -> None:
        """Continue after the last whole row of a journal that an interrupted recorder left."""
        start = os.pread(self._file.fileno(), 512, 0)
        size = os.fstat(self._file.fileno()).st_size
        header = JOURNAL + self._origin.encode() + b"\n"
        if header.startswith(start) or not start.strip(b"\0"):
            os.ftruncate(self._file.fileno(), 0)
            self._file.write(header)
            return
        if not start.startswith(JOURNAL):
            raise SnapshotError(f"{self.journal} is no journal of a recording; move it away")
        if not start.startswith(header):
            other = start.removeprefix(JOURNAL).partition(b"\n")[0].decode(errors="replace")
            text = f"{self.journal} is of upstream {other}, not {self._origin}; name a new file"
            raise SnapshotError(text)
        damaged: list[str] = []
        end = len(header)
        for head, offset, length in journal_rows(self._file, str(self.journal), damaged):
            self._note(head.key.hex(), head.status, head.digest)
            end = offset + length
        if damaged:
            raise SnapshotError(f"{damaged[0]}; `finport snapshot merge --salvage` reads the rest")
        if size > end:
            log.warning(
                "%s: %d bytes of a row that was cut off are dropped", self.journal, size - end
            )
        os.ftruncate(self._file.fileno(), end)
        self._file.seek(end)

    def _note(self, key: str, status: str, digest: bytes) -> None:
        if status == OK or not self.answered(key):
            self._last[key] = (status, digest)

    def _is_new(self, row: Row) -> bool:
        known = self._last.get(row.key)
        if known is None:
            return True
        return known != (row.status, row.digest) and (row.status == OK or known[0] != OK)

    def _append(self, rows: list[Row]) -> list[str | None]:
        """Write the new ones of `rows`. Returns for each row what went wrong, or None."""
        if self.failure is not None:
            return [self.failure] * len(rows)
        problems: list[str | None] = []
        new: list[tuple[Row, bytes]] = []
        for row in rows:
            problems.append(None)
            try:
                if self._is_new(row):
                    new.append((row, block(row.encode())))
            except Exception as error:  # noqa: BLE001 - an invalid row must not cost the others
                problems[-1] = f"a row of {row.tool} can't be recorded: {error}"
        end = self._file.tell()
        try:
            text = memoryview(b"".join(text for _, text in new))
            while text:
                text = text[self._file.write(text) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self.failure = f"{self.journal}: {error.strerror}; what was recorded before is in it"
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), end)
            return [self.failure] * len(rows)
        for row, _ in new:
            self._note(row.key, row.status, row.digest)
        return problems

    def _seal(self) -> None:
        """Make the snapshot. If writing has failed, only the journal is left."""
        if self.failure is not None:
            raise SnapshotError(self.failure)
        if self._last:
            self.summary = merge([self.journal], self.path, without=self._without)
        self.journal.unlink()
