"""A comparison of snapshots as one page of HTML, which requests nothing and has no script.

No text of an answer becomes markup in it, and none controls the direction of writing.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from markupsafe import Markup

from bench.drift.finding import LEVELS, Finding, Level
from bench.drift.page import style_and_template
from bench.drift.picture import Curves
from bench.drift.picture import drawing as curves_drawing
from bench.drift.snapshots.drawings import drawing, timeline
from bench.drift.snapshots.report import CHECKS
from bench.html import environment, policy
from manifests.common.terminal import plain

MOST_TOOLS: Final = 400
"""Rows of the heat map."""

MOST_FINDINGS: Final = 1_000
MOST_DRAWN: Final = 300
MAX_VALUE: Final = 200


def page(content: Mapping[str, Any], findings: Sequence[Finding]) -> str:
    """The page of the content of `series`. `findings` are those of the content, the worst first."""
    css, template = style_and_template("snapshots.html.j2")
    several = len(content["series"]) > 2
    upstreams = {*content["before"]["upstreams"], *content["after"]["upstreams"]}
    listed = [*_listed(findings)]
    there = {finding.check for finding in findings}
    checks = [check for check in CHECKS if check in there]
    text = (
        environment()
        .from_string(template)
        .render(
            policy=policy(css),
            css=css,
            content=content,
            simulated="simulated" in upstreams,
            title=f"{_day(content['before'])} to {_day(content['after'])}",
            numbers=[*_numbers(content)],
            checks=(
                checks := [check for check in CHECKS if any(f.check == check for f in findings)]
            ),
            rows=(rows := _heat(findings, checks, {item["id"] for item in listed})),
            rows_left=max(len({_name(f) for f in findings}) - len(rows), 0),
            counts=[
                [row["check"], row["level"], f"{row['findings']:,}"] for row in content["counts"]
            ],
            findings=listed,
            left=len(findings) - len(listed),
            hosts=[
                [row["host"], row["tools"], *(row[level] for level in LEVELS)]
                for row in content["hosts"]
            ],
            series=[*_series(content)],
            timeline=Markup(timeline(content["series"])) if several else None,  # noqa: S704 - ours
            curve=Markup(_curve(content)) if several else None,  # noqa: S704 - ours
        )
    )
    return plain(text)


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
    rows = []
    for name, found in [*tools.items()][:MOST_TOOLS]:
        cells: list[dict[str, Any] | None] = []
        for check in checks:
            some = found.get(check)
            cells.append(
                {
                    "level": some[0].level,
                    "count": len(some),
                    "id": some[0].id if some[0].id in listed else None,
                    "check": check,
                }
                if some
                else None
            )
        rows.append({"name": name, "cells": cells})
    return rows


def _listed(findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    drawn = 0
    for finding in findings[:MOST_FINDINGS]:
        picture = None
        if finding.evidence is not None and drawn < MOST_DRAWN:
            drawn += 1
            picture = Markup(drawing(finding.evidence, finding.column or ""))  # noqa: S704 - ours
        yield {
            "id": finding.id,
            "level": finding.level,
            "check": finding.check,
            "name": _name(finding),
            "text": _cut(finding.text, 2 * MAX_VALUE),
            "host": finding.host,
            "before": _value(finding.before),
            "after": _value(finding.after),
            "picture": picture,
        }


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return _cut(text, MAX_VALUE)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."


def _series(content: Mapping[str, Any]) -> Iterator[list[str]]:
    for row in content["series"]:
        found: Mapping[Level, int] = row["findings"] or {}
        counts = (f"{found[level]:,}" if found else "" for level in LEVELS)
        yield [row["file"], _day(row), f"{row['calls']:,}", f"{row['answered']:,}", *counts]


def _curve(content: Mapping[str, Any]) -> str:
    curves = Curves(
        "Tools that answered in the first snapshot and still do",
        "days since the first snapshot; a mark for each snapshot",
        {"catalogue": content["survival"]},
        {"catalogue": "answer"},
        "tools",
        [row["days"] for row in content["series"]],
        "days",
    )
    return curves_drawing(curves)
