"""Metrics that all suites share: small mergeable accumulators, `add(record)`, `merge(other)`,
`result()`, fed by the stream of records. They count in whole numbers, so any order and any split
gives the same result.
"""

from bench.metrics.tool_use import ToolUse
from bench.metrics.traffic import Traffic
from bench.metrics.usage import Usage

__all__ = ["ToolUse", "Traffic", "Usage"]
