"""All metrics of a run, as one mergeable whole: what `metrics.json` holds."""

from typing import Any

from bench.metrics.capability import Capability
from bench.metrics.traffic import Traffic
from bench.record import EpisodeRecord
from gateway import CallRecord


class RunMetrics:
    """Fed with both streams of a run."""

    def __init__(self) -> None:
        self.capability = Capability()
        self.traffic = Traffic()

    def add(self, record: EpisodeRecord | CallRecord) -> None:
        if isinstance(record, EpisodeRecord):
            self.capability.add(record)
        else:
            self.traffic.add(record)

    def merge(self, other: "RunMetrics") -> None:
        self.capability.merge(other.capability)
        self.traffic.merge(other.traffic)

    def result(self) -> dict[str, Any]:
        return {**self.capability.result(), "traffic": self.traffic.result()}
