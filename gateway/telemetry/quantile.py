"""Quantiles of positive figures in little memory, mergeable.

They are computed by the DDSketch of Masson, Rim and Lee (PVLDB 12(12), 2019) with a relative error
of at most 1 %.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

ALPHA = 0.01

_LOG_GAMMA = math.log((1 + ALPHA) / (1 - ALPHA))
_SMALLEST = 1e-6
_LOWEST = math.ceil(math.log(_SMALLEST) / _LOG_GAMMA)


class Quantiles:
    """Counts of figures in logarithmic buckets."""

    __slots__ = ("buckets", "count", "top")

    def __init__(self, buckets: Mapping[int, int] | None = None) -> None:
        """Empty, or with the buckets of another."""
        self.buckets = Counter(buckets or {})
        self.count = self.buckets.total()
        self.top = max(self.buckets, default=_LOWEST)

    def add(self, figure: float, times: int = 1) -> None:
        self.count_in(bucket_of(figure), times)

    def count_in(self, bucket: int, times: int = 1) -> None:
        """Count figures of a bucket (`bucket_of`)."""
        self.buckets[bucket] += times
        self.count += times
        if bucket > self.top:
            self.top = bucket

    def merge(self, other: "Quantiles") -> None:
        self.buckets.update(other.buckets)
        self.count += other.count
        self.top = max(self.top, other.top)

    @property
    def highest(self) -> float:
        """The maximum of all quantiles."""
        return _figure(self.top)

    def at(self, q: float) -> float | None:
        """The figure below which a share `q` of all figures lies; None if there are none."""
        if not self.count:
            return None
        from_top = self.count - q * (self.count - 1)
        bucket, seen = self.top, self.buckets[self.top]
        while seen < from_top:  # high quantiles are asked for most, so search from the top
            bucket -= 1
            seen += self.buckets.get(bucket, 0)
        return _figure(bucket)

    def result(self, points: Iterable[float] = (0.5, 0.9, 0.99)) -> dict[str, float | None]:
        """Figures at `points`, named `p50`, `p90`, ..., rounded to four significant digits."""
        figures = {f"p{q * 100:g}": self.at(q) for q in points}
        return {name: f and float(f"{f:.4g}") for name, f in figures.items()}


@lru_cache(512)
def bucket_of(figure: float) -> int:
    return math.ceil(math.log(max(figure, _SMALLEST)) / _LOG_GAMMA)


def _figure(bucket: int) -> float:
    """The figure that represents a bucket."""
    return 2 * math.exp(bucket * _LOG_GAMMA) / (math.exp(_LOG_GAMMA) + 1)
