"""Requests of those who may not call: one after the other, in a small share of the event loop.

Whatever they ask for and on however many connections, those who may call hardly notice. Addresses
take turns, so that a flood from one does not keep a load balancer's probes waiting.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.access.rejection import RequestRejected
from gateway.errors import CallError, ErrorCode
from gateway.upstreams.fair_queue import FairQueue

SHARE = 0.02
"""Of the event loop's time."""

LEAST_S, MOST_S = 0.005, 0.2
"""Seconds of a request's turn. At least: reading it and sending its answer are not timed. At most:
the first search takes half a second, and a machine may be busy.
"""

BURST_S = 1.0
"""Seconds of turns that may be taken in advance: a browser that opens the page waits for none."""

WAIT_S = 10.0
"""Seconds within which a request must get its turn."""


class Strangers:
    """Turns of requests, for one event loop."""

    def __init__(self) -> None:
        self._turns = FairQueue(1, sys.maxsize)  # each connection waits for one at most
        self._due = 0.0

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Within it a request is served. Raises `RequestRejected` where too many wait."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(WAIT_S):
                await self._turns.take(address)
        except TimeoutError:
            text = "too many requests without a key are waiting"
            raise RequestRejected(CallError(ErrorCode.OVERLOADED, text, 1.0)) from None
        began = loop.time()
        try:
            yield
        finally:
            now = loop.time()
            turn_s = min(max((now - began) / SHARE, LEAST_S), MOST_S)
            self._due = max(self._due, now) + turn_s
            loop.call_at(max(self._due - BURST_S, now), self._turns.give_back)
