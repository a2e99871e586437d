"""Fair queues for a bounded number of slots.

Clients are served one after the other (round robin), and one client's calls keep their order. So a
run of a thousand calls and one of ten both progress at their share.
"""

import asyncio
import sys
from collections import Counter, OrderedDict

EAGERNESS = 3


class QueueFull(Exception):
    """The queue is full and takes no more callers."""


class FairQueue:
    """`at_once` slots, and a queue of at most `longest` callers that wait for one."""

    def __init__(self, at_once: int, longest: int = sys.maxsize) -> None:
        self._free = at_once
        self._longest = longest
        self._waiting: OrderedDict[str, OrderedDict[asyncio.Future[None], None]] = OrderedDict()
        self.taken = 0
        self.waiting = 0

    def take_now(self) -> bool:
        """Take a slot if one is free that nobody waits for; the caller gives it back."""
        if not self._free or self.waiting:
            return False
        self._hand_out("")
        return True

    async def take(self, client: str) -> None:
        """Wait for a slot; the caller gives it back. Raises `QueueFull`."""
        if self.take_now():
            return
        if self.waiting >= self._longest:
            raise QueueFull
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, OrderedDict())[place] = None
        self.waiting += 1
        self._pass_on()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self.give_back(client)  # it was given while its caller was leaving
            elif place in self._waiting.get(client, ()):
                self._leave(client, place)
            raise

    def give_back(self, client: str = "") -> None:  # noqa: ARG002 - `Shares` counts it
        """Give back a slot, which `client` had where that matters."""
        self.taken -= 1
        self._free += 1
        if self._waiting:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._free and (client := self._next()) is not None:
            queue = self._waiting.pop(client)
            place, _ = queue.popitem(last=False)
            if queue:
                self._waiting[client] = queue  # behind the other clients
            self.waiting -= 1
            if not place.done():  # its caller may be about to leave
                self._hand_out(client)
                place.set_result(None)

    def _next(self) -> str | None:
        """The waiting client that is served next."""
        return next(iter(self._waiting), None)

    def _hand_out(self, client: str) -> None:  # noqa: ARG002 - `Shares` counts it
        self._free -= 1
        self.taken += 1

    def _leave(self, client: str, place: asyncio.Future[None]) -> None:
        queue = self._waiting[client]
        del queue[place]
        self.waiting -= 1
        if not queue:
            del self._waiting[client]


class Shares(FairQueue):
    """A fair queue in which no client can take all slots.

    A quarter of the slots is reserved for clients that hold none. Of the others, a client gets one
    more while it holds fewer than `EAGERNESS` times the number that is free (the dynamic threshold
    of shared-memory switches). So a single client can hold more than half of all slots, and the
    more clients compete, the closer each comes to an equal share.
    """

    def __init__(self, at_once: int) -> None:
        super().__init__(at_once)
        self._kept = max(at_once // 4, 1)
        self._held: Counter[str] = Counter()

    def take_now(self) -> bool:
        return False  # it depends on who asks

    def give_back(self, client: str = "") -> None:
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
        super().give_back(client)

    def _next(self) -> str | None:
        most = max(EAGERNESS * (self._free - self._kept), 1)
        return next((client for client in self._waiting if self._held[client] < most), None)

    def _hand_out(self, client: str) -> None:
        super()._hand_out(client)
        self._held[client] += 1
