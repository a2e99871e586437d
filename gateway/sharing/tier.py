"""The shared tier: entries in Redis as the same checked frames that are on disk.

A frame that differs in a single bit from what was written is refused on read and counted. Writes
happen in the background, from a bounded queue, in the order in which they came; when the queue is
full, the newest write is left out and counted. The tier holds at most `max_bytes`; entries whose
time ends first go first. While Redis is away, nothing is found and nothing is written.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread

from cache.entry import Entry
from cache.frame import FrameError
from gateway.sharing.leases import DECODED_AT_ONCE, Lease
from gateway.sharing.store import BUCKETS, Places, SharedStore, StoreError

QUEUE_BYTES = 64 * 2**20
BATCH = 64
LONGEST_KEEP_S = 32 * 86_400.0
CLOSE_S = 3.0
"""How long closing waits for queued writes."""

After = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class _Write:
    key: str
    entry: Entry | None
    keep_s: float
    fence: int
    after: After | None

    @property
    def size(self) -> int:
        return 0 if self.entry is None else self.entry.size


class SharedTier:
    """Entries by key in Redis. Made by `SharedTier.open`."""

    name = "redis"

    def __init__(self, store: SharedStore, places: Places, max_bytes: int) -> None:
        self._store = store
        self._places = places
        self._bucket_bytes = max_bytes // BUCKETS
        self._queue: deque[_Write] = deque()
        self._asked = asyncio.Event()
        self._queued_bytes = 0
        self._unwritten = 0
        self._fences: dict[str, int] = {}
        self._closing = False
        self.refused = 0
        self.failed = 0
        self.left_out = 0

    @classmethod
    @asynccontextmanager
    async def open(
        cls, store: SharedStore, places: Places, max_bytes: int
    ) -> AsyncIterator["SharedTier"]:
        """Closing waits for queued writes, at most `CLOSE_S`."""
        tier = cls(store, places, max_bytes)
        writer = asyncio.create_task(tier._write_behind())
        try:
            yield tier
        finally:
            tier._closing = True
            tier._asked.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([writer], timeout=CLOSE_S)
                writer.cancel()
                await asyncio.wait([writer])

    def state(self) -> dict[str, int]:
        return {
            "queued": self._unwritten,
            "refused": self.refused,
            "failed": self.failed,
            "left_out": self.left_out,
        }

    def lacks(self, key: str) -> bool:  # noqa: ARG002 - others may have written it
        return False

    async def get(self, key: str) -> Entry | None:
        """The entry, or None. A frame that can't be trusted is not used, and counted."""
        try:
            place = self._places.of("answer", key)
            frame = await self._store.ask("GET", place, lane="reads", quick=True)
        except StoreError:
            self.failed += 1
            return None
        if frame is None:
            return None
        try:
            if len(frame) <= DECODED_AT_ONCE:
                return Entry.decode(frame, key)
            return await to_thread.run_sync(Entry.decode, frame, key)
        except FrameError:
            self.refused += 1
            return None

    def put(self, key: str, entry: Entry, keep_s: float) -> None:
        """Queue one entry for writing, under the lease that `under` named."""
        self._add(_Write(key, entry, keep_s, self._fences.get(key, 0), None))

    def under(self, lease: Lease) -> None:
        """What is put under this lease's key from now on was fetched under it."""
        self._fences[lease.key] = lease.fence

    def after(self, lease: Lease, then: After | None) -> None:
        """Nothing more is put under this lease. Run `then` once all that was has been written."""
        self._fences.pop(lease.key, None)
        if then is not None:
            self._add(_Write(lease.key, None, 0.0, 0, then))

    def _add(self, write: _Write) -> None:
        if self._closing or self._queued_bytes + write.size > QUEUE_BYTES:
            self.left_out += write.entry is not None
            return
        self._queued_bytes += write.size
        self._unwritten += 1
        self._queue.append(write)
        self._asked.set()

    async def _write_behind(self) -> None:
        while self._queue or not self._closing:
            await self._asked.wait()
            self._asked.clear()
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
                frames = await to_thread.run_sync(_encoded, batch)
                await asyncio.gather(*map(self._write, batch, frames))
                await asyncio.gather(*(write.after() for write in batch if write.after))
                self._queued_bytes -= sum(write.size for write in batch)
                self._unwritten -= len(batch)

    async def _write(self, write: _Write, frame: bytes | None) -> None:
        if frame is None:
            return
        bucket = self._places.bucket_of(write.key)
        keys = [
            self._places.of("answer", write.key),
            self._places.of_bucket("index", bucket),
            self._places.of_bucket("sizes", bucket),
        ]
        keep_ms = int(min(write.keep_s, LONGEST_KEEP_S) * 1e3)
        prefix = self._places.of_bucket("answer", bucket)
        arguments = [frame, write.key, keep_ms, self._bucket_bytes, write.fence, prefix]
        try:
            kept = keep_ms > 0 and await self._store.run("keep", keys, arguments, lane="writes")
        except StoreError:
            kept = 0
        self.left_out += not kept


def _encoded(batch: list[_Write]) -> list[bytes | None]:
    """The frames of these writes."""
    return [None if w.entry is None else _frame(w.entry, w.key) for w in batch]


def _frame(entry: Entry, key: str) -> bytes | None:
    try:
        return entry.encode(key)
    except FrameError:  # too long for a frame
        return None
