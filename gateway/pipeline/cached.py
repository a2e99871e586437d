"""Cached answers: in memory, in the tiers behind it, and in a snapshot that is replayed.

A look-up holds its caller for a bounded time, whatever a tier does. An answer that was found is in
memory afterwards. An answer that was recorded in the future is not used, because its age is
unknown.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anyio import to_thread

from cache import (
    CacheControl,
    Clock,
    Entry,
    Flight,
    Flights,
    Kept,
    MemoryTier,
    Snapshot,
    SnapshotError,
    Tier,
)
from cache.flight import Late
from cache.freshness import CLOCK_SKEW_S
from cache.row import OK
from gateway.errors import CallError
from gateway.pipeline.bind import BoundCall
from gateway.pipeline.snapshot_rows import error_of_row
from gateway.result import ProvenanceSource, Stood

log = logging.getLogger("finport")

TIER_WAIT_S = 1.0
"""How long a look-up waits for a tier before it goes on without it."""


@dataclass(slots=True)  # frozen would take three times as long to make
class PendingCall:
    """One call that is being answered. `asked` says which cached answers are acceptable. `limit_s`
    is the time for the whole call; `deadline`, in loop time, is when it ends.
    """

    bound: BoundCall
    asked: CacheControl
    client: str
    limit_s: float
    deadline: float


@dataclass(slots=True)
class Outcome:
    """The outcome of a call: an entry or an error, and where it came from. It is never changed once
    it is given. `stood` says which other tool answered, if one stood in.
    """

    kept: Kept | None = None
    error: CallError | None = None
    source: ProvenanceSource | None = None
    attempts: int = 0
    snapshot: str | None = None
    stood: Stood | None = None


class CachedAnswers:
    """The cached answers of one event loop."""

    def __init__(
        self, memory: MemoryTier, tiers: Sequence[Tier], snapshot: Snapshot | None, clock: Clock
    ) -> None:
        self.memory = memory
        self.snapshot = snapshot
        self._tiers = tiers
        self._clock = clock
        self._replays: Flights[Outcome | None] = Flights()

    def state(self) -> dict[str, Any]:
        """The state of memory and of the tiers."""
        memory = {"entries": len(self.memory), "bytes": self.memory.bytes}
        return {"memory": memory, **{tier.name: tier.state() for tier in self._tiers}}

    def shut(self) -> None:
        """Start no more look-ups in the snapshot."""
        self._replays.shut()

    async def close(self) -> None:
        """End all look-ups in the snapshot and cancel their callers."""
        await self._replays.close()

    async def find(self, bound: BoundCall, deadline: float) -> Kept | None:
        """Find a cached answer: from memory if it is fresh there, else the newest of all tiers,
        which is then put in memory. Raises `Late`.
        """
        kept, loop = self.memory.get(bound.key), asyncio.get_running_loop()
        if kept is not None and self._clock.passed() < kept.fresh_until:
            return kept
        for tier in self._tiers:
            if tier.lacks(bound.key):
                continue
            entry = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(loop.time() + TIER_WAIT_S, deadline)):
                    entry = await tier.get(bound.key)
            kept = self.memory.get(bound.key) or kept  # it may have come during the wait
            if entry is None:
                continue
            newer = self.adopt(bound, entry, kept)
            if newer is not None:
                return newer
        if loop.time() >= deadline:
            raise Late(0, in_queue=False)
        return kept

    def keep(self, bound: BoundCall, entry: Entry, *, for_its_handle: bool) -> Kept:
        """Put a new answer in memory and in every tier. With `for_its_handle` it is never fresh, so
        a recording gateway asks upstream for it again.
        """
        kept = self._remember(bound, entry, 0.0)
        if for_its_handle:
            kept.fresh_until = kept.since
        for tier in self._tiers:
            tier.put(bound.key, entry, bound.plan.freshness.keep_s)
        return kept

    def adopt(self, bound: BoundCall, entry: Entry, known: Kept | None) -> Kept | None:
        """Put an answer that a tier kept in memory, if it is newer than the `known` one. None if it
        is not, or if it was recorded in the future: then its age is unknown.
        """
        age_s = self._clock.age_s(entry.recorded_at)
        is_newer = known is None or known.entry.recorded_at < entry.recorded_at
        return self._remember(bound, entry, age_s) if is_newer and age_s >= -CLOCK_SKEW_S else None

    def _remember(self, bound: BoundCall, entry: Entry, age_s: float) -> Kept:
        fresh_s = bound.plan.freshness.fresh_until(entry.recorded_at) - entry.recorded_at
        since = self._clock.passed() - max(age_s, 0.0)
        kept = Kept(entry, since, fresh_until=since + fresh_s)
        self.memory.put(bound.key, kept)
        return kept

    async def replay(self, bound: BoundCall, deadline: float, snapshot: Snapshot) -> Outcome | None:
        """The answer or error that the snapshot holds; None if it holds neither."""
        kept = self.memory.get(bound.key)
        if kept is not None and kept.snapshot is not None:
            return Outcome(kept, source="replayed")

        async def read(_: Flight[Outcome | None]) -> Outcome | None:
            row = await to_thread.run_sync(snapshot.get, bound.key)
            if row is None:
                return None
            if row.status != OK:
                error = error_of_row(row, snapshot)
                return Outcome(error=error, source="replayed", snapshot=snapshot.id)
            since = self._clock.passed() - max(self._clock.age_s(row.entry.recorded_at), 0.0)
            kept = Kept(row.entry, since, fresh_until=float("inf"), snapshot=snapshot.id)
            self.memory.put(bound.key, kept)
            return Outcome(kept, source="replayed")

        return await self._replays.join(bound.key, deadline, read)

    async def recall(self, tool: str, key: str, version: str, limit_s: float) -> Entry | None:
        """The entry of that tool, key and version, wherever it is cached."""

        def is_meant(entry: Entry) -> bool:
            return (entry.tool, entry.version) == (tool, version)

        kept = self.memory.get(key)
        if kept is not None and is_meant(kept.entry):
            return kept.entry
        try:
            async with asyncio.timeout(limit_s):
                for tier in self._tiers:
                    entry = await tier.get(key)
                    if entry is not None and is_meant(entry):
                        return entry
                row = await to_thread.run_sync(self.snapshot.get, key) if self.snapshot else None
        except (TimeoutError, SnapshotError) as error:
            log.error("a handle could not be followed: %s", error)
            return None
        is_answer = row is not None and row.status == OK and is_meant(row.entry)
        return row.entry if row is not None and is_answer else None
