"""Compares two snapshots tool by tool, in several processes where there is much to read; of a
series of snapshots each with the next.
"""

import os
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.drift.finding import LEVELS, Finding, Level
from bench.drift.snapshots.pool import DAY_S
from bench.drift.snapshots.report import CHECKS, Report
from bench.drift.snapshots.rules import Rules
from bench.drift.snapshots.statistics import significant
from bench.drift.snapshots.tool import SLOWER, SLOWER_MS, compare_tool
from bench.drift.survival import followed
from cache import Snapshot, SnapshotError
from gateway.upstreams.hosts import host_of
from manifests import Catalog

FALSE_RATE: Final = 0.02
"""The share of all findings about distributions that may be chance."""

ALONE_BYTES: Final = 4 * 2**20
"""Two smaller snapshots are compared in this process."""

LEAST_TOOLS: Final = 3
"""Tools of a host from which a finding is about the host."""

_COUNTS: Final = (
    *("in_both", "same", "changed", "only_before", "only_after", "not_measured", "in_part"),
)

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)

Tell = Callable[[int, int], None]


Tool = tuple[str, str | None, str]
"""What the comparison needs to know of a tool: name, host, timeliness."""


@dataclass(frozen=True)
class Comparison:
    """Two snapshots compared: findings, counts of calls, and the tools that answered a call."""

    before: Snapshot
    after: Snapshot
    findings: list[Finding]
    counts: Counter[str]
    answered_before: frozenset[str]
    answered_after: frozenset[str]

    def to_json(self) -> dict[str, Any]:
        """The comparison as `--json` prints it."""
        return {
            "before": about(self.before),
            "after": about(self.after),
            "calls": dict(self.counts),
            "counts": counted(self.findings),
            "findings": [finding.to_json() for finding in self.findings],
        }


def about(snapshot: Snapshot) -> dict[str, Any]:
    """What a comparison says of a snapshot; times are Unix seconds."""
    summary = snapshot.summary
    return {
        "file": snapshot.path.name,
        "id": snapshot.id,
        "recorded_from": summary.recorded_from,
        "recorded_to": summary.recorded_to,
        "calls": summary.rows,
        "tools": len(summary.tools),
        "upstreams": summary.made_by,
    }


