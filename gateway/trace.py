"""The trace: one record a call, appended to a file of JSON lines.

Records are encoded into a bounded buffer; one writer appends the buffer to the file, off the event
loop. When the buffer is full, producers wait: nothing is dropped. After a failed write the file
ends with its last whole record, and the missing records stay in the buffer. A stream that retries
continues when there is room again, and until then says why it can't be written. Any other stream
ends: every later `put` raises `TraceError`, so that nothing goes on unrecorded.
"""

import asyncio
import logging
import os
import shutil
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import anyio
import orjson
from anyio import to_thread

from manifests.common.files import own_file

log = logging.getLogger("finport")

BOUND = 512 * 2**10
"""Bytes that may wait to be written before producers have to wait."""

MOST = 16 * BOUND
"""The maximum number of bytes that may wait, for producers that can't wait for long."""

AGAIN_S = 1.0
"""How long after a failed write a stream that retries tries again."""

CHUNK = 65_536

TORN = ".torn"
"""Suffix of the file that receives a last line that was cut off."""


class TraceError(Exception):
    """Records could not be written; the text names the file and the reason."""


@dataclass  # without slots: orjson encodes it in a third of the time (0.5 against 1.4 us)
class CallRecord:
    """One call, as it ended.

    `at` is the Unix time at its start, and `host` is the upstream. `source` and `upstream` are
    those of the result's provenance. `code`, `fault` and `message` are None for a call that
    succeeded. `bytes` is the size of the returned data, and `digest` is the hash of the whole
    answer. `answered_by` names the other tool that stood in for this one, if one did. `lied` says
    what a simulated upstream made wrong in it on purpose, if anything.
    Credentials among the arguments are redacted.
    """

    call_id: str
    at: float
    tool: str
    host: str | None
    arguments: Mapping[str, Any]
    ok: bool
    code: str | None
    fault: str | None
    message: str | None
    source: str | None
    upstream: str | None
    age_s: float
    attempts: int
    elapsed_ms: float
    rows: int | None
    digest: str | None
    bytes: int
    episode: str | None
    step: int | None
    lied: str | None = None
    answered_by: str | None = None


class Trace(Protocol):
    """Takes records, in order. A producer that can wait calls `room` when the trace is `full`.

    No new work should begin while it is `blocked`: nothing can be written now, and `failure` says
    why, or records are written too slowly because some producers could not wait.
    """

    failure: str | None
    full: bool
    blocked: bool

    def put(self, record: CallRecord) -> None: ...

    async def room(self) -> None: ...


