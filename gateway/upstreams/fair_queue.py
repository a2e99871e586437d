"""A fair queue for a bounded number of slots, and a pace at which calls start.

Clients are served one after the other (round robin), and one client's calls keep their order. So a
run of a thousand calls and one of ten both progress at their share.
"""

import asyncio
import time
from collections import OrderedDict, deque

LATE_S = 0.01
"""How much of its delay a start may recover by following the start before it sooner."""

LONGEST_GAP_S = 32 * 86_400.0
TIMER_S = 0.001  # event loops keep time to a millisecond


class QueueFull(Exception):
    """The queue is full and takes no more callers."""


class FairQueue:
    """`at_once` slots, and a queue of at most `longest` callers that wait for one."""

    def __init__(self, at_once: int, longest: int) -> None:
        self._free = at_once
        self._longest = longest
        self._waiting: OrderedDict[str, OrderedDict[asyncio.Future[None], None]] = OrderedDict()
        self.taken = 0
        self.waiting = 0

    def take_now(self) -> bool:
        """Take a slot if one is free that nobody waits for; the caller gives it back."""
        if not self._free or self.waiting:
            return False
        self._hand_out()
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
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self.give_back()  # it was given while its caller was leaving
            elif place in self._waiting.get(client, ()):
                self._leave(client, place)
            raise

    def give_back(self) -> None:
        self.taken -= 1
        self._free += 1
        while self._free and self._waiting:
            client, queue = self._waiting.popitem(last=False)
            place, _ = queue.popitem(last=False)
            if queue:
                self._waiting[client] = queue  # behind the other clients
            self.waiting -= 1
            if not place.done():  # its caller may be about to leave
                self._hand_out()
                place.set_result(None)

    def _hand_out(self) -> None:
        self._free -= 1
        self.taken += 1

    def _leave(self, client: str, place: asyncio.Future[None]) -> None:
        queue = self._waiting[client]
        del queue[place]
        self.waiting -= 1
        if not queue:
            del self._waiting[client]


class Pace:
    """Spaces starts evenly, `per_second` of them a second.

    All starts that are due by now begin at once, since a timer for each would allow only some 400 a
    second. No other burst is allowed.
    """

    def __init__(self, per_second: float) -> None:
        self.gap_s = min(1 / per_second, LONGEST_GAP_S)
        self._next_at = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def start_now(self) -> bool:
        """Take a start if one is due and nobody waits; returns whether it did."""
        return not self._waiting and self._begins()

    async def start(self) -> None:
        """Wait for a start; a caller that leaves uses none up."""
        if self.start_now():
            return
        start: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(start)
        if self._timer is None:
            self._hand_out()
        await start

    def _hand_out(self) -> None:
        self._timer = None
        while self._waiting:
            start = self._waiting[0]
            if not start.done():  # its caller may have left
                if not self._begins():
                    left_s = max(self._next_at - time.monotonic(), TIMER_S)
                    self._timer = start.get_loop().call_later(left_s, self._hand_out)
                    return
                start.set_result(None)
            self._waiting.popleft()

    def _begins(self) -> bool:
        """Take a start if one is due; returns whether it did."""
        now = time.monotonic()
        if now < self._next_at:
            return False
        self._next_at = max(self._next_at, now - LATE_S) + self.gap_s
        return True
