"""The protocol of a cache tier behind memory: disk, and Redis if several gateways share it."""

from typing import Protocol

from cache.entry import Entry


class Tier(Protocol):
    """Entries by key. A tier may forget entries at any time and never delays its caller. A tier
    that is not available answers None and stores nothing.
    """

    name: str

    def state(self) -> dict[str, int]:
        """Its counters: entries that wait, that it refused to read, and that it left out."""
        ...

    def lacks(self, key: str) -> bool:
        """Whether it is certain at once that there is no such entry, so that `get` would be in
        vain.
        """
        ...

    async def get(self, key: str) -> Entry | None:
        """The cached entry, or None."""
        ...

    def put(self, key: str, entry: Entry, keep_s: float) -> None:
        """Keep `entry` for at most `keep_s` seconds. Returns at once."""
        ...
