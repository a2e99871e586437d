"""What several gateways share through Redis: answers, leases of flights, and who is there."""

from cache.shared.leases import Ended, Held, Lease, Leases
from cache.shared.store import Away, SharedStore, StoreError
from cache.shared.tier import SharedTier

__all__ = [
    "Away",
    "Ended",
    "Held",
    "Lease",
    "Leases",
    "SharedStore",
    "SharedTier",
    "StoreError",
]
