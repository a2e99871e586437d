"""The memory tier: entries by key, bounded by bytes; the least recently used is dropped first."""

from collections import OrderedDict
from dataclasses import dataclass

from cache.entry import Entry


@dataclass(slots=True, eq=False)
class Kept:
    """An entry as this process holds it.

    It was recorded at `since` and is fresh until `fresh_until`. After a failed refresh it is not
    refreshed again before `retry_at`. These are readings of `Clock.passed`, so that no step of the
    time of day makes the entry younger. `snapshot` is the id of the snapshot that it was read from,
    if any. If it is not `stored`, only its caller has it.
    """

    entry: Entry
    since: float
    fresh_until: float
    snapshot: str | None = None
    stored: bool = True
    retry_at: float = 0.0

    def time(self, now: float) -> float:
        """The Unix time at reading `now`, from the time since the entry was recorded."""
        return self.entry.recorded_at + now - self.since


class MemoryTier:
    """Entries in memory, owned by one event loop. A look-up does no I/O and takes no lock."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str) -> Kept | None:
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
        return kept

    def put(self, key: str, kept: Kept) -> None:
        """Store an entry, unless it is larger than the whole tier."""
        self.drop(key)
        size = kept.entry.size
        if size > self.max_bytes:
            return
        self._kept[key] = kept
        self.bytes += size
        while self.bytes > self.max_bytes:
            _, dropped = self._kept.popitem(last=False)
            self.bytes -= dropped.entry.size

    def drop(self, key: str) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self.bytes -= kept.entry.size
