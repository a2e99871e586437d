"""Shares threads fairly: no host can take all, and waiting hosts are served in turn.

A quarter of the threads is reserved for hosts that hold none. Of the others, a host gets one more
while it holds fewer than `EAGERNESS` times the number that is free (the dynamic threshold of
shared-memory switches). So a single host can hold more than half of all threads, and the more hosts
compete, the closer each comes to an equal share.
"""

import asyncio
from collections import Counter, OrderedDict, deque

EAGERNESS = 3


class Shares:
    """A number of threads, and a queue of waiting callers for each host."""

    def __init__(self, threads: int) -> None:
        self._free = threads
        self._kept = max(threads // 4, 1)
        self._held: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, host: str) -> None:
        """Wait for a thread; the caller must return it with `give_back`."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(host, deque()).append(place)
        self._hand_out()
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._leave(host, place)
            else:  # the thread came while its caller was leaving
                self.give_back(host)
            raise

    def give_back(self, host: str) -> None:
        self._free += 1
        self._held[host] -= 1
        if not self._held[host]:
            del self._held[host]
        self._hand_out()

    def _hand_out(self) -> None:
        while self._free and (host := self._next()) is not None:
            place = self._queues[host].popleft()
            self._queues.move_to_end(host)
            if not self._queues[host]:
                del self._queues[host]
            if not place.done():  # its caller may be about to leave
                self._free -= 1
                self._held[host] += 1
                place.set_result(None)

    def _next(self) -> str | None:
        """Return the waiting host that may get a thread and whose last one is longest ago."""
        most = max(EAGERNESS * (self._free - self._kept), 1)
        return next((host for host in self._queues if self._held[host] < most), None)

    def _leave(self, host: str, place: asyncio.Future[None]) -> None:
        queue = self._queues.get(host)
        if queue is not None and place in queue:
            queue.remove(place)
            if not queue:
                del self._queues[host]
