"""Compares a share of the live answers with earlier ones, and counts changes.

Nobody waits for that: answers go through a bounded queue to a thread. What can't be compared is
counted.
"""

import asyncio
import logging
import random
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

import anyio
import orjson
from anyio import CapacityLimiter, to_thread

from cache import Entry
from gateway.pipeline.bind import BoundCall
from gateway.settings import GatewaySettings
from gateway.shapes.known import Change
from gateway.shapes.shape import MAX_DOCUMENT, TooLarge, shape_of
from gateway.shapes.store import ShapeStore, read_changes
from manifests.common.threads import run_in

log = logging.getLogger("finport")

QUEUED = 64
QUEUED_BYTES = 32 * 2**20
"""Answers that wait and their bytes; one answer may be larger."""

CLOSE_S = 1.0
"""How long the answers that wait may take when the gateway closes."""

READ_S = 1.0
"""How long reading the changes of a tool may take."""

LOGGED_S = 60.0


class Waiting(NamedTuple):
    bound: BoundCall
    entry: Entry


class ShapeWatch:
    """The comparison of one event loop. Made by `ShapeWatch.open`."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._share = settings.shape_share
        self._path = settings.shapes_path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shapes")
        self._store: ShapeStore | None = None
        self._queue: asyncio.Queue[Waiting | None] = asyncio.Queue()  # bounded by `look`
        self._bytes = 0
        self._logged_at = -LOGGED_S
        self._reads = CapacityLimiter(1)
        self.answers: Counter[str] = Counter()
        """Answers that were chosen: `first` of their kind, `compared`, or neither because they were
        `too_large`, came while the comparison was `busy`, or it has `failed`.
        """
        self.changes: Counter[tuple[str, str]] = Counter()
        """Changes by tool and kind."""

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: GatewaySettings) -> AsyncIterator["ShapeWatch"]:
        """The file is opened with the first answer."""
        watch = cls(settings)
        task = asyncio.create_task(watch._work())
        try:
            yield watch
        finally:
            watch._queue.put_nowait(None)
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task], timeout=CLOSE_S)
                task.cancel()
                await asyncio.wait([task])
            watch._thread.submit(watch._close)
            watch._thread.shutdown(wait=False)

    def look(self, bound: BoundCall, entry: Entry) -> None:
        """Compare the answer later, if it is chosen."""
        if random.random() >= self._share:  # noqa: S311 - it decides nothing that is secret
            return
        size = len(entry.data)
        if entry.columns is None and size > MAX_DOCUMENT:
            self.answers["too_large"] += 1
        elif self._queue.qsize() >= QUEUED or (self._bytes and self._bytes + size > QUEUED_BYTES):
            self.answers["busy"] += 1
        else:
            self._bytes += size
            self._queue.put_nowait(Waiting(bound, entry))

    async def last_changes(self, tool: str) -> list[Change]:
        """The changes in the answer of a tool that changed last, whichever process got it; none if
        they can't be read in time.
        """
        read = partial(read_changes, self._path, tool)
        try:
            with anyio.fail_after(READ_S):
                changes = await to_thread.run_sync(
                    read, limiter=self._reads, abandon_on_cancel=True
                )
        except (OSError, ValueError, sqlite3.Error) as error:  # TimeoutError is an OSError
            self._tell(f"changes could not be read: {error or type(error).__name__}")
            return []
        last = [c for c in changes if (c.time, c.variant) == (changes[0].time, changes[0].variant)]
        return last[::-1]

    async def _work(self) -> None:
        while (waiting := await self._queue.get()) is not None:
            tool = waiting.bound.plan.manifest.name
            try:
                changes = await run_in(self._thread, self._compared, waiting)
                self.answers["first" if changes is None else "compared"] += 1
            except TooLarge:
                self.answers["too_large"] += 1
                continue
            except Exception as error:  # noqa: BLE001 - whatever an answer or a file does to it
                self.answers["failed"] += 1
                self._tell(f"an answer of {tool} could not be compared: {error}")
                continue
            finally:
                self._bytes -= len(waiting.entry.data)
            for change in changes or ():
                self.changes[tool, change.kind] += 1

    def _compared(self, waiting: Waiting) -> list[Change] | None:
        bound, entry = waiting
        manifest, arguments = bound.plan.manifest, bound.arguments
        choosing = {p.name for p in manifest.parameters if p.enum or p.type == "boolean"}
        variant = {name: arguments[name] for name in sorted(choosing & arguments.keys())}
        texts = [v for n, v in arguments.items() if isinstance(v, str) and n not in choosing]
        named = {part.strip() for text in texts for part in text.split(",") if part.strip()}
        shape = shape_of(entry, named)
        store = self._store = self._store or ShapeStore.open(self._path)
        said = orjson.dumps(variant).decode()
        return store.learn(manifest.name, said, shape, entry.upstream, entry.recorded_at)

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _tell(self, text: str) -> None:
        if time.monotonic() >= self._logged_at + LOGGED_S:
            self._logged_at = time.monotonic()
            log.warning("shapes of answers: %s", text)