class JsonLines:
    """An append-only file of records (dataclasses or JSON objects). Made by `JsonLines.open`.

    `failure` says why the last write failed, if it did.
    """

    def __init__(
        self,
        path: Path,
        file: BinaryIO,
        again_s: float | None,
        count: Callable[[Any], object] | None,
    ) -> None:
        self.path = path
        self.failure: str | None = None
        self.full = self.blocked = False
        self._ended = False
        self._count = count
        self._file = file
        self._again_s = again_s
        self._buffer = bytearray()
        self._put = self._written = 0
        self._digest = blake2b(digest_size=16)
        self.content = (0, "")
        """How many bytes the file has, and their digest, if it was opened with `is_hashed`."""
        self._is_hashed = False
        self._filled = asyncio.Event()
        self._is_awake = False
        self._progress = asyncio.Event()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closing = asyncio.Event()
        self._thread = ThreadPoolExecutor(1)
        self._appending: list[asyncio.Future[tuple[str | None, bytes]]] = []

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        again_s: float | None = None,
        *,
        follow_links: bool = False,
        is_hashed: bool = False,
        mode: int = 0o666,
        count: Callable[[Any], object] | None = None,
    ) -> AsyncIterator["JsonLines"]:
        """Append to `path`; closing writes what is buffered. Without `follow_links`, which is for
        names from the user, `path` may only be a regular file with no other name. With `is_hashed`
        the digest of the file is kept (BLAKE2b of 16 bytes). A new file gets `mode`, as the umask
        allows. `count` is called with each record
        that is put.

        A last line that was cut off is moved to a file beside it. With `again_s` a failed write is
        tried again after that time, and once more on closing; without it, a failed write ends the
        stream. Raises `TraceError`.
        """
        try:
            file = await to_thread.run_sync(_opened, path, follow_links, mode)
            lines = cls(path, file, again_s, count)
            if is_hashed:
                await to_thread.run_sync(lines._hash_file)
        except OSError as error:
            raise TraceError(f"{error.filename or path}: {error.strerror}") from error
        writer = asyncio.create_task(lines._write())
        try:
            yield lines
        finally:
            lines._closing.set()
            lines._wake()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([writer])
                if writer.cancelled():  # by other code, which cancelled all tasks of the process
                    if lines._appending:
                        await asyncio.wait(lines._appending)
                    writer = asyncio.create_task(lines._write())
                await writer
            lines._thread.shutdown(wait=False)
            try:
                file.close()
            except OSError as error:
                lines.failure = lines.failure or error.strerror
        if lines.failure is not None:
            raise lines._lost()

    def _lost(self) -> TraceError:
        records = self._buffer.count(b"\n")
        return TraceError(f"{self.path}: {self.failure}; {records} records could not be written")

    def put(self, record: Any) -> None:
        """Buffer one record. A producer that can wait calls `room` when `full` is true.

        Raises `TraceError` once the stream has ended.
        """
        if self._ended:
            raise self._lost()
        # Encoded here, while the record is in the processor's cache: this takes 0.8 us. Encoding
        # batches of 2,000 buffered records takes 5 us a record.
        buffer = self._buffer
        buffer += orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        self._put += 1
        if len(buffer) >= BOUND:
            self._bound()
        if not self._is_awake:
            self._wake()
        if self._count is not None:
            self._count(record)

    def put_lines(self, lines: bytes) -> None:
        """Buffer records that another process has encoded, each with its line feed.

        Raises `TraceError` once the stream has ended.
        """
        if self._ended:
            raise self._lost()
        self._buffer += lines
        self._put += lines.count(b"\n")
        self._bound()
        self._wake()

    def _bound(self) -> None:
        """Note whether producers have to wait."""
        self.full = len(self._buffer) >= BOUND
        self.blocked = self.failure is not None or len(self._buffer) >= MOST

    def _wake(self) -> None:
        self._is_awake = True
        self._filled.set()

    async def room(self) -> None:
        """Wait until the buffer has room, or the stream has ended."""
        while self.full and not self._ended:
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                self._admit()  # the slot may have been given already and must not be lost
                raise
        self._admit()

    def _admit(self) -> None:
        """Let one producer continue, which lets the next one continue.

        If all woke at once, a thousand would find that the first few have filled the buffer again.
        """
        while self._waiting and (self._ended or not self.full):
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return

    async def written(self) -> None:
        """Wait until every record put so far is in the file, or the stream has ended."""
        put = self._put
        while self._written < put and not self._ended:
            self._progress.clear()
            await self._progress.wait()

    async def _write(self) -> None:
        """Append the buffer to the file, again and again, until the stream closes or ends."""
        loop = asyncio.get_running_loop()
        while self._buffer or not self._closing.is_set():
            await self._filled.wait()
            self._filled.clear()
            self._is_awake = False
            is_last = self._closing.is_set()
            text, self._buffer, put = self._buffer, bytearray(), self._put
            self._bound()
            if self.failure is None:
                self._admit()
            appending = loop.run_in_executor(self._thread, self._append, text)
            appending.add_done_callback(partial(self._appended, put))
            self._appending = [appending]
            await asyncio.wait(self._appending)
            if appending.result()[0] is None:
                continue
            if self._again_s is None or is_last:
                break
            with anyio.move_on_after(self._again_s):
                await self._closing.wait()
            self._wake()
        self._progress.set()
        self._admit()

    def _appended(self, put: int, appending: asyncio.Future[tuple[str | None, bytes]]) -> None:
        """Note what became of records, of which `put` were put so far."""
        failure, rest = appending.result()
        self._note(failure)
        if failure is None:
            self._written = put
            self._progress.set()
        else:
            self._buffer[:0] = rest
            self._bound()

    def _note(self, failure: str | None) -> None:
        if failure != self.failure and self._again_s is not None:
            if failure is None:
                log.warning("%s can be written again", self.path)
            else:
                log.error("%s can't be written: %s", self.path, failure)
        self.failure = failure
        self._ended = failure is not None and self._again_s is None
        self._bound()
        if failure is None:
            self._admit()

    def _hash_file(self) -> None:
        self._is_hashed = True
        self._hash(b"")
        with self.path.open("rb") as file:
            while text := file.read(2**20):
                self._hash(text)

    def _hash(self, text: bytes | bytearray | memoryview) -> None:
        if self._is_hashed:
            self._digest.update(text)
            self.content = self.content[0] + len(text), self._digest.hexdigest()

    def _append(self, text: bytearray) -> tuple[str | None, bytes]:
        """Append records. Returns the failure, if any, and the records that the file lacks then."""
        done = 0
        try:
            while done < len(text):
                done += self._file.write(memoryview(text)[done:])
        except OSError as error:
            whole = text.rfind(b"\n", 0, done) + 1
            if done > whole and self._cut(done - whole):
                done = whole
            self._hash(text[:done])
            return error.strerror or repr(error), bytes(text[done:])
        self._hash(text)
        return None, b""

    def _cut(self, torn: int) -> bool:
        """Remove the last `torn` bytes of the file. If that can't be done, they stay and are
        completed.
        """
        try:
            descriptor = self._file.fileno()
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - torn)
        except OSError:
            return False
        return True


def _opened(path: Path, follow_links: bool, mode: int) -> BinaryIO:
    """Open `path` for appending whole lines. Raises `OSError`."""
    own = partial(own_file, mode=mode)
    opener = partial(os.open, mode=mode) if follow_links else own
    if path.is_file():
        with open(path, "r+b", opener=opener) as file:
            size = file.seek(0, os.SEEK_END)
            end = end_of_lines(file, size)
            if end < size:
                with open(path.with_name(path.name + TORN), "ab", opener=own) as torn:
                    file.seek(end)
                    shutil.copyfileobj(file, torn)
                    torn.write(b"\n")
                file.truncate(end)
                log.warning("%s: its last line was cut off and is in %s now", path, torn.name)
    return open(path, "ab", buffering=0, opener=opener)


def end_of_lines(file: BinaryIO, size: int) -> int:
    """Where the last whole line of a file ends."""
    end = size
    while end > 0:
        start = max(end - CHUNK, 0)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
