"""Metrics: small mergeable accumulators, `add(record)`, `merge(other)`, `result()`, fed by the
stream of records. They count in whole numbers, so any order and any split gives the same result.
"""

from bench.metrics.tool_use import ToolUse
from bench.metrics.traffic import Traffic
from bench.metrics.usage import Usage
from bench.runs.metrics import RunMetrics
from bench.suites.fintoolbench.breakdown import Breakdown
from bench.suites.fintoolbench.capability import Capability
from bench.suites.fintoolbench.judged import Judged
from bench.suites.fintoolbench.outcome import Outcome

FINTOOLBENCH = ("TIR", "TESR", "CER", "SoftScore", "CSS", "TMR", "IMR", "DMR")
"""FinToolBench's eight metrics, in the order of its table."""

__all__ = [
    "FINTOOLBENCH",
    "Breakdown",
    "Capability",
    "Judged",
    "Outcome",
    "RunMetrics",
    "ToolUse",
    "Traffic",
    "Usage",
]