def counted(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """How many findings there are of each level and check, the worst first."""
    counts = Counter((finding.level, finding.check) for finding in findings)
    return [
        {"level": level, "check": check, "findings": counts[level, check]}
        for level in LEVELS
        for check in CHECKS
        if counts[level, check]
    ]


def compare(
    before: Path, after: Path, rules: Rules, catalog: Catalog, tell: Tell | None = None
) -> Comparison:
    """Compare the calls that both snapshots hold. `tell` hears how many tools are done, and of how
    many. Raises `SnapshotError`.
    """
    with Snapshot(before) as first, Snapshot(after) as second:
        names = sorted(first.summary.tools.keys() | second.summary.tools.keys())
        tools = [_about_tool(name, catalog) for name in names if not rules.leaves_out(name)]
        results = []
        alone = first.bytes + second.bytes < ALONE_BYTES or (os.cpu_count() or 1) == 1
        found = (
            (compare_tool(first, second, *tool) for tool in tools)
            if alone
            else _shared(before, after, tools)
        )
        for done, result in enumerate(found, 1):
            results.append(result)
            if tell is not None:
                tell(done, len(tools))
    counts = Counter(dict.fromkeys(_COUNTS, 0))
    for result in results:
        counts.update(result.counts)
    return Comparison(
        first,
        second,
        rules.applied(_findings(results)),
        counts,
        frozenset(result.tool for result in results if result.answered_before),
        frozenset(result.tool for result in results if result.answered_after),
    )


def _about_tool(name: str, catalog: Catalog) -> Tool:
    manifest = catalog.get(name)
    if manifest is None:
        return name, None, "static"
    return name, host_of(manifest), manifest.timeliness


def _shared(before: Path, after: Path, tools: Sequence[Tool]) -> Iterator[Report]:
    """By several processes, each of which opens the snapshots once. They do not see Ctrl-C, and end
    when this process sees it, or ends.
    """
    others = {*active_children()}
    with ProcessPoolExecutor(
        os.cpu_count(),
        mp_context=get_context("spawn"),
        initializer=_open,
        initargs=(before, after),
    ) as pool:
        try:
            # A process that is half started would end in a traceback.
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
            try:
                results = pool.map(_compare_opened, tools, chunksize=4)  # starts the processes
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            yield from results
        except BrokenProcessPool:
            why = "a process that compared them was ended, perhaps for lack of memory"
            raise SnapshotError(f"{before} and {after}: {why}") from None
        except BaseException:
            for process in {*active_children()} - others:
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_opened: list[Snapshot] = []


def _open(before: Path, after: Path) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _opened[:] = [Snapshot(before), Snapshot(after)]
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, even by a kill."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _compare_opened(tool: Tool) -> Report:
    return compare_tool(_opened[0], _opened[1], *tool)


def _findings(results: Sequence[Report]) -> list[Finding]:
    """All findings, the worst first, then by tool. Distributions are tested together."""
    limit = significant([p for r in results for p in r.chances], FALSE_RATE)
    found = [*_of_hosts(results)]
    for result in results:
        found += result.findings.values()
        found += (finding for chance, finding in result.tested if chance <= limit)
    order = {name: place for place, name in enumerate((*LEVELS, *CHECKS))}
    found.sort(key=lambda f: (order[f.level], f.tool or "", order.get(f.check, 99), f.column or ""))
    return found


def _of_hosts(results: Iterable[Report]) -> Iterator[Finding]:
    """What all tools of a host have in common: they fail, or they are slower."""
    hosts: defaultdict[str, list[Report]] = defaultdict(list)
    for result in results:
        if result.host is not None and result.answered_before:
            hosts[result.host].append(result)
    for host, tools in hosts.items():
        if len(tools) < LEAST_TOOLS:
            continue
        if all(("availability", None) in tool.findings for tool in tools) and not any(
            tool.answered_after for tool in tools
        ):
            text = f"all {len(tools)} tools of {host} that answered fail now"
            yield Finding(None, "availability", "ERR", text, host, None, "ok", "failed")
            continue
        pairs = [pair for tool in tools for pair in tool.latencies]
        slower = sum(b >= SLOWER * a for a, b in pairs)
        if len(pairs) < LEAST_TOOLS or slower < 0.8 * len(pairs):
            continue
        old, new = median(a for a, _ in pairs), median(b for _, b in pairs)
        if new >= SLOWER * old and new - old >= SLOWER_MS:
            text = f"calls to {host} took {old:,.0f} ms and take {new:,.0f} ms"
            sides = round(old, 1), round(new, 1)
            yield Finding(None, "latency", "WARN", text, host, None, *sides)


def series(
    paths: Sequence[Path], rules: Rules, catalog: Catalog, tell: Callable[[float, str], None]
) -> tuple[dict[str, Any], list[Finding]]:
    """Compare the first of at least two snapshots with the last, and each with the next. More than
    two are taken in the order in which they were recorded.

    Returns the content as `--json` prints it, and the findings between the first and the last.
    `tell` hears which part is done, and says it in words. Raises `SnapshotError`.
    """
    if len(paths) > 2:
        paths = sorted(paths, key=_recorded_at)
    pairs = [*pairwise(paths), (paths[0], paths[-1])] if len(paths) > 2 else [(paths[0], paths[1])]

    def compared(passed: int) -> Comparison:
        def told(done: int, count: int) -> None:
            part = (passed + done / count) / len(pairs)
            tell(part, f"compared {done} of {count} tools")

        return compare(*pairs[passed], rules, catalog, told)

    comparisons = [compared(place) for place in range(len(pairs))]
    steps, whole = comparisons[: len(paths) - 1], comparisons[-1]
    content = whole.to_json()
    content["hosts"] = _by_host(whole.findings)
    content["series"] = [*_series(steps)]
    content["survival"] = _survival(steps)
    return content, whole.findings


def _recorded_at(path: Path) -> float:
    with Snapshot(path) as snapshot:
        return snapshot.summary.recorded_from


def _series(steps: Sequence[Comparison]) -> Iterator[dict[str, Any]]:
    """For each snapshot how many tools answered in it, and what changed since the one before."""
    first = steps[0]
    yield _row(first.before, first.before, first.answered_before, None)
    for step in steps:
        counts = Counter(finding.level for finding in step.findings)
        found = {level: counts[level] for level in LEVELS}
        yield _row(first.before, step.after, step.answered_after, found)


def _row(
    first: Snapshot, snapshot: Snapshot, answered: Set[str], found: Mapping[Level, int] | None
) -> dict[str, Any]:
    said = about(snapshot)
    return {
        **{name: said[name] for name in ("file", "id", "recorded_from")},
        "days": _days(first, snapshot),
        "calls": said["calls"],
        "answered": len(answered),
        "findings": found,
    }


def _days(first: Snapshot, snapshot: Snapshot) -> float:
    return round((snapshot.summary.recorded_from - first.summary.recorded_from) / DAY_S, 2)


def _survival(steps: Sequence[Comparison]) -> dict[str, Any]:
    """How long the tools that answered in the first snapshot do so. A snapshot that did not ask a
    tool says nothing about it, so the tool counts as it did before.
    """
    first = steps[0]
    there = [first.answered_before]
    for step in steps:
        there.append(step.answered_after | there[-1] - step.after.summary.tools.keys())
    times = [0.0, *(_days(first.before, step.after) for step in steps)]
    return followed(first.answered_before, times, there, what="tools")


def _by_host(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """How many findings of each level there are by host, and about how many tools."""
    tools: defaultdict[str, set[str]] = defaultdict(set)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for finding in findings:
        host = finding.host or "unknown"
        counts[host][finding.level] += 1
        if finding.tool is not None:
            tools[host].add(finding.tool)
    rows = [
        {"host": host, "tools": len(tools[host]), **{level: count[level] for level in LEVELS}}
        for host, count in counts.items()
    ]
    return sorted(rows, key=lambda row: tuple(-int(str(row[level])) for level in LEVELS))
