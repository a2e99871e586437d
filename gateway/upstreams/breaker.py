"""A circuit breaker: stops calls to an upstream that mostly fails, for a while.

Closed, it counts attempts over a sliding window. When enough of them have failed, it opens and
refuses every call at once. After a pause one probe may pass (half-open): its success closes the
breaker, its failure opens it for twice as long, up to a bound (Nygard, Release It!, 2nd ed.,
chapter 5). While open, it considers the outcome of its probe alone. While closed, it considers only
attempts that began since it closed.
"""

from collections import deque
from typing import Literal

State = Literal["closed", "open", "half_open"]

SLICES = 10
"""The window slides in steps of a tenth."""

LONGEST_OPEN_S = 300.0


class Breaker:
    """All times are seconds of one monotonic clock."""

    def __init__(self, failure_rate: float, least: int, window_s: float, open_s: float) -> None:
        """Opens when a share of `failure_rate` of at least `least` attempts within `window_s`
        failed.
        """
        self._failure_rate = failure_rate
        self._least = least
        self._slice_s = window_s / SLICES
        self._first_open_s = self._open_s = open_s
        self._slices: deque[list[int]] = deque()  # [number of the slice, good, bad]
        self._until: float | None = None
        self._begun = 0
        self._closed_after = 0  # the last attempt that began before it closed
        self._probe: int | None = None
        self._probe_until = 0.0
        self.opened = 0

    def state(self, now: float) -> State:
        if self._until is None:
            return "closed"
        return "open" if now < self._until else "half_open"

    def wait_s(self, now: float) -> float:
        """Seconds until a call may pass; 0 if one may pass now."""
        if self._until is None:
            return 0.0
        probe_s = 0.0 if self._probe is None else self._probe_until - now
        return max(self._until - now, probe_s, 0.0)

    def begin(self, now: float, within_s: float) -> int:
        """Start an attempt that will end within `within_s`; half-open, it is the only one.

        Returns its number, which `end` takes.
        """
        self._begun += 1
        if self._until is not None:
            self._probe, self._probe_until = self._begun, now + within_s
        return self._begun

    def end(self, attempt: int, *, good: bool | None, now: float) -> None:
        """End an attempt; if `good` is None, it says nothing about the upstream."""
        if self._until is not None:
            if attempt == self._probe:
                self._probed(good, now)
        elif good is not None and attempt > self._closed_after:
            self._count(good, now)

    def _count(self, good: bool, now: float) -> None:
        number = int(now / self._slice_s)
        while self._slices and self._slices[0][0] <= number - SLICES:
            self._slices.popleft()
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append([number, 0, 0])
        self._slices[-1][1 if good else 2] += 1
        bad = sum(part[2] for part in self._slices)
        count = bad + sum(part[1] for part in self._slices)
        if count >= self._least and bad >= self._failure_rate * count:
            self._open(now)

    def _probed(self, good: bool | None, now: float) -> None:
        self._probe = None
        if good:
            self._until = None
            self._open_s = self._first_open_s
            self._closed_after = self._begun
        elif good is False:
            self._open_s = min(2 * self._open_s, max(LONGEST_OPEN_S, self._first_open_s))
            self._open(now)

    def _open(self, now: float) -> None:
        self._until = now + self._open_s
        self._slices.clear()
        self.opened += 1
