"""A comparison as Markdown for a pull request."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from manifests.common.terminal import plain

MOST: Final = 100
"""Findings that are listed."""

MAX_CELL: Final = 300

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~&@:-])")


def markdown(content: Mapping[str, Any], levels: Sequence[str] = ("ERR", "WARN")) -> str:
    """The comparison of the content of `series`: the counts, then the findings of `levels`.

    No text of an answer becomes markup, a link or a mention.
    """
    return plain("\n".join(_lines(content, levels)) + "\n")


def _lines(content: Mapping[str, Any], levels: Sequence[str]) -> Iterator[str]:
    before, after = content["before"], content["after"]
    yield f"### Drift from {_when(before)} to {_when(after)}"
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
    chosen = [finding for finding in content["findings"] if finding["level"] in levels]
    if not chosen:
        return
    yield ""
    yield "| level | tool | check | what |"
    yield "|---|---|---|---|"
    for finding in chosen[:MOST]:
        tool = finding["tool"] or f"host {finding['host']}"
        cells = (finding["level"], _cell(tool), f"`{finding['check']}`", _cell(finding["text"]))
        yield f"| {' | '.join(cells)} |"
    if len(chosen) > MOST:
        yield ""
        yield f"And {len(chosen) - MOST:,} more."


def _cell(text: str) -> str:
    flat = " ".join(text.split())
    flat = flat if len(flat) <= MAX_CELL else f"{flat[:MAX_CELL]}..."
    return _SPECIAL.sub(r"\\\1", flat)


def _when(about: Mapping[str, Any]) -> str:
    return f"{datetime.fromtimestamp(about['recorded_from'], UTC):%Y-%m-%d %H:%M} UTC"
