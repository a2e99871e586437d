"""A comparison of snapshots as one page of HTML, which requests nothing and has no script, and as
Markdown for a pull request.

No text of an answer becomes markup in them, and none controls the direction of writing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

import orjson
from markupsafe import Markup

from bench.drift.finding import LEVELS, Finding, Level
from bench.drift.page import rendered
from bench.drift.picture import curves
from bench.drift.snapshots.drawings import SIDES, drawing, timeline
from bench.drift.snapshots.report import CHECKS, MAX_VALUE, cut
from manifests.common.terminal import plain

MOST_TOOLS: Final = 400
"""Rows of the heat map."""

MOST_FINDINGS: Final = 1_000
MOST_DRAWN: Final = 300

MOST_IN_MARKDOWN: Final = 100
MAX_CELL: Final = 300

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~&@:-])")


def page(content: Mapping[str, Any], findings: Sequence[Finding]) -> str:
    """The page of the content of `series`. `findings` are those of the content, the worst first."""
    several = len(content["series"]) > 2
    listed = [*_listed(findings)]
    there = {finding.check for finding in findings}
    checks = [check for check in CHECKS if check in there]
    rows = _heat(findings, checks, {item["id"] for item in listed})
    return rendered(
        "snapshots.html.j2",
        simulated=any("simulated" in content[side]["upstreams"] for side in SIDES),
        title=f"{_day(content['before'])} to {_day(content['after'])}",
        numbers=[*_numbers(content)],
        checks=checks,
        rows=rows,
        rows_left=len({_name(finding) for finding in findings}) - len(rows),
        counts=[[row["check"], row["level"], f"{row['findings']:,}"] for row in content["counts"]],
        findings=listed,
        left=len(findings) - len(listed),
        hosts=[
            [row["host"], row["tools"], *(row[level] for level in LEVELS)]
            for row in content["hosts"]
        ],
        series=[*_series(content)],
        timeline=timeline(content["series"]) if several else None,
        curve=_curve(content) if several else None,
    )


def _day(about: Mapping[str, Any]) -> str:
    return f"{datetime.fromtimestamp(about['recorded_from'], UTC):%Y-%m-%d %H:%M}"


def _name(finding: Finding) -> str:
    return finding.tool or f"host {finding.host}"


def _numbers(content: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    calls = content["calls"]
    both = calls["same"] + calls["changed"]
    share = f"{calls['same'] / both:.0%}" if both else "none"
    yield "same answer", share, f"of {both:,} calls answered in both"
    notes = {"ERR": "what worked breaks", "WARN": "answers may differ", "INFO": "nothing at risk"}
    for level in LEVELS:
        found = [finding for finding in content["findings"] if finding["level"] == level]
        tools = len({finding["tool"] for finding in found if finding["tool"]})
        yield level, f"{len(found):,}", f"in {tools:,} tools; {notes[level]}"


def _heat(
    findings: Sequence[Finding], checks: Sequence[str], listed: set[str]
) -> list[dict[str, Any]]:
    """A row for each tool: per check the worst level, how many findings, and the first one's id."""
    tools: dict[str, dict[str, list[Finding]]] = {}
    for finding in findings:
        tools.setdefault(_name(finding), {}).setdefault(finding.check, []).append(finding)

    def cell(some: Sequence[Finding]) -> dict[str, Any] | None:
        if not some:
            return None
        first = some[0]
        at = first.id if first.id in listed else None
        return {"level": first.level, "count": len(some), "id": at, "check": first.check}

    return [
        {"name": name, "cells": [cell(found.get(check, ())) for check in checks]}
        for name, found in islice(tools.items(), MOST_TOOLS)
    ]


def _listed(findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    drawn = 0
    for finding in findings[:MOST_FINDINGS]:
        picture = None
        if finding.evidence is not None and drawn < MOST_DRAWN:
            drawn += 1
            picture = drawing(finding.evidence, finding.column or "")
        yield {
            "id": finding.id,
            "level": finding.level,
            "check": finding.check,
            "name": _name(finding),
            "text": cut(finding.text, 2 * MAX_VALUE),
            "before": _value(finding.before),
            "after": _value(finding.after),
            "picture": picture,
        }


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return str(cut(text))


def _series(content: Mapping[str, Any]) -> Iterator[list[str]]:
    for row in content["series"]:
        found: Mapping[Level, int] = row["findings"] or {}
        counts = (f"{found[level]:,}" if found else "" for level in LEVELS)
        yield [row["file"], _day(row), f"{row['calls']:,}", f"{row['answered']:,}", *counts]


def _curve(content: Mapping[str, Any]) -> Markup:
    return curves(
        "Tools that answered in the first snapshot and still do",
        "days since the first snapshot; a mark for each snapshot",
        {"answer": content["survival"]},
        "tools",
        [row["days"] for row in content["series"]],
        "days",
    )


def markdown(content: Mapping[str, Any]) -> str:
    """The comparison of the content of `series`: the counts, then the findings that are no INFO.

    No text of an answer becomes markup, a link or a mention.
    """
    return plain("\n".join(_lines(content)) + "\n")


def _lines(content: Mapping[str, Any]) -> Iterator[str]:
    yield f"### Drift from {_day(content['before'])} UTC to {_day(content['after'])} UTC"
    yield ""
    calls = content["calls"]
    both, same = calls["same"] + calls["changed"], calls["same"]
    were, have = ("call was" if both == 1 else "calls were"), ("has" if same == 1 else "have")
    yield f"{both:,} {were} answered in both snapshots, and {same:,} {have} the same answer."
    yield ""
    if not content["findings"]:
        yield "Nothing was found."
        return
    yield "| level | check | findings |"
    yield "|---|---|---:|"
    for row in content["counts"]:
        yield f"| {row['level']} | `{row['check']}` | {row['findings']:,} |"
    chosen = [finding for finding in content["findings"] if finding["level"] != "INFO"]
    if not chosen:
        return
    yield ""
    yield "| level | tool | check | what |"
    yield "|---|---|---|---|"
    for finding in chosen[:MOST_IN_MARKDOWN]:
        tool = finding["tool"] or f"host {finding['host']}"
        cells = (finding["level"], _cell(tool), f"`{finding['check']}`", _cell(finding["text"]))
        yield f"| {' | '.join(cells)} |"
    if len(chosen) > MOST_IN_MARKDOWN:
        yield ""
        yield f"And {len(chosen) - MOST_IN_MARKDOWN:,} more."


def _cell(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", cut(" ".join(text.split()), MAX_CELL))
