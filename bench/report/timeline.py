"""Activity over the time of a run, in a bounded number of bins and one pass.

The width of a bin is a power of two of milliseconds; bins merge in pairs when there are too many.
All sums are whole numbers, so the order of records does not matter.
"""

from dataclasses import dataclass

BINS = 120
"""The most bins at any time."""


@dataclass(frozen=True, slots=True)
class Span:
    """One bin: its start in seconds from the start of the first one, the mean number of episodes in
    flight, and by second the calls that began and those of them that failed.
    """

    at_s: float
    in_flight: float
    calls_per_s: float
    failed_per_s: float


@dataclass(slots=True)
class _Bin:
    """`change` is episodes begun minus ended. `moment` is the sum of their begins in milliseconds
    minus that of their ends. Both together give the exact mean in flight over any bin.
    """

    calls: int = 0
    failed: int = 0
    change: int = 0
    moment: int = 0


class Timeline:
    """Counts calls and episodes, which come in any order. Times before 1970 are left out."""

    def __init__(self) -> None:
        self._shift = 0
        self._bins: dict[int, _Bin] = {}

    @property
    def width_s(self) -> float:
        """Width of a bin."""
        return (1 << self._shift) / 1e3

    def add_call(self, at_s: float, *, ok: bool) -> None:
        if at_s > 0:
            counted = self._bin(round(at_s * 1e3))
            counted.calls += 1
            counted.failed += not ok

    def add_episode(self, started_at_s: float, elapsed_ms: float) -> None:
        if started_at_s > 0:
            begin = round(started_at_s * 1e3)
            for time_ms, change in ((begin, 1), (begin + max(round(elapsed_ms), 0), -1)):
                counted = self._bin(time_ms)
                counted.change += change
                counted.moment += change * time_ms

    def spans(self) -> list[Span]:
        """All bins from the first to the last, including empty ones."""
        if not self._bins:
            return []
        first, last = min(self._bins), max(self._bins)
        width_ms, in_flight, found = 1 << self._shift, 0, []
        for index in range(first, last + 1):
            counted = self._bins.get(index, _Bin())
            end_ms = (index + 1) * width_ms
            area = in_flight * width_ms + counted.change * end_ms - counted.moment
            in_flight += counted.change
            found.append(
                Span(
                    at_s=(index - first) * self.width_s,
                    in_flight=area / width_ms,
                    calls_per_s=counted.calls / self.width_s,
                    failed_per_s=counted.failed / self.width_s,
                )
            )
        return found

    def _bin(self, time_ms: int) -> _Bin:
        counted = self._bins.get(time_ms >> self._shift)
        if counted is None:
            counted = self._bins[time_ms >> self._shift] = _Bin()
            if max(self._bins) - min(self._bins) >= BINS:
                self._coarsen()
                counted = self._bins[time_ms >> self._shift]
        return counted

    def _coarsen(self) -> None:
        """Merge bins in pairs until there are few enough."""
        while max(self._bins) - min(self._bins) >= BINS:
            self._shift += 1
            fine, self._bins = self._bins, {}
            for index, counted in fine.items():
                into = self._bins.setdefault(index >> 1, _Bin())
                into.calls += counted.calls
                into.failed += counted.failed
                into.change += counted.change
                into.moment += counted.moment
