"""What was answered before: keys, freshness, the memory and disk tiers, single flight."""

from cache.disk import DiskTier
from cache.entry import Entry, View
from cache.flight import Flight, Flights
from cache.freshness import lifetime_s
from cache.key import call_key, key_prefix
from cache.memory import MemoryTier

__all__ = [
    "DiskTier",
    "Entry",
    "Flight",
    "Flights",
    "MemoryTier",
    "View",
    "call_key",
    "key_prefix",
    "lifetime_s",
]
