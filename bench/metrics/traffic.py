"""What calls ended as: by provenance, error code, fault owner and tool, with latencies."""

from collections import Counter, defaultdict
from typing import Any

from gateway import CallRecord
from gateway.quantile import Quantiles

SHOWN = 5


class ToolTraffic:
    """Calls of one tool."""

    __slots__ = ("calls", "failed", "latency_ms")

    def __init__(self) -> None:
        self.calls = 0
        self.failed = 0
        self.latency_ms = Quantiles()


class Traffic:
    """Counts and latencies over calls."""

    def __init__(self) -> None:
        self.sources: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.latency_ms = Quantiles()
        self.tools: defaultdict[str, ToolTraffic] = defaultdict(ToolTraffic)

    def add(self, record: CallRecord) -> None:
        tool = self.tools[record.tool]
        tool.calls += 1
        tool.latency_ms.add(record.elapsed_ms)
        self.latency_ms.add(record.elapsed_ms)
        if record.ok:
            self.sources[record.source or "unknown"] += 1
        else:
            tool.failed += 1
            self.codes[record.code or "unknown"] += 1
            self.faults[record.fault or "unknown"] += 1

    def merge(self, other: "Traffic") -> None:
        self.sources.update(other.sources)
        self.codes.update(other.codes)
        self.faults.update(other.faults)
        self.latency_ms.merge(other.latency_ms)
        for name, theirs in other.tools.items():
            ours = self.tools[name]
            ours.calls += theirs.calls
            ours.failed += theirs.failed
            ours.latency_ms.merge(theirs.latency_ms)

    @property
    def hit_rate(self) -> float | None:
        """Share of the answered calls that were answered from the cache, fresh or stale."""
        answered = self.sources.total()
        hits = self.sources["cached"] + self.sources["stale"]
        return hits / answered if answered else None

    def result(self) -> dict[str, Any]:
        hit_rate = self.hit_rate
        return {
            "calls": self.latency_ms.count,
            "answered": self.sources.total(),
            "cache_hit_rate": None if hit_rate is None else round(hit_rate, 6),
            "sources": dict(sorted(self.sources.items())),
            "errors": dict(sorted(self.codes.items())),
            "faults": dict(sorted(self.faults.items())),
            "latency_ms": self.latency_ms.result(),
            "slowest": self._rank(lambda t: t.latency_ms.at(0.99) or 0.0),
            "most_failing": [t for t in self._rank(lambda t: t.failed) if t["failed"]],
        }

    def _rank(self, by: Any) -> list[dict[str, Any]]:
        ranked = sorted(self.tools.items(), key=lambda item: (-by(item[1]), item[0]))
        return [
            {
                "tool": name,
                "calls": tool.calls,
                "failed": tool.failed,
                "latency_ms": tool.latency_ms.result(),
            }
            for name, tool in ranked[:SHOWN]
        ]
