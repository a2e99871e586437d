"""A user's rules for comparisons: which tools to leave out, and other levels for checks.

A file of rules is TOML:

    leave_out = ["coins_*"]            # tools; * stands for any text
    [levels]
    column_added = "WARN"              # a level for all findings of a check, or "off"
    [tools.stock_zh_a_hist]
    restated = "off"                   # the same for some tools
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from bench.drift.finding import LEVELS, Finding
from bench.drift.snapshots.report import CHECKS
from manifests.common.nearest import MAX_SHOWN, did_you_mean, not_among
from manifests.common.regular_file import read_text

MAX_BYTES = 2**20

SETTINGS = (*LEVELS, "off")

Levels = Mapping[str, Any]


class RulesError(Exception):
    """A file of rules can't be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a user's file says, as the module docstring describes it."""

    leave_out: tuple[str, ...] = ()
    levels: Levels = field(default_factory=dict)
    tools: Mapping[str, Levels] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Rules":
        """Raises `RulesError`."""
        try:
            said = tomllib.loads(read_text(path, MAX_BYTES).decode())
        except OSError as error:
            raise RulesError(f"{path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:  # TOML's, UTF-8's, a number of 5,000 digits
            raise RulesError(f"{path} is no TOML: {error}") from None
        try:
            return cls._of(said)
        except RulesError as error:
            raise RulesError(f"{path}: {error}") from None

    @classmethod
    def _of(cls, said: Mapping[str, Any]) -> "Rules":
        names = [known.name for known in fields(cls)]
        for name in said:
            if name not in names:
                raise RulesError(f"there is no rule {not_among(name, names)}")
        leave_out = said.get("leave_out", [])
        if not isinstance(leave_out, list) or not all(isinstance(name, str) for name in leave_out):
            raise RulesError('leave_out is no list of names; write it as leave_out = ["coins_*"]')
        levels, tools = said.get("levels", {}), said.get("tools", {})
        _check_levels("levels", levels, "[levels]")
        if not isinstance(tools, dict):
            raise RulesError(f"tools is no table; {_as('[tools.NAME]')}")
        for name, some in tools.items():
            _check_levels(f"tools.{name[:MAX_SHOWN]}", some, "[tools.NAME]")
        return cls(tuple(leave_out), levels, tools)

    def unused(self, tools: Iterable[str]) -> Iterator[str]:
        """A sentence about each name or pattern that fits none of `tools`."""
        known = [*tools]
        for pattern in dict.fromkeys((*self.leave_out, *self.tools)):
            if not any(fnmatchcase(tool, pattern) for tool in known):
                near = did_you_mean(pattern[:MAX_SHOWN], known)
                yield f"the rules name {pattern[:MAX_SHOWN]!r}, which fits no tool{near}"

    def leaves_out(self, tool: str) -> bool:
        """Whether a tool is not compared at all."""
        return any(fnmatchcase(tool, pattern) for pattern in self.leave_out)

    def applied(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that are not off, at the levels that the rules give them."""
        kept = []
        for finding in findings:
            setting: str = self.levels.get(finding.check, finding.level)
            for pattern, levels in self.tools.items():
                if fnmatchcase(finding.tool or "", pattern):
                    setting = levels.get(finding.check, setting)
            if setting != "off":
                level: Any = setting
                kept.append(finding if level == finding.level else replace(finding, level=level))
        return kept


def _check_levels(place: str, levels: object, heading: str) -> None:
    """Raises `RulesError`."""
    if not isinstance(levels, dict):
        raise RulesError(f"{place} is no table; {_as(heading)}")
    for check, setting in levels.items():
        if check not in CHECKS:
            shown = check[:MAX_SHOWN]
            raise RulesError(f"{place}: there is no check {shown!r}{did_you_mean(shown, CHECKS)}")
        if setting not in SETTINGS:
            said = not_among(str(setting), SETTINGS)
            raise RulesError(f"{place}.{check} can't be {said}")


def _as(heading: str) -> str:
    return f'write the heading {heading}, and below it lines as column_added = "WARN"'
