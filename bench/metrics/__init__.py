"""Metrics that all suites share: small mergeable accumulators, `add(record)`, `merge(other)`,
`result()`, fed by the stream of records. They count in whole numbers, so the result does not depend
on the order of records or on how they are split.
"""

from bench.metrics.traffic import Traffic
from bench.metrics.usage import ToolUse, Usage

__all__ = ["ToolUse", "Traffic", "Usage"]
