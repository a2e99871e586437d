"""The disk tier: entries as bytes in diskcache.

- Nothing is pickled or unpickled. A row that is not bytes, or that differs in a single bit from
  what was written, is refused on read, dropped and counted.
- Writes happen in the background, in batches, from a bounded queue. Readers see queued entries at
  once. When the queue is full, the newest write is left out and counted: a cache may forget, but
  may not stall its caller.
- Reads and writes have a thread each, so a database that another process locks delays writes only.
  Several processes may share one folder. A database that can't be read is moved aside and replaced
  by a new one.
- A key that no row can have (`KeyIndex`) is a miss at once: no thread is asked.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from itertools import chain, islice
from pathlib import Path

import anyio
import diskcache
from diskcache.core import DBNAME

from cache.entry import Entry
from cache.frame import FrameError
from manifests.common.files import private_folder
from manifests.common.threads import run_in

Write = tuple[str, Entry, float]

QUEUE_BYTES = 64 * 2**20
BATCH = 256
LOCK_S = 1.0
"""How long a write waits for another process before it is left out."""

MOST_KEYS = 2**18
"""Keys that an index holds, in some 20 MB. A database of more rows has none."""

SCAN_S, SCAN_AGAIN_S = 1.0, 60.0
"""The least time between two scans for the keys of other processes; after one that found too many.
"""

MARGIN_S = 5 * LOCK_S
"""By how much the time of a row may be before that of its commit."""

_UNREADABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_COLUMNS = (
    *("key", "raw", "store_time", "expire_time", "access_time", "access_count"),
    *("tag", "size", "mode", "filename", "value"),
)
"""The columns of diskcache's table."""

_INSTEAD = " ON CONFLICT(key, raw) DO UPDATE SET " + ",".join(
    f"{name} = excluded.{name}" for name in _COLUMNS[2:]
)
_SELECT = (
    "SELECT key, mode, value FROM Cache"
    " WHERE raw = 1 AND (expire_time IS NULL OR expire_time > ?) AND key IN"
)
_RAW = 1  # diskcache.core.MODE_RAW: the value is in the row itself


