"""The rates by group of tasks: by category, by source and by number of labelled tools."""

from collections import defaultdict
from typing import Any

from bench.metrics.interval import share
from bench.record import EpisodeRecord
from bench.suites.fintoolbench.judged import Verdicts
from bench.suites.fintoolbench.outcome import Outcome

_LABELS = ("none", "single")


class Group:
    """Episodes of one group."""

    __slots__ = ("episodes", "invoked", "passed", "verdicts")

    def __init__(self) -> None:
        self.episodes = 0
        self.invoked = 0
        self.passed = 0
        self.verdicts = Verdicts()

    def count(self, outcome: Outcome) -> None:
        self.episodes += 1
        self.invoked += outcome.invoked
        self.passed += outcome.passed
        self.verdicts.count(outcome)

    def merge(self, other: "Group") -> None:
        self.episodes += other.episodes
        self.invoked += other.invoked
        self.passed += other.passed
        self.verdicts.merge(other.verdicts)

    def result(self) -> dict[str, Any]:
        return {
            "episodes": self.episodes,
            "invoked": self.invoked,
            "passed": self.passed,
            "TIR": share(self.invoked, self.episodes),
            "TESR": share(self.passed, self.episodes),
            "CER": share(self.passed, self.invoked),
            **self.verdicts.figures(),
        }


class Breakdown:
    """Groups by name."""

    def __init__(self) -> None:
        self.category: defaultdict[str, Group] = defaultdict(Group)
        self.source_dataset: defaultdict[str, Group] = defaultdict(Group)
        self.labelled_tools: defaultdict[str, Group] = defaultdict(Group)

    def add(self, record: EpisodeRecord, outcome: Outcome) -> None:
        labels = len(record.labelled_tools)
        self.category[record.category].count(outcome)
        self.source_dataset[record.source_dataset].count(outcome)
        self.labelled_tools[_LABELS[labels] if labels < 2 else "multi"].count(outcome)

    def merge(self, other: "Breakdown") -> None:
        theirs = other._by()
        for name, groups in self._by().items():
            for group, counted in theirs[name].items():
                groups[group].merge(counted)

    def result(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {
            name: {group: counted.result() for group, counted in sorted(groups.items())}
            for name, groups in self._by().items()
        }

    def _by(self) -> dict[str, defaultdict[str, Group]]:
        return {
            "category": self.category,
            "source_dataset": self.source_dataset,
            "labelled_tools": self.labelled_tools,
        }
