"""Outcomes of calls by provenance, error code, fault owner, host and tool, with latencies."""

from bisect import insort
from collections import Counter, defaultdict
from heapq import nsmallest
from typing import Any

from gateway import CallRecord
from gateway.telemetry.quantile import Quantiles

SHOWN = 5

UNKNOWN = "(not in the catalogue)"
"""Counts all unknown tools together: a model that makes names up must not fill the memory."""


class ToolTraffic:
    """Calls of one tool."""

    __slots__ = ("calls", "failed", "latency_ms")

    def __init__(self) -> None:
        self.calls = 0
        self.failed = 0
        self.latency_ms = Quantiles()


class HostTraffic:
    """Calls of the tools of one upstream host."""

    __slots__ = ("calls", "codes")

    def __init__(self) -> None:
        self.calls = 0
        self.codes: Counter[str] = Counter()

    def result(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "failed": self.codes.total(),
            "errors": dict(sorted(self.codes.items())),
        }


class Traffic:
    """Counts and latencies over calls. The host of a call over HTTP is `unknown`, since only its
    gateway knows it.
    """

    def __init__(self) -> None:
        self.sources: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.latency_ms = Quantiles()
        self.tools: defaultdict[str, ToolTraffic] = defaultdict(ToolTraffic)
        self.hosts: defaultdict[str, HostTraffic] = defaultdict(HostTraffic)

    def add(self, record: CallRecord) -> None:
        tool = self.tools[UNKNOWN if record.code == "unknown_tool" else record.tool]
        tool.calls += 1
        tool.latency_ms.add(record.elapsed_ms)
        self.latency_ms.add(record.elapsed_ms)
        host = self.hosts[record.host or "unknown"]
        host.calls += 1
        if record.ok:
            self.sources[record.source or "unknown"] += 1
        else:
            code = record.code or "unknown"
            tool.failed += 1
            host.codes[code] += 1
            self.codes[code] += 1
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
        for name, host in other.hosts.items():
            self.hosts[name].calls += host.calls
            self.hosts[name].codes.update(host.codes)

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
            "hosts": {name: host.result() for name, host in sorted(self.hosts.items())},
            "latency_ms": self.latency_ms.result(),
            "slowest": [self._of_tool(name) for name in self._slowest()],
            "most_failing": [self._of_tool(name) for name in self._most_failing()],
        }

    def _slowest(self) -> list[str]:
        """The tools by their 99th percentile. That costs 50 us for each tool and is at most its
        highest figure, so tools are tried in order of the latter: few of 760 tools need it.
        """
        found: list[tuple[float, str]] = []
        for bound, name in sorted((-t.latency_ms.highest, name) for name, t in self.tools.items()):
            if len(found) == SHOWN and bound > found[-1][0]:
                break
            insort(found, (-(self.tools[name].latency_ms.at(0.99) or 0.0), name))
            del found[SHOWN:]
        return [name for _, name in found]

    def _most_failing(self) -> list[str]:
        failing = [(-tool.failed, name) for name, tool in self.tools.items() if tool.failed]
        return [name for _, name in nsmallest(SHOWN, failing)]

    def _of_tool(self, name: str) -> dict[str, Any]:
        tool = self.tools[name]
        return {
            "tool": name,
            "calls": tool.calls,
            "failed": tool.failed,
            "latency_ms": tool.latency_ms.result(),
        }