class BytesCache(diskcache.Cache):  # type: ignore[misc]
    """diskcache that can also read and write many rows in one statement.

    `get` and `set` take the interpreter's lock several times a row. Each time they wait for the
    event loop, or make it wait.
    """

    def get_all(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of the keys that are present and not expired; empty for a row that is no plain
        bytes.

        One statement holds no more than 999 keys in some builds of SQLite.
        """
        select = f"{_SELECT} ({','.join('?' * len(keys))})"
        rows = self._sql(select, [time.time(), *(sqlite3.Binary(key) for key in keys)])
        return {
            bytes(key): value if mode == _RAW and isinstance(value, bytes) else b""
            for key, mode, value in rows
        }

    def version(self) -> int:
        """A number that changes when another connection has committed."""
        (version,) = self._sql("PRAGMA data_version").fetchone()
        return int(version)

    def keys_since(self, since: float) -> list[bytes]:
        """Up to `MOST_KEYS` and one keys of the rows that were stored from a Unix time on."""
        select = "SELECT key FROM Cache WHERE raw = 1 AND store_time >= ? LIMIT ?"
        return [bytes(key) for (key,) in self._sql(select, (since, MOST_KEYS + 1))]

    def set_all(self, rows: Sequence[tuple[bytes, bytes, float]]) -> None:
        """Store rows of key, value and seconds to keep it; the last row of a key wins."""
        now = time.time()
        latest = {key: (value, now + keep_s) for key, value, keep_s in rows}
        values = [
            (sqlite3.Binary(key), 1, now, expires_at, now, 0, None, 0, _RAW, None, value)
            for key, (value, expires_at) in latest.items()
        ]
        most = self._con.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(_COLUMNS)
        with self.transact():
            for at in range(0, len(values), most):
                some = values[at : at + most]
                marks = ",".join([f"({','.join('?' * len(_COLUMNS))})"] * len(some))
                insert = f"INSERT INTO Cache({','.join(_COLUMNS)}) VALUES {marks}"  # noqa: S608 - names of ours
                self._sql(insert + _INSTEAD, [*chain.from_iterable(some)])


class KeyIndex:
    """The keys that the database may hold, as one process knows them.

    Keys of rows that are gone stay in it: they cost a look-up. A process knows its own keys, and
    SQLite's `data_version` shows that another has written. Then nothing is certain until the keys
    of the rows that were stored since are read.
    """

    def __init__(self, database: Path) -> None:
        """Raises `sqlite3.Error`."""
        self._connection = sqlite3.connect(
            database, timeout=0, isolation_level=None, check_same_thread=False
        )
        self._keys: set[int] = set()
        self._known: int | None = None
        """The version of the database all of whose keys are known."""
        self.is_writing = False
        self.since = 0.0
        """Rows stored from this Unix time on may have other keys."""

    def version(self) -> int | None:
        """A number that changes with each commit, or None where it can't be read at once."""
        try:
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            return None
        return int(version)

    def lacks(self, key: str) -> bool:
        """Whether no row has this key. While this process writes, its version says nothing: what
        another writes meanwhile may then be missed, as if it came later.
        """
        return hash(key) not in self._keys and self._known is not None and self.is_current()

    def is_current(self) -> bool:
        return self._known is not None and (self.is_writing or self.version() == self._known)

    def add(self, key: str) -> None:
        self._keys.add(hash(key))

    def settle(self, others: bool) -> None:
        """Note that this process has committed, and whether others had since they were noticed."""
        self.is_writing = False
        if self._known is not None:
            self._known = None if others or len(self._keys) > MOST_KEYS else self.version()

    def learn(self, found: list[bytes] | None, version: int | None, now: float) -> bool:
        """Add the keys that a scan found at `version`, which began at `now`. Returns False if it
        failed or found too many.
        """
        self._keys.update(hash(key.decode()) for key in found or ())
        is_whole = found is not None and len(self._keys) <= MOST_KEYS
        self._known = version if is_whole else None
        self.since = now - MARGIN_S if is_whole else 0.0
        return is_whole

    def forget(self, but: Iterable[str]) -> None:
        """Forget all keys but these."""
        self._keys = {hash(key) for key in but}

    def close(self) -> None:
        self._connection.close()


class DiskTier:
    """Entries by key on disk. `DiskTier.open` makes it; one event loop owns it."""

    name = "disk"

    def __init__(self) -> None:
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="disk-read")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="disk-write")
        self._store: BytesCache
        self._queue: asyncio.Queue[Write | None] = asyncio.Queue()  # bounded by `put`
        self._wanted: dict[str, asyncio.Future[Entry | None]] = {}
        self._asked = asyncio.Event()
        self._queued: dict[str, Entry] = {}
        self._queued_bytes = 0
        self._index: KeyIndex
        self._others_at = -1
        self._scan = asyncio.Event()
        self._scan_at = 0.0
        self._closing = False
        self.refused = 0
        """Rows that differed from what was written."""
        self.failed = 0
        """Reads that the database did not answer."""
        self.left_out = 0
        """Writes that did not reach the disk."""

    @classmethod
    @asynccontextmanager
    async def open(cls, directory: Path, max_bytes: int) -> AsyncIterator["DiskTier"]:
        """Open or create the database in `directory` (mode 0700). Closing flushes the queue."""
        tier = cls()
        tier._store, tier._index = await run_in(tier._writer, _open, directory, max_bytes)
        work = (tier._read_wanted(), tier._write_behind(), tier._learn_keys())
        tasks = {asyncio.create_task(part) for part in work}
        try:
            yield tier
        finally:
            tier._closing = True
            tier._asked.set()
            tier._scan.set()
            tier._queue.put_nowait(None)
            try:
                with anyio.CancelScope(shield=True):
                    await asyncio.wait(tasks)
                    for thread in (tier._reader, tier._writer):
                        await run_in(thread, tier._store.close)
            finally:
                tier._index.close()
                tier._reader.shutdown(wait=False)
                tier._writer.shutdown(wait=False)

    def state(self) -> dict[str, int]:
        return {
            "queued": len(self._queued),
            "refused": self.refused,
            "failed": self.failed,
            "left_out": self.left_out,
        }

    def lacks(self, key: str) -> bool:
        """Whether it is certain, without a look at the database, that there is no such entry."""
        return self._index.lacks(key)  # which knows the queued keys too

    async def get(self, key: str) -> Entry | None:
        """The cached entry, or None. A row that can't be trusted is dropped and counted."""
        queued = self._queued.get(key)
        if queued is not None or self._closing or self._index.lacks(key):
            return queued
        wanted = self._wanted.get(key)
        if wanted is None:
            wanted = self._wanted[key] = asyncio.get_running_loop().create_future()
            self._asked.set()
        return await asyncio.shield(wanted)

    def put(self, key: str, entry: Entry, keep_s: float) -> None:
        """Queue one entry for writing."""
        if self._closing or self._queued_bytes + entry.size > QUEUE_BYTES:
            self.left_out += 1
            return
        self._queued_bytes += entry.size
        self._queued[key] = entry
        self._index.add(key)
        self._queue.put_nowait((key, entry, keep_s))

    async def _read_wanted(self) -> None:
        """Read the requested keys in batches, until the tier closes."""
        while self._wanted or not self._closing:
            await self._asked.wait()
            self._asked.clear()
            wanted = {key: self._wanted.pop(key) for key in [*islice(self._wanted, BATCH)]}
            if self._wanted:
                self._asked.set()
            if time.monotonic() >= self._scan_at and not self._index.is_current():
                self._scan.set()
            entries = await run_in(self._reader, self._read, [*wanted])
            for future, entry in zip(wanted.values(), entries, strict=True):
                if not future.done():
                    future.set_result(entry)

    def _read(self, keys: list[str]) -> list[Entry | None]:
        try:
            rows = self._store.get_all([key.encode() for key in keys])
        except Exception:  # noqa: BLE001 - a cache may forget but may not fail
            if len(keys) > 1:  # so that one bad row does not hide the others
                return [entry for key in keys for entry in self._read([key])]
            self.failed += len(keys)
            return [None for _ in keys]
        return [self._decoded(key, rows.get(key.encode())) for key in keys]

    def _decoded(self, key: str, frame: bytes | None) -> Entry | None:
        try:
            return None if frame is None else Entry.decode(frame, key)
        except FrameError:
            self.refused += 1
            with contextlib.suppress(Exception):
                self._store.delete(key.encode())
        except Exception:  # noqa: BLE001 - as above
            self.failed += 1
        return None

    async def _write_behind(self) -> None:
        """Write batches until a None in the queue says that the tier closes."""
        closing = False
        while not closing:
            batch = [await self._queue.get()]
            while len(batch) < BATCH and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            closing = None in batch
            writes = [write for write in batch if write is not None]
            self._index.is_writing = True
            others = await run_in(self._writer, self._write, writes)
            self._index.settle(others)
            for key, entry, _ in writes:
                self._queued_bytes -= entry.size
                if self._queued.get(key) is entry:
                    del self._queued[key]

    def _write(self, batch: list[Write]) -> bool:
        """Write a batch. Returns whether other processes may have written since this was asked."""
        try:
            rows = [(key.encode(), entry.encode(key), keep_s) for key, entry, keep_s in batch]
            self._store.set_all(rows)
            self._store.cull()
            return self._others_wrote()
        except Exception:  # noqa: BLE001 - as above
            self.left_out += len(batch)
            return True

    def _others_wrote(self) -> bool:
        before, self._others_at = self._others_at, self._store.version()
        return before != self._others_at

    async def _learn_keys(self) -> None:
        """Scan for keys at first, and when other processes have written, until the tier closes."""
        while not self._closing:
            index, now = self._index, time.time()
            if now < index.since:  # the clock was set back
                index.since = 0.0
            if not index.since:
                index.forget(but=self._queued)
            version = index.version()
            found = await run_in(self._writer, self._keys_since, index.since)
            pause_s = SCAN_S if index.learn(found, version, now) else SCAN_AGAIN_S
            self._scan_at = time.monotonic() + pause_s
            await self._scan.wait()
            self._scan.clear()

    def _keys_since(self, since: float) -> list[bytes] | None:
        try:
            self._others_wrote()
            return self._store.keys_since(since)
        except Exception:  # noqa: BLE001 - as above
            return None


def _open(directory: Path, max_bytes: int) -> tuple[BytesCache, KeyIndex]:
    private_folder(directory)
    directory.chmod(0o700)
    try:
        try:
            store = _store(directory, max_bytes)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in _UNREADABLE:
                raise  # a full disk or a lock does not mean that the database is bad
            for file in directory.glob("cache.db*"):
                file.rename(file.with_name(f"unreadable-{file.name}"))
            store = _store(directory, max_bytes)
        return store, KeyIndex(directory / DBNAME)
    except (sqlite3.DatabaseError, diskcache.Timeout) as error:
        raise OSError(f"the cache in {directory} can't be opened: {error}") from None


def _store(directory: Path, max_bytes: int) -> BytesCache:
    with suppress(FileExistsError):
        (directory / DBNAME).touch(0o600, exist_ok=False)
    return BytesCache(
        str(directory),
        timeout=LOCK_S,
        size_limit=max_bytes,
        cull_limit=0,  # inside a transaction the file does not shrink, and culling would not end
        eviction_policy="least-recently-stored",
        statistics=0,
    )
