"""Drift as one page of HTML, which requests nothing and has no script.

No text of a release becomes markup in it, and none controls the direction of writing.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from bench.drift.history import CURVES, grouped, release_row
from bench.drift.picture import of_releases
from bench.metrics.interval import interval_text, percent
from gateway.common import html
from gateway.common.html import environment, style, text_of

_MOST: Final = 2_000


def page(content: Mapping[str, Any]) -> str:
    """The page of the content of `history`."""
    several = len(content["releases"]) > 2
    return rendered(
        "drift.html.j2",
        content=content,
        numbers=[*_numbers(content)],
        counts=[
            [kind[name] for name in ("check", "level", "findings", "catalogued")]
            for kind in content["counts"]
        ],
        releases=[release_row(row) for row in content["releases"]],
        missing=_missing(content),
        curve=of_releases(content) if several else None,
        survival=[*_survival(content)],
        findings=_findings(content, catalogued=True),
        others=_findings(content, catalogued=False),
    )


def rendered(template: str, **values: Any) -> str:
    """A page about drift: a template, with the style and the macros that the pages share."""
    css = style(("bench.report", "report.css"), ("bench.drift", "drift.css"))
    text = "".join(text_of("bench.drift", name) for name in ("macros.html.j2", template))
    return html.rendered(environment().from_string(text), css, **values)


def _numbers(content: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    last, size = content["releases"][-1], content["catalogue"]
    missing = len(last["missing"])
    yield "of the catalogue", f"{size - missing}", f"of {size} exist in {content['newest']}"
    for check, name in (
        ("function_removed", "functions gone"),
        ("function_added", "functions new"),
    ):
        counts = [kind for kind in content["counts"] if kind["check"] == check]
        ours = sum(kind["catalogued"] for kind in counts)
        yield name, f"{sum(kind['findings'] for kind in counts)}", f"{ours} of the catalogue"
    broken = {
        finding["tool"]
        for finding in content["findings"]
        if finding["catalogued"] and finding["level"] == "ERR"
    }
    yield "tools of the catalogue", f"{len(broken)}", "with a finding at level ERR"


def _missing(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each function of the catalogue that a release lacks, with the releases that do."""
    releases = content["releases"]
    newest = releases[-1]["missing"]
    rows = []
    for name in sorted({name for row in releases for name in row["missing"]}):
        runs = groupby(releases, key=lambda row: name in row["missing"])
        ends = ([row["version"] for row in run] for lacks, run in runs if lacks)
        spans = (" to ".join(dict.fromkeys((run[0], run[-1]))) for run in ends)
        rows.append((name, ", ".join(spans)))
    return sorted(rows, key=lambda row: row[0] not in newest)


def _survival(content: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for key, name in CURVES.items():
        for step in content["survival"][key]["steps"]:
            yield (
                *(name, f"{step['time']:g}", f"{step['at_risk']:,}", f"{step['ended']}"),
                *(percent(step["survival"]), interval_text(step["interval"])),
            )


def _findings(content: Mapping[str, Any], *, catalogued: bool) -> dict[str, Any]:
    """Rows of findings, of tools of the catalogue or of others. Changes of documentation and new
    functions of others are only counted: they are many, and break nothing.
    """
    chosen = [
        finding
        for finding in content["findings"]
        if finding["catalogued"] == catalogued
        and finding["check"] != "documentation_changed"
        and (catalogued or finding["level"] != "INFO")
    ]
    rows = grouped(chosen)
    return {"rows": rows[:_MOST], "left": max(len(rows) - _MOST, 0)}
