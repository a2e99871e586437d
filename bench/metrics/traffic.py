"""Outcomes of calls by provenance, error code, fault owner, host and tool, with latencies."""

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Mapping
from heapq import nsmallest
from operator import attrgetter
from typing import Any

from bench.metrics.mergeable import Mergeable
from gateway import CallRecord
from gateway.telemetry.quantile import Quantiles, bucket_of

SHOWN = 5

UNKNOWN = "(not in the catalogue)"
"""Counts all unknown tools together: a model that makes names up must not fill the memory."""


_Kind = tuple[str, str | None, str | None, str | None, str | None]
"""Tool, host, source, error code and fault of a call. Host and source of a call may be unknown."""


_kind_of = attrgetter("tool", "host", "source", "code", "fault")


class Traffic(Mergeable):
    """Counts and latencies over calls. The host of a call over HTTP is `unknown`, since only its
    gateway knows it.
    """

    def __init__(self) -> None:
        self.latency_ms = Quantiles()
        self._kinds: Counter[_Kind] = Counter()
        self._lies: Counter[str] = Counter()
        self._buckets: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """The latencies of a tool's calls, in the buckets of `Quantiles`."""

    def add(self, record: CallRecord) -> None:
        kind, bucket = _kind_of(record), bucket_of(record.elapsed_ms)
        if record.code == "unknown_tool":
            kind = (UNKNOWN, *kind[1:])
        self._kinds[kind] += 1
        if record.lied is not None:
            self._lies[str(record.lied)] += 1
        self._buckets[kind[0]][bucket] += 1
        self.latency_ms.count_in(bucket)

    def sources(self) -> Counter[str]:
        """Answered calls by where their answers came from."""
        return self._counted(2, failed=False)

    def codes(self) -> Counter[str]:
        """Failed calls by error code."""
        return self._counted(3, failed=True)

    def faults(self) -> Counter[str]:
        """Failed calls by whose fault it was."""
        return self._counted(4, failed=True)

    def hit_rate(self) -> float | None:
        """Share of the answered calls that were answered from the cache, fresh or stale."""
        sources = self.sources()
        answered, hits = sources.total(), sources["cached"] + sources["stale"]
        return hits / answered if answered else None

    def result(self) -> dict[str, Any]:
        hit_rate, sources = self.hit_rate(), self.sources()
        return {
            "calls": self.latency_ms.count,
            "answered": sources.total(),
            "cache_hit_rate": None if hit_rate is None else round(hit_rate, 6),
            "sources": dict(sorted(sources.items())),
            "errors": dict(sorted(self.codes().items())),
            "faults": dict(sorted(self.faults().items())),
            **({"lies": dict(sorted(self._lies.items()))} if self._lies else {}),
            "hosts": self._hosts(),
            "latency_ms": self.latency_ms.result(),
            **self._of_tools(),
        }

    def _counted(self, place: int, *, failed: bool) -> Counter[str]:
        counts: Counter[str] = Counter()
        for kind, n in self._kinds.items():
            if (kind[3] is not None) == failed:
                counts[kind[place] or "unknown"] += n
        return counts

    def _hosts(self) -> dict[str, dict[str, Any]]:
        calls: Counter[str] = Counter()
        codes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (_, host, _, code, _), n in self._kinds.items():
            calls[host or "unknown"] += n
            if code is not None:
                codes[host or "unknown"][code] += n
        return {
            host: {
                "calls": n,
                "failed": codes[host].total(),
                "errors": dict(sorted(codes[host].items())),
            }
            for host, n in sorted(calls.items())
        }

    def _of_tools(self) -> dict[str, Any]:
        """The slowest tools and those that fail most."""
        failed = self._counted(0, failed=True)
        tools = {tool: Quantiles(buckets) for tool, buckets in self._buckets.items()}
        failing = [(-failures, name) for name, failures in failed.items()]
        names = {
            "slowest": _slowest(tools),
            "most_failing": [n for _, n in nsmallest(SHOWN, failing)],
        }
        return {
            title: [
                {
                    "tool": name,
                    "calls": tools[name].count,
                    "failed": failed[name],
                    "latency_ms": tools[name].result(),
                }
                for name in shown
            ]
            for title, shown in names.items()
        }


def _slowest(tools: Mapping[str, Quantiles]) -> list[str]:
    """The tools by their 99th percentile. That costs 50 us for each tool and is at most its highest
    figure, so tools are tried in order of the latter: few of 760 tools need it.
    """
    found: list[tuple[float, str]] = []
    for bound, name in sorted((-tool.highest, name) for name, tool in tools.items()):
        if len(found) == SHOWN and bound > found[-1][0]:
            break
        insort(found, (-(tools[name].at(0.99) or 0.0), name))
        del found[SHOWN:]
    return [name for _, name in found]
