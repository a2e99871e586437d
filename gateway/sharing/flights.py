"""One execution for identical misses of several gateways.

The gateway that has the lease of a call asks upstream. The others look again, at first soon and
then more seldom, until the flight has ended or its lease has. Then they use its answer, or its
error if the upstream made it. What one gateway could not wait for, or may not send, says nothing to
others: the next one tries. Without Redis each gateway flies by itself.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import orjson

from cache import Clock, Flight, Kept
from gateway.errors import CallError, ErrorCode
from gateway.pipeline.cached import CachedAnswers, Outcome, PendingCall
from gateway.sharing.leases import Ended, Held, Lease, Leases
from gateway.sharing.store import Places, SharedStore, StoreError
from gateway.sharing.tier import SharedTier

FIRST_LOOK_S = 0.01
LONGEST_LOOK_S = 0.2

_OF_ONE_GATEWAY = frozenset(
    {
        *(ErrorCode.TIMEOUT, ErrorCode.RATE_LIMITED, ErrorCode.QUOTA_EXHAUSTED),
        *(ErrorCode.OVERLOADED, ErrorCode.CIRCUIT_OPEN, ErrorCode.CANCELLED),
        *(ErrorCode.NOT_CONFIGURED, ErrorCode.NOT_SUBSCRIBED, ErrorCode.INTERNAL),
    }
)
"""Errors that another gateway, with other keys, limits or deadlines, may not have."""

_ANSWERED = b"answered"

Execute = Callable[[PendingCall, Flight[Outcome]], Awaitable[Outcome]]


class SharedFlights:
    """The flights that this gateway shares with others. Made by `SharedFlights.open`."""

    def __init__(self, leases: Leases, tier: SharedTier) -> None:
        self._leases = leases
        self.tier = tier

    @classmethod
    @asynccontextmanager
    async def open(
        cls, store: SharedStore, cache_name: str, max_bytes: int
    ) -> AsyncIterator["SharedFlights"]:
        places = Places(store, cache_name)
        async with (
            Leases.open(store, places) as leases,
            SharedTier.open(store, places, max_bytes) as tier,
        ):
            yield cls(leases, tier)

    async def fly(
        self,
        call: PendingCall,
        execute: Execute,
        cached: CachedAnswers,
        clock: Clock,
        flight: Flight[Outcome],
    ) -> Outcome:
        """The outcome of `execute`, or of the same in another gateway."""
        loop, key = asyncio.get_running_loop(), call.bound.key
        known = cached.memory.get(key)
        waited_for, pause_s = 0, FIRST_LOOK_S
        while True:
            try:
                found = await self._leases.acquire(key, waited_for)
            except StoreError:
                return await execute(call, flight)
            match found:
                case Lease():
                    said = b""
                    self.tier.under(found)
                    try:
                        if waited_for or not call.asked.demands:
                            newer = await self._newer(found, call, known, cached)
                            if newer is not None and clock.passed() < newer.fresh_until:
                                return Outcome(newer, source="cached")
                        outcome = await execute(call, flight)
                        said = _said_of(outcome)
                        return outcome
                    finally:
                        self._end(found, said)
                case Ended(outcome=outcome):
                    error = _error_in(outcome)
                    if error is not None:
                        return Outcome(error=error)
                    entry = await self.tier.get(key)
                    newer = None if entry is None else cached.adopt(call.bound, entry, known)
                    if newer is not None:
                        return Outcome(newer, source="cached")
                    return await execute(call, flight)  # it could not be kept
                case Held(fence=fence):
                    waited_for = fence
                    left_s = flight.deadline - loop.time()
                    if left_s <= 0:
                        text = "another gateway asks upstream, and it did not answer in time"
                        return Outcome(error=CallError(ErrorCode.TIMEOUT, text))
                    await asyncio.sleep(min(pause_s, left_s))
                    pause_s = min(pause_s * 1.5, LONGEST_LOOK_S)

    async def _newer(
        self, lease: Lease, call: PendingCall, known: Kept | None, cached: CachedAnswers
    ) -> Kept | None:
        """The answer that Redis had when the lease was taken, if it came after the `known` one."""
        entry = await self.tier.get(lease.key) if lease.is_large else lease.entry
        return None if entry is None else cached.adopt(call.bound, entry, known)

    def _end(self, lease: Lease, said: bytes) -> None:
        """End the lease, once the answer has been written if there is one."""
        self.tier.after(lease, partial(self._leases.release, lease, said) if said else None)
        if not said:
            self._leases.let_go(lease)


def _said_of(outcome: Outcome) -> bytes:
    """What other gateways may know of an outcome; empty if it says nothing to them."""
    error = outcome.error
    if error is None:
        return _ANSWERED
    return b"" if error.code in _OF_ONE_GATEWAY else orjson.dumps(error.to_dict())


def _error_in(said: bytes) -> CallError | None:
    """The error that an outcome is; None for an answer, and for what no gateway says."""
    if said == _ANSWERED:
        return None
    try:
        return CallError.from_dict(orjson.loads(said))
    except (ValueError, KeyError, TypeError):
        return None
