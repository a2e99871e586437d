"""Which tools episodes called: how many, whether they were offered, and whether they are the task's
labelled tools.
"""

from collections import Counter
from typing import Any

from bench.metrics.interval import share
from bench.metrics.spread import spread
from bench.record import EpisodeRecord


class ToolUse:
    """Counts over episodes. Calls of tools that were not offered count only in episodes that name
    candidates, hits of labels only in episodes of labelled tasks.
    """

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()
        self.distinct: Counter[int] = Counter()
        self.offered = 0
        self.not_offered = 0
        self.labelled = 0
        self.hit_any = 0
        self.hit_all = 0

    def add(self, record: EpisodeRecord) -> None:
        names = [call.tool_name for call in record.agent_calls]
        called = set(names)
        self.calls[len(names)] += 1
        self.distinct[len(called)] += 1
        if candidates := record.candidate_tools:
            self.offered += len(names)
            if not called.issubset(candidates):
                self.not_offered += sum(name not in candidates for name in names)
        if labels := record.labelled_tools:
            self.labelled += 1
            self.hit_any += not called.isdisjoint(labels)
            self.hit_all += called.issuperset(labels)

    def merge(self, other: "ToolUse") -> None:
        self.calls.update(other.calls)
        self.distinct.update(other.distinct)
        self.offered += other.offered
        self.not_offered += other.not_offered
        self.labelled += other.labelled
        self.hit_any += other.hit_any
        self.hit_all += other.hit_all

    def result(self) -> dict[str, Any]:
        return {
            "calls_an_episode": spread(self.calls),
            "tools_an_episode": spread(self.distinct),
            "not_offered": {
                "calls": self.not_offered,
                "of": self.offered,
                "share": share(self.not_offered, self.offered),
            },
            "labelled": {
                "episodes": self.labelled,
                "called_any": share(self.hit_any, self.labelled),
                "called_all": share(self.hit_all, self.labelled),
            },
        }
