"""The memory tier: entries by key, bounded by bytes, least recently used out first."""

from collections import OrderedDict

from cache.entry import Entry


class MemoryTier:
    """Owned by one event loop; a look-up does no I/O and takes no lock."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._entries: OrderedDict[str, tuple[Entry, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Entry | None:
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: str, entry: Entry) -> None:
        """Keep `entry`; one that is larger than the whole tier is not kept."""
        self.drop(key)
        size = entry.size
        if size > self.max_bytes:
            return
        self._entries[key] = (entry, size)
        self.bytes += size
        while self.bytes > self.max_bytes:
            _, (_, dropped) = self._entries.popitem(last=False)
            self.bytes -= dropped

    def drop(self, key: str) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            self.bytes -= found[1]
