"""A pace at which calls start."""

import asyncio
import time
from collections import deque

LATE_S = 0.01
"""How much of its delay a start may recover by following the start before it sooner."""

LONGEST_GAP_S = 32 * 86_400.0
TIMER_S = 0.001  # event loops keep time to a millisecond


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
