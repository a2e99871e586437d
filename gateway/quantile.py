"""Quantiles of positive figures in little memory, mergeable: the DDSketch of Masson, Rim and Lee
(PVLDB 12(12), 2019) with a relative error of at most 1 %.
"""

import math
from collections import Counter
from collections.abc import Iterable

ALPHA = 0.01

_LOG_GAMMA = math.log((1 + ALPHA) / (1 - ALPHA))
_SMALLEST = 1e-6


class Quantiles:
    """Counts of figures in logarithmic buckets."""

    __slots__ = ("buckets", "count")

    def __init__(self) -> None:
        self.buckets: Counter[int] = Counter()
        self.count = 0

    def add(self, figure: float) -> None:
        self.buckets[math.ceil(math.log(max(figure, _SMALLEST)) / _LOG_GAMMA)] += 1
        self.count += 1

    def merge(self, other: "Quantiles") -> None:
        self.buckets.update(other.buckets)
        self.count += other.count

    def at(self, q: float) -> float | None:
        """The figure below which a share `q` lies; None while there are none."""
        rank = q * (self.count - 1)
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen > rank:
                return 2 * math.exp(bucket * _LOG_GAMMA) / (math.exp(_LOG_GAMMA) + 1)
        return None

    def result(self, points: Iterable[float] = (0.5, 0.9, 0.99)) -> dict[str, float | None]:
        """Figures at `points`, named `p50`, `p90`, ..., rounded to four significant digits."""
        figures = {f"p{q * 100:g}": self.at(q) for q in points}
        return {name: f and float(f"{f:.4g}") for name, f in figures.items()}
