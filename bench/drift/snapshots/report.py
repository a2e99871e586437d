"""Collects the findings about one tool, at the levels that the rules give them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bench.drift.finding import Finding, Level, reaches
from bench.drift.snapshots.records import shown

CHECKS: Final[Mapping[str, Level]] = {
    "availability": "ERR",
    "error_code": "WARN",
    "empty": "ERR",
    "column_removed": "ERR",
    "column_renamed": "ERR",
    "column_added": "INFO",
    "path_removed": "ERR",
    "path_added": "INFO",
    "type_changed": "ERR",
    "unit_changed": "ERR",
    "identity_changed": "WARN",
    "null_share": "WARN",
    "invalid": "WARN",
    "permuted": "WARN",
    "row_count": "WARN",
    "distribution": "WARN",
    "categories": "WARN",
    "stale": "WARN",
    "gap": "WARN",
    "restated": "WARN",
    "order": "WARN",
    "latency": "WARN",
}
"""The checks of two snapshots, with the level of a finding that is as clear as it can be."""


MAX_VALUE: Final = 200
"""Characters of a cell, of a name, or values of a list, that a finding holds."""

MAX_TEXT: Final = 600


def cut(value: Any, longest: int = MAX_VALUE) -> Any:
    """A value as a finding holds it: long texts and long lists are cut."""
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}..."
    if isinstance(value, list):
        return [cut(item) for item in value[:longest]]
    return value


@dataclass
class Report:
    """The findings about one tool so far. A tool has one finding for each check and path; a worse
    one replaces it. Paths are given as `bench.drift.snapshots.records` has them.

    `chances` are the probabilities of all tests of distributions, of which `tested` holds those
    that the correction for many tests has yet to confirm. Also how many calls there are by what
    became of them, whether one was answered before and after, and the milliseconds of each that was
    answered in both snapshots.
    """

    tool: str
    host: str | None
    findings: dict[tuple[str, str | None], Finding] = field(default_factory=dict)
    chances: list[float] = field(default_factory=list)
    tested: list[tuple[float, Finding]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    answered_before: bool = False
    answered_after: bool = False
    latencies: list[tuple[float, float]] = field(default_factory=list)

    def add(
        self,
        check: str,
        column: str | None,
        before: Any,
        after: Any,
        text: str,
        *,
        level: Level | None = None,
        evidence: Mapping[str, Any] | None = None,
        chance: float | None = None,
    ) -> None:
        """Add a finding, unless the tool has one as bad of the same check and column. If `chance`
        is given, chance alone would make the change with that probability.
        """
        found = Finding(
            tool=self.tool,
            host=self.host,
            check=check,
            level=level or CHECKS[check],
            column=None if column is None else cut(shown(column)),
            path=None if column is None else cut(column),
            before=cut(before),
            after=cut(after),
            text=cut(text, MAX_TEXT),
            evidence=evidence,
        )
        if chance is not None:
            self.tested.append((chance, found))
            return
        known = self.findings.get((check, found.path))
        if known is None or not reaches(known.level, found.level):
            self.findings[check, found.path] = found
