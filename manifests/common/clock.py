"""The time of day, and the time that has passed.

The time of day may step in either direction when somebody or NTP sets it. A recorded time of day
stays as it is, as a date. Ages and spans are counted by a clock that never steps and that goes on
while the machine sleeps.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

_PASSING = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
_passed = partial(time.clock_gettime, _PASSING)

Reading = Callable[[], float]


class Clock:
    """`wall` is the Unix time; `passed` counts seconds from an arbitrary start."""

    __slots__ = ("_apart", "passed", "wall")

    def __init__(self, wall: Reading = time.time, passed: Reading = _passed) -> None:
        self.wall = wall
        self.passed = passed
        self._apart = wall() - passed()

    def age_s(self, recorded_at: float) -> float:
        """Seconds since that Unix time: by the time of day, or by the time that has passed since
        this clock was made, whichever is more.
        """
        return max(self.wall(), self._apart + self.passed()) - recorded_at

    def follow(self) -> None:
        """Count ages by the time of day as it is now, even if it stepped back."""
        self._apart = self.wall() - self.passed()
