"""The exact distribution of small whole numbers."""

from collections import Counter
from typing import Any

from bench.metrics.interval import share


def spread(counts: Counter[int]) -> dict[str, Any]:
    """The mean of the numbers, and how many episodes have each."""
    total = sum(number * n for number, n in counts.items())
    return {
        "mean": share(total, counts.total()),
        "episodes": {str(number): n for number, n in sorted(counts.items())},
    }
