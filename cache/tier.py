"""What the gateway needs of a tier behind memory: disk now, a shared store such as Redis later."""

from typing import Protocol

from cache.entry import Entry


class Tier(Protocol):
    """Entries by key. A tier may forget at any time and never holds up its caller: one that is gone
    answers None and takes nothing.
    """

    name: str

    def state(self) -> dict[str, int]:
        """Its counters: what waits, what it refused to read, what it left out."""
        ...

    async def get(self, key: str) -> Entry | None:
        """The kept entry, or None."""
        ...

    def put(self, key: str, entry: Entry, keep_s: float) -> None:
        """Keep `entry` for at most `keep_s` seconds. Returns at once."""
        ...
