"""Collects the findings about one tool, at the levels that the rules give them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bench.drift.finding import Finding, Level

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
    "null_share": "WARN",
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


@dataclass
class Report:
    """The findings about one tool so far. A tool has one finding for each check and column; a
    worse one replaces it.

    `chances` are the probabilities of all tests of distributions, of which `tested` holds those
    that the correction for many tests has yet to confirm.
    """

    tool: str
    host: str | None
    findings: dict[tuple[str, str | None], Finding] = field(default_factory=dict)
    chances: list[float] = field(default_factory=list)
    tested: list[tuple[float, Finding]] = field(default_factory=list)

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
    ) -> None:
        """Add a finding, unless the tool has one of the same check and column."""
        key = check, column
        if key not in self.findings:
            self.findings[key] = self._finding(check, column, before, after, text, level, evidence)

    def add_tested(
        self,
        chance: float,
        column: str,
        before: Any,
        after: Any,
        text: str,
        *,
        level: Level | None = None,
        evidence: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a change of a distribution that chance alone would make with that probability."""
        found = self._finding("distribution", column, before, after, text, level, evidence)
        self.tested.append((chance, found))

    def has(self, check: str, column: str | None = None) -> bool:
        return (check, column) in self.findings

    def _finding(
        self,
        check: str,
        column: str | None,
        before: Any,
        after: Any,
        text: str,
        level: Level | None,
        evidence: Mapping[str, Any] | None,
    ) -> Finding:
        return Finding(
            tool=self.tool,
            host=self.host,
            check=check,
            level=level or CHECKS[check],
            column=column,
            before=before,
            after=after,
            text=text,
            evidence=evidence,
        )
