"""What several gateways share through Redis: answers, leases of flights, and who is there."""

from gateway.sharing.leases import Ended, Held, Lease, Leases
from gateway.sharing.store import Away, SharedStore, StoreError
from gateway.sharing.tier import SharedTier

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
