"""All of FinToolBench's metrics over episodes, as one object that can be merged."""

from collections.abc import Mapping
from typing import Any

from bench.record import EpisodeRecord, ToolCallRecord
from bench.suites.fintoolbench.breakdown import Breakdown
from bench.suites.fintoolbench.capability import Capability
from bench.suites.fintoolbench.judged import Judged
from bench.suites.fintoolbench.outcome import Outcome


class FinToolBenchMetrics:
    """Capability, judged metrics, and both by group (`bench.suites.suite.SuiteMetrics`)."""

    def __init__(self) -> None:
        self.capability = Capability()
        self.judged = Judged()
        self.breakdown = Breakdown()

    def add(self, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> None:
        outcome = Outcome.of(record, last_round)
        self.capability.count(outcome)
        self.judged.add(outcome, record.judgement)
        self.breakdown.add(record, outcome)

    def merge(self, other: "FinToolBenchMetrics") -> None:
        self.capability.merge(other.capability)
        self.judged.merge(other.judged)
        self.breakdown.merge(other.breakdown)

    def rates(self) -> dict[str, Any]:
        capability, judged = self.capability.result(), self.judged.result()
        both = {name: capability[name] | judged[name] for name in ("intervals", "denominators")}
        return {**capability, **judged, **both}

    def details(self) -> dict[str, Any]:
        return {"breakdown": self.breakdown.result()}

    def counts(self) -> Mapping[str, str]:
        rates, result = self.capability.rates(), self.judged.result()
        judged = result["judged"]
        counts = {name: f"{part:,} of {whole:,}" for name, (part, whole) in rates.items()}
        episodes = self.capability.episodes
        counts["SoftScore"] = f"{judged['judged']:,} of {episodes:,}"
        if passed := result["denominators"]["CSS"]:
            counts["CSS"] = f"{passed:,} of {episodes:,}"
        for name, whole in judged["eligible"].items():
            counts[name] = f"{judged['marked'][name]:,} of {whole:,}"
            if (verdicts := judged["verdicts"][name]) < whole:
                counts[name] += f", {verdicts:,} with a verdict"
            if 0 < whole < episodes:
                counts[name] += f"; {whole:,} of {episodes:,} episodes"
        return counts
