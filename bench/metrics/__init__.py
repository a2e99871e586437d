"""Metrics: small mergeable accumulators, `add(record)`, `merge(other)`, `result()`, fed by the
stream of records. They count in whole numbers, so any order and any split gives the same result.
"""

from bench.metrics.capability import Capability
from bench.metrics.run import RunMetrics
from bench.metrics.traffic import Traffic

__all__ = ["Capability", "RunMetrics", "Traffic"]
