"""AkShare across releases: the findings between the oldest and the newest, a row for each release,
and how long functions survive.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, Final

from bench.drift.differences import differences
from bench.drift.finding import LEVELS, Finding
from bench.drift.functions import Parameter, Surface, read_functions
from bench.drift.releases import Release, each
from bench.drift.survival import followed

CURVES: Final = {"all": "all functions", "catalogue": "of the catalogue"}
"""The survival curves, and what each is of."""

_DAY_S: Final = 86_400

Shapes = Mapping[str, tuple[Parameter, ...] | None]


def history(
    releases: Sequence[Release], tools: Set[str], tell: Callable[[str], None]
) -> dict[str, Any]:
    """The drift across `releases`, of which there are two or more, the oldest first. `tools` are
    the functions of the catalogue. `tell` hears of each release before it is read.

    Raises `WheelError` for a release that can't be read.
    """
    shapes: list[Shapes] = []
    ends: list[Surface] = []
    unread: dict[str, dict[str, str]] = {}
    versions = [release.version for release in releases]
    for version, release in zip(each(tell, "reading", versions), releases, strict=True):
        surface = read_functions(release.wheel)
        if release in (releases[0], releases[-1]):
            ends.append(surface)
        if surface.unread:
            unread[version] = dict(surface.unread)
        shapes.append(
            {name: None if f is None else f.parameters for name, f in surface.functions.items()}
        )
    times, unit = _times(releases)
    rows = _rows(releases, times, shapes, tools)
    findings = sorted(
        differences(ends[0], ends[-1], _moments(releases, shapes)),
        key=lambda f: (LEVELS.index(f.level), f.check, f.tool, f.column or ""),
    )
    first = shapes[0].keys()
    return {
        "package": "akshare",
        "oldest": releases[0].version,
        "newest": releases[-1].version,
        "unit": unit,
        "catalogue": len(tools),
        "releases": rows,
        "unread": unread,
        "counts": _counts(findings, tools),
        "survival": {
            name: followed(of, times, shapes, what="functions")
            for name, of in zip(CURVES, (first, first & tools), strict=True)
        },
        "findings": [{**f.to_json(), "catalogued": f.tool in tools} for f in findings],
    }


def _times(releases: Sequence[Release]) -> tuple[list[float], str]:
    """When each release came, since the first: in days, or if that is unknown in releases."""
    uploaded = [release.uploaded for release in releases]
    known = [moment for moment in uploaded if moment is not None]
    if len(known) == len(uploaded) and all(a < b for a, b in pairwise(known)):
        days = ((moment - known[0]).total_seconds() / _DAY_S for moment in known)
        return [round(day, 1) for day in days], "days"
    return [float(place) for place in range(len(releases))], "releases"


def _rows(
    releases: Sequence[Release], times: Sequence[float], shapes: Sequence[Shapes], tools: Set[str]
) -> list[dict[str, Any]]:
    """A row for each release, with what changed since the one before."""
    rows = []
    ever = frozenset[str]().union(*shapes)
    previous: Shapes = shapes[0]
    for place, (release, time, now) in enumerate(zip(releases, times, shapes, strict=True)):
        later = frozenset[str]().union(*shapes[place + 1 :])
        missing = sorted(tools - now.keys())
        rows.append(
            {
                "version": release.version,
                "uploaded": release.uploaded and release.uploaded.date().isoformat(),
                "time": time,
                "functions": len(now),
                "gone": sorted(previous.keys() - now.keys()),
                "new": sorted(now.keys() - previous.keys()),
                "parameters_changed": sorted(
                    name for name in now.keys() & previous.keys() if now[name] != previous[name]
                ),
                "missing": missing,
                "not_yet": [name for name in missing if name in later],
                "never_seen": [name for name in missing if name not in ever],
            }
        )
        previous = now
    return rows


def _moments(releases: Sequence[Release], shapes: Sequence[Shapes]) -> dict[str, str]:
    """When functions went or came, if there are releases between the oldest and the newest."""
    if len(releases) < 3:
        return {}
    moments = {}
    for (old, before), (new, after) in pairwise(zip(releases, shapes, strict=True)):
        for name in before.keys() - after.keys():
            moments[name] = f" since {new.version}; {old.version} still had it"
        for name in after.keys() - before.keys():
            moments[name] = f" since {new.version}"
    return moments


def _counts(findings: Sequence[Finding], tools: Set[str]) -> list[dict[str, Any]]:
    """How many findings there are by level and check, in all and of the catalogue."""
    kinds = Counter((finding.level, finding.check) for finding in findings)
    ours = Counter((f.level, f.check) for f in findings if f.tool in tools)
    return [
        {"level": level, "check": check, "findings": count, "catalogued": ours[level, check]}
        for (level, check), count in kinds.items()
    ]


def release_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A release to read: version, date, time, and how many functions it has, that are gone, new and
    with other parameters, that it lacks of the catalogue, and that came later.
    """
    lists = ("gone", "new", "parameters_changed", "missing", "not_yet")
    return (
        *(row["version"], row["uploaded"] or "", f"{row['time']:g}", f"{row['functions']:,}"),
        *(str(len(row[name])) for name in lists),
    )


def grouped(findings: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Level, check, tool and text of findings to read, with all columns of a tool in one row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for place, finding in enumerate(findings):
        kind = finding["level"], finding["check"], finding["tool"]
        if finding["check"].startswith("column_"):
            rows.setdefault(kind, []).append(finding["column"])
        else:
            rows[(*kind, str(place))] = [finding["text"]]
    return [
        (*kind[:3], texts[0] if len(kind) > 3 else f"{len(texts)}: {', '.join(texts)}")
        for kind, texts in rows.items()
    ]
