"""All metrics of a run, as one mergeable whole: what `metrics.json` holds."""

from typing import Any

from bench.metrics.tool_use import ToolUse
from bench.metrics.traffic import Traffic
from bench.metrics.usage import Usage
from bench.record import EpisodeRecord
from bench.suites.fintoolbench.breakdown import Breakdown
from bench.suites.fintoolbench.capability import Capability
from bench.suites.fintoolbench.judged import Judged
from bench.suites.fintoolbench.outcome import Outcome
from gateway import CallRecord


class RunMetrics:
    """Fed with both streams of a run."""

    def __init__(self) -> None:
        self.capability = Capability()
        self.judged = Judged()
        self.usage = Usage()
        self.tool_use = ToolUse()
        self.breakdown = Breakdown()
        self.traffic = Traffic()

    def add(self, record: EpisodeRecord | CallRecord) -> None:
        if not isinstance(record, EpisodeRecord):
            self.traffic.add(record)
            return
        final = record.last_round
        outcome = Outcome.of(record, final)
        self.capability.count(outcome)
        self.judged.add(outcome, record.judgement)
        self.usage.add(record, final)
        self.tool_use.add(record)
        self.breakdown.add(record, outcome)

    def merge(self, other: "RunMetrics") -> None:
        self.capability.merge(other.capability)
        self.judged.merge(other.judged)
        self.usage.merge(other.usage)
        self.tool_use.merge(other.tool_use)
        self.breakdown.merge(other.breakdown)
        self.traffic.merge(other.traffic)

    def rates(self) -> dict[str, Any]:
        """The figures of the papers with their intervals, without what is costly."""
        capability, judged = self.capability.result(), self.judged.result()
        intervals = capability["intervals"] | judged["intervals"]
        return {**capability, **judged, "intervals": intervals}

    def result(self) -> dict[str, Any]:
        return {
            **self.rates(),
            "usage": self.usage.result(),
            "tool_use": self.tool_use.result(),
            "breakdown": self.breakdown.result(),
            "traffic": self.traffic.result(),
        }
