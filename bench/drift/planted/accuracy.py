"""Measures what the comparison finds of planted drift: precision and recall by kind."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from bench.drift.finding import Finding
from bench.drift.planted.plants import PLANTS, STRENGTHS, Planted, plant
from bench.drift.planted.world import Answer, Simulated, simulate
from bench.metrics.interval import share
from cache import Entry, Recorder, Row
from manifests import Catalog, Manifest

EACH: Final = 24
"""Tools in which drift of one kind is planted, a third at each strength."""

UNTOUCHED: Final = 120
"""Tools at least that have nothing but expected movement."""

SIMULATED: Final = "simulated"


@dataclass(frozen=True)
class World:
    """The simulated tools of two snapshots, what was planted in them, and the names of those that
    only `moved` as expected.
    """

    tools: Sequence[Simulated]
    planted: Sequence[Planted]
    moved: frozenset[str]


def make(
    catalog: Catalog,
    seed: int,
    *,
    each: int = EACH,
    untouched: int = UNTOUCHED,
    tools_of: int | None = None,
) -> World:
    """Simulate all tools of the catalogue, or `tools_of` of them, and plant drift of each kind in
    `each` of them, but in none of the first `untouched`.
    """
    luck = random.Random(seed)  # noqa: S311 - simulation
    manifests = [manifest for manifest in catalog if not manifest.is_for_one]
    luck.shuffle(manifests)
    free = [simulate(manifest, seed) for manifest in manifests[:tools_of]]
    tools, rest = free[:untouched], free[untouched:]
    planted = []
    # the kinds that few tools can have choose first
    for kind in sorted(PLANTS, key=lambda name: sum(map(PLANTS[name].fits, rest))):
        chosen = [*filter(PLANTS[kind].fits, rest)][:each]
        for place, tool in enumerate(chosen):
            planted.append(plant(tool, kind, place % len(STRENGTHS)))
        tools += chosen
        names = {tool.manifest.name for tool in chosen}
        rest = [tool for tool in rest if tool.manifest.name not in names]
    moved = frozenset(tool.manifest.name for tool in (*free[:untouched], *rest))
    return World([*tools, *rest], planted, moved)


async def write(world: World, before: Path, after: Path) -> None:
    """Write both snapshots. Raises `SnapshotError`."""
    for path, side in ((before, "before"), (after, "after")):
        async with Recorder.open(path, SIMULATED) as recorder:
            rows = [
                _row(tool.manifest, probe, answer)
                for tool in world.tools
                for probe, answer in enumerate(getattr(tool, side))
            ]
            for start in range(0, len(rows), 500):
                await asyncio.gather(*map(recorder.add, rows[start : start + 500]))


def _row(manifest: Manifest, probe: int, answer: Answer) -> Row:
    columns = answer.columns
    if columns is None:
        data = orjson.dumps(answer.value)
    else:
        data = b"[%b]" % b",\n".join(map(orjson.dumps, answer.value))
    entry = Entry(
        data=data,
        columns=None if columns is None else tuple(columns),
        rows=None if columns is None else len(answer.value),
        recorded_at=int(answer.recorded_at * 1e3) / 1e3,
        latency_ms=round(answer.latency_ms, 3),
        upstream=SIMULATED,
        tool=manifest.name,
    )
    arguments = {**manifest.sample(), "simulated_probe": probe}
    return Row(manifest.name, manifest.revision, arguments, answer.status, entry)


def measure(world: World, findings: Iterable[Finding]) -> dict[str, Any]:
    """Precision and recall by kind, recall by strength, and what was found where nothing but
    movement was expected. A wrong finding counts for every kind that its check is to find.
    """
    planted = {item.tool: item for item in world.planted}
    found: defaultdict[str, set[str]] = defaultdict(set)
    right, wrong = Counter[str](), Counter[str]()
    surprises: list[dict[str, Any]] = []
    for finding in findings:
        item = planted.get(finding.tool or "")
        if item is not None and _is_meant(finding, item):
            right[item.kind] += 1
            found[item.kind].add(item.tool)
        else:
            wrong[finding.check] += 1
            surprises.append({**finding.to_json(), "planted": item.kind if item else None})
    rows: list[dict[str, Any]] = []
    for kind, drift in PLANTS.items():
        items = [item for item in world.planted if item.kind == kind]
        hits = [item for item in items if item.tool in found[kind]]
        check = drift.check or kind
        of, hit = (Counter(item.strength for item in some) for some in (items, hits))
        by_strength = {strength: share(hit[strength], of[strength]) for strength in STRENGTHS}
        rows.append(
            {
                "kind": kind,
                "check": check,
                "planted": len(items),
                "found": len(hits),
                "recall": share(len(hits), len(items)),
                "precision": share(right[kind], right[kind] + wrong[check]),
                "wrong": wrong[check],
                "recall_by_strength": by_strength,
                "missed": [item.tool for item in items if item not in hits],
            }
        )
    moved = [s for s in surprises if s["tool"] in world.moved]
    return {
        "tools": len(world.tools),
        "kinds": rows,
        "recall": share(sum(row["found"] for row in rows), sum(row["planted"] for row in rows)),
        "precision": share(right.total(), right.total() + wrong.total()),
        "moved_tools": len(world.moved),
        "moved_with_findings": dict(Counter(s["level"] for s in moved)),
        "surprises": surprises,
    }


def _is_meant(finding: Finding, item: Planted) -> bool:
    is_there = item.columns is None or finding.column in item.columns
    return finding.check == item.check and is_there
