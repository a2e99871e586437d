"""Single flight over several gateways: whoever has the lease of a call makes it.

A lease ends by itself `LEASE_S` after its last renewal. So a gateway that dies costs the others one
lease time, and a gateway that was stopped for longer no longer has it when it goes on. Each lease
has a fence, which is larger for a later lease. An answer that was fetched under an earlier lease
does not replace that of a later one (M. Kleppmann, How to do distributed locking, 2016).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count

import anyio

from cache.entry import Entry
from cache.frame import FrameError
from gateway.sharing.store import Away, Places, SharedStore, StoreError

LEASE_S = 3.0
RENEW_S = 1.0

DECODED_AT_ONCE = 2**16
"""Bytes of a frame that are decoded on the event loop (0.3 ms), and that leases are sent with."""

OUTCOME_S = 5.0
"""How long the outcome of a flight can be read by gateways that waited for it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to make a call; Redis holds its `token`. `entry` is the answer that Redis keeps
    already; if that `is_large`, it is left there.
    """

    key: str
    fence: int
    token: str
    entry: Entry | None = None
    is_large: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """Another gateway makes the call."""

    fence: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The flight that was waited for has ended; `outcome` is what its gateway said of it."""

    outcome: bytes


class Leases:
    """The leases that this gateway holds. Made by `Leases.open`."""

    def __init__(self, store: SharedStore, places: Places) -> None:
        self._store = store
        self._places = places
        self._held: dict[str, str] = {}
        self._numbers = count(1)

    @classmethod
    @asynccontextmanager
    async def open(cls, store: SharedStore, places: Places) -> AsyncIterator["Leases"]:
        leases = cls(store, places)
        renewing = asyncio.create_task(leases._renew_often())
        try:
            yield leases
        finally:
            renewing.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([renewing])

    async def acquire(self, key: str, waited_for: int = 0) -> Lease | Held | Ended:
        """Take the lease of a call, or learn of the flight with the fence `waited_for`.

        Raises `StoreError`; the caller then goes on without a lease.
        """
        keys = [self._places.of(kind, key) for kind in ("lease", "ended", "answer")]
        keys.append(self._places.of_bucket("fence", self._places.bucket_of(key)))
        token = f"{self._store.name}.{next(self._numbers)}"
        arguments = [token, int(LEASE_S * 1e3), waited_for, DECODED_AT_ONCE]
        try:
            said = await self._store.run("acquire", keys, arguments, quick=True)
        except (asyncio.CancelledError, Away):  # it may have been taken all the same
            self._let_go(key, token)
            raise
        kind, fence = said[0], int(said[1])
        if kind == b"held":
            return Held(fence)
        if kind == b"ended":
            return Ended(said[2])
        self._held[key] = token
        entry = None
        if said[2] is not None:
            with contextlib.suppress(FrameError):
                entry = Entry.decode(said[2], key)
        return Lease(key, fence, token, entry, is_large=bool(said[3]))

    async def release(self, lease: Lease, outcome: bytes) -> None:
        """End a lease, with what its flight came to.

        Raises nothing: a lease that can't be released ends by itself.
        """
        self._forget(lease)
        keys = [self._places.of(kind, lease.key) for kind in ("lease", "ended")]
        arguments = [lease.token, lease.fence, outcome, int(OUTCOME_S * 1e3)]
        with contextlib.suppress(StoreError):
            await self._store.run("release", keys, arguments)

    def let_go(self, lease: Lease) -> None:
        """End a lease of whose flight there is nothing to say, so that the next gateway tries."""
        self._forget(lease)
        self._let_go(lease.key, lease.token)

    def _let_go(self, key: str, token: str) -> None:
        keys = [self._places.of(kind, key) for kind in ("lease", "ended")]
        self._store.tell("release", keys, [token, 0, b"", 0])

    def _forget(self, lease: Lease) -> None:
        if self._held.get(lease.key) == lease.token:
            del self._held[lease.key]

    async def _renew_often(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            held = [*self._held.items()]
            await asyncio.gather(*(self._renew(key, token) for key, token in held))

    async def _renew(self, key: str, token: str) -> None:
        arguments = [token, int(LEASE_S * 1e3)]
        with contextlib.suppress(StoreError):
            await self._store.run("renew", [self._places.of("lease", key)], arguments)
