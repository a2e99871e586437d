"""All metrics of a run, the content of `metrics.json`, as one object that can be merged."""

from typing import Any

from bench.metrics import ToolUse, Traffic, Usage
from bench.record import EpisodeRecord
from bench.suites.suite import Suite
from gateway import CallRecord


class RunMetrics:
    """The suite's metrics and those that all suites share; it is fed with both streams of a run."""

    def __init__(self, suite: type[Suite]) -> None:
        self.suite = suite
        self.episodes = 0
        self.own = suite.new_metrics()
        self.usage = Usage()
        self.tool_use = ToolUse()
        self.traffic = Traffic()

    def add(self, record: EpisodeRecord | CallRecord) -> None:
        if not isinstance(record, EpisodeRecord):
            self.traffic.add(record)
            return
        last_round = record.last_round
        self.episodes += 1
        self.own.add(record, last_round)
        self.usage.add(record, last_round)
        self.tool_use.add(record)

    def merge(self, other: "RunMetrics") -> None:
        self.episodes += other.episodes
        self.own.merge(other.own)
        self.usage.merge(other.usage)
        self.tool_use.merge(other.tool_use)
        self.traffic.merge(other.traffic)

    def rates(self) -> dict[str, Any]:
        """The suite's metrics with their intervals, without those that are costly to compute."""
        return self.own.rates()

    def result(self) -> dict[str, Any]:
        return {
            **self.rates(),
            "usage": self.usage.result(),
            "tool_use": self.tool_use.result(),
            **self.own.details(),
            "traffic": self.traffic.result(),
        }
