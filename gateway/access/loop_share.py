"""Holds work that carries no call to a small share of the event loop: one slot at a time.

It serves requests of callers that may not call, and lines and chunks of bodies that make no calls.
However much of it there is and on however many connections, calls hardly notice. Those who wait are
served in turn, so that a flood from one does not keep a load balancer's probes waiting.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adapters.fair_queue import FairQueue
from gateway.access.rejection import RequestRejected
from gateway.errors import CallError, ErrorCode

WITHOUT_KEY = 0.02
"""Share of the event loop's time for requests without a key."""

WITHOUT_CALL = 0.05
"""Share of the event loop's time for lines that are no calls, and for bodies in tiny chunks."""

LEAST_S, MOST_S = 0.005, 0.2
"""Bounds on a slot, in seconds. The lower one covers reading a request and sending its answer,
which are not timed. The upper one exists because the first search takes half a second, and a
machine may be busy.
"""

BURST_S = 1.0
"""Seconds of slots that may be taken in advance: a browser that opens the page waits for none."""

WAIT_S = 10.0
"""Seconds within which a slot must be had."""


class LoopShare:
    """The slots in a share of one event loop's time. `what` names the work in refusals."""

    def __init__(self, share: float, what: str) -> None:
        self._queue = FairQueue(1)  # each connection waits for one at most
        self._share = share
        self._what = what
        self._due = 0.0

    @asynccontextmanager
    async def slot(self, whose: str) -> AsyncIterator[None]:
        """Context in which work is done. Raises `RequestRejected` if too much waits."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(WAIT_S):
                await self._queue.take(whose)
        except TimeoutError:
            text = f"too many {self._what} are waiting"
            raise RequestRejected(CallError(ErrorCode.OVERLOADED, text, 1.0)) from None
        began = loop.time()
        try:
            yield
        finally:
            now = loop.time()
            slot_s = min(max((now - began) / self._share, LEAST_S), MOST_S)
            self._due = max(self._due, now) + slot_s
            loop.call_at(max(self._due - BURST_S, now), self._queue.give_back)
