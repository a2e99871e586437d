"""Two snapshots, or more of them in order of time: what changed from the first to the last, from
each to the next, and how long tools answer.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.drift.finding import LEVELS, Finding
from bench.drift.snapshots.compare import Comparison, Tell, compare
from bench.drift.snapshots.pool import DAY_S
from bench.drift.snapshots.rules import Rules
from bench.drift.survival import followed
from cache import Snapshot
from manifests import Catalog


def series(
    paths: Sequence[Path], rules: Rules, catalog: Catalog, tell: Tell | None = None
) -> tuple[dict[str, Any], list[Finding]]:
    """Compare the first of at least two snapshots with the last, and each with the next. More than
    two are taken in the order in which they were recorded.

    Returns the content as `--json` prints it, and the findings between the first and the last.
    Raises `SnapshotError`.
    """
    if len(paths) > 2:
        paths = sorted(paths, key=_recorded_at)
    steps = [compare(a, b, rules, catalog, tell) for a, b in pairwise(paths)]
    whole = steps[0] if len(steps) == 1 else compare(paths[0], paths[-1], rules, catalog, tell)
    content = whole.to_json()
    content["hosts"] = _by_host(whole.findings)
    content["series"] = [*_series(steps)]
    content["survival"] = _survival(steps)
    return content, whole.findings


def _recorded_at(path: Path) -> float:
    with Snapshot(path) as snapshot:
        return snapshot.summary.recorded_from


def _series(steps: Sequence[Comparison]) -> Iterable[dict[str, Any]]:
    """For each snapshot how many tools answered in it, and what changed since the one before."""
    first = steps[0]
    start = first.before.summary.recorded_from
    yield _row(first.before, start, len(first.answered_before), None)
    for step in steps:
        counts = Counter(finding.level for finding in step.findings)
        found = {level: counts[level] for level in LEVELS}
        yield _row(step.after, start, len(step.answered_after), found)


def _row(
    snapshot: Snapshot, start: float, answered: int, found: dict[Any, int] | None
) -> dict[str, Any]:
    summary = snapshot.summary
    return {
        "file": snapshot.path.name,
        "id": snapshot.id,
        "recorded_from": summary.recorded_from,
        "days": round((summary.recorded_from - start) / DAY_S, 2),
        "calls": summary.rows,
        "answered": answered,
        "findings": found,
    }


def _survival(steps: Sequence[Comparison]) -> dict[str, Any]:
    """How long the tools that answered in the first snapshot do so. A snapshot that did not ask a
    tool says nothing about it, so the tool counts as it did before.
    """
    first = steps[0]
    start = first.before.summary.recorded_from
    times, there = [0.0], [set(first.answered_before)]
    for step in steps:
        asked = step.after.summary.tools.keys()
        unknown = {tool for tool in there[-1] if tool not in asked}
        there.append(step.answered_after | unknown)
        times.append(round((step.after.summary.recorded_from - start) / DAY_S, 2))
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
