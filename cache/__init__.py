"""Cached and recorded answers: keys, freshness, tiers, single flight, snapshots."""

from cache.disk import DiskTier
from cache.entry import Entry, View
from cache.flight import Flight, Flights
from cache.freshness import CacheControl, CacheControlError, Rule, Use, decide, rule_of
from cache.key import call_key, key_prefix
from cache.memory import Kept, MemoryTier
from cache.merge import merge
from cache.recording import Recorder
from cache.row import Row
from cache.snapshot import Snapshot, SnapshotError
from cache.tier import Tier
from manifests.common.clock import Clock

__all__ = [
    "CacheControl",
    "CacheControlError",
    "Clock",
    "DiskTier",
    "Entry",
    "Flight",
    "Flights",
    "Kept",
    "MemoryTier",
    "Recorder",
    "Row",
    "Rule",
    "Snapshot",
    "SnapshotError",
    "Tier",
    "Use",
    "View",
    "call_key",
    "decide",
    "key_prefix",
    "merge",
    "rule_of",
]
