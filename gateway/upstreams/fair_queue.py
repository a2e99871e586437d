"""Turns at something scarce: a bounded number at once, clients served one after the other, and a
pace at which they begin.

One client's calls keep their order; between clients it is round robin, so that a run of a thousand
calls and one of ten both go on at their share.
"""

import asyncio
import time
from collections import OrderedDict, deque

LATE_S = 0.01
"""How much of its delay a start may make good by coming sooner after the one before."""

LONGEST_GAP_S = 32 * 86_400.0
TIMER_S = 0.001  # event loops keep time to a millisecond


class LineFull(Exception):
    """So many wait already that one more is not let in."""


class FairQueue:
    """`at_once` turns, and a line of at most `line` who wait for one."""

    def __init__(self, at_once: int, line: int) -> None:
        self._free = at_once
        self._line = line
        self._waiting: OrderedDict[str, OrderedDict[asyncio.Future[None], None]] = OrderedDict()
        self.taken = 0
        self.waiting = 0

    def take_now(self) -> bool:
        """Take a turn if one is free that nobody waits for; who got one gives it back."""
        if not self._free or self.waiting:
            return False
        self._hand_out()
        return True

    async def take(self, client: str) -> None:
        """Wait for a turn; who got one gives it back. Raises `LineFull`."""
        if self.take_now():
            return
        if self.waiting >= self._line:
            raise LineFull
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, OrderedDict())[turn] = None
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give_back()  # it came while its caller was leaving
            elif turn in self._waiting.get(client, ()):
                self._leave(client, turn)
            raise

    def give_back(self) -> None:
        self.taken -= 1
        self._free += 1
        while self._free and self._waiting:
            client, line = self._waiting.popitem(last=False)
            turn, _ = line.popitem(last=False)
            if line:
                self._waiting[client] = line  # behind the other clients
            self.waiting -= 1
            if not turn.done():  # its caller may be about to leave
                self._hand_out()
                turn.set_result(None)

    def _hand_out(self) -> None:
        self._free -= 1
        self.taken += 1

    def _leave(self, client: str, turn: asyncio.Future[None]) -> None:
        line = self._waiting[client]
        del line[turn]
        self.waiting -= 1
        if not line:
            del self._waiting[client]


class Pace:
    """Starts spaced evenly, so many a second. All that are due by now begin at once, since a timer
    for each would let no more than some 400 a second begin; no other burst is allowed.
    """

    def __init__(self, per_second: float) -> None:
        self.gap_s = min(1 / per_second, LONGEST_GAP_S)
        self._next_at = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def start_now(self) -> bool:
        """Whether it is one's time already, before which nobody waits."""
        return not self._waiting and self._begins()

    async def start(self) -> None:
        """Wait until it is one's time; who leaves takes no start along."""
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
        """Whether a start is due, which is then taken."""
        now = time.monotonic()
        if now < self._next_at:
            return False
        self._next_at = max(self._next_at, now - LATE_S) + self.gap_s
        return True
