"""Serves requests of callers that may not call: one at a time, in a small share of the event loop.

Whatever these callers request and on however many connections, callers with access hardly notice.
Addresses are served in turn, so that a flood from one does not keep a load balancer's probes
waiting.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.access.rejection import RequestRejected
from gateway.errors import CallError, ErrorCode
from gateway.upstreams.fair_queue import FairQueue

SHARE = 0.02
"""Share of the event loop's time."""

LEAST_S, MOST_S = 0.005, 0.2
"""Bounds on a request's slot, in seconds. The lower one covers reading it and sending its answer,
which are not timed. The upper one exists because the first search takes half a second, and a
machine may be busy.
"""

BURST_S = 1.0
"""Seconds of slots that may be taken in advance: a browser that opens the page waits for none."""

WAIT_S = 10.0
"""Seconds within which a request must get its slot."""


class Strangers:
    """The slots of these requests, for one event loop."""

    def __init__(self) -> None:
        self._queue = FairQueue(1, sys.maxsize)  # each connection waits for one at most
        self._due = 0.0

    @asynccontextmanager
    async def slot(self, address: str) -> AsyncIterator[None]:
        """Context in which a request is served. Raises `RequestRejected` if too many wait."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(WAIT_S):
                await self._queue.take(address)
        except TimeoutError:
            text = "too many requests without a key are waiting"
            raise RequestRejected(CallError(ErrorCode.OVERLOADED, text, 1.0)) from None
        began = loop.time()
        try:
            yield
        finally:
            now = loop.time()
            slot_s = min(max((now - began) / SHARE, LEAST_S), MOST_S)
            self._due = max(self._due, now) + slot_s
            loop.call_at(max(self._due - BURST_S, now), self._queue.give_back)
