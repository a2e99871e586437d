"""What time it is, and how much time has passed.

The time of day may step either way, when somebody or NTP sets it. What was recorded with it keeps
it, as a date; ages and spans are counted by a clock that never steps, and that goes on while the
machine sleeps.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

_PASSING = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
_passed = partial(time.clock_gettime, _PASSING)

Reading = Callable[[], float]


class Clock:
    """`wall` is the Unix time, `passed` counts seconds from somewhere."""

    __slots__ = ("_apart", "passed", "wall")

    def __init__(self, wall: Reading = time.time, passed: Reading = _passed) -> None:
        self.wall = wall
        self.passed = passed
        self._apart = wall() - passed()

    def age_s(self, recorded_at: float) -> float:
        """Seconds since that Unix time: the most that the time of day, or what has passed since
        this clock was made, allows for.
        """
        return max(self.wall(), self._apart + self.passed()) - recorded_at
