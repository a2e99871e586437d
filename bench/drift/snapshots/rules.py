"""A user's rules for comparisons: which tools to leave out, and other levels for checks.

A file of rules is TOML:

    leave_out = ["coins_*"]            # tools; * stands for any text
    [levels]
    column_added = "WARN"              # a level for all findings of a check, or "off"
    [tools.stock_zh_a_hist]
    restated = "off"                   # the same for some tools
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from bench.drift.finding import Finding, Level
from bench.drift.snapshots.report import CHECKS
from manifests.nearest import did_you_mean
from manifests.problem import first_problem
from manifests.regular_file import open_regular

MAX_BYTES = 2**20

Setting = Literal[Level, "off"]


class RulesError(Exception):
    """A file of rules can't be used; the text says why."""


class Rules(BaseModel):
    """What a user's file says, as the module docstring describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    leave_out: tuple[str, ...] = ()
    levels: Mapping[str, Setting] = {}
    tools: Mapping[str, Mapping[str, Setting]] = {}

    @classmethod
    def read(cls, path: Path) -> "Rules":
        """Raises `RulesError`."""
        try:
            with open_regular(path) as file:
                text = file.read(MAX_BYTES + 1)
            if len(text) > MAX_BYTES:
                raise RulesError(f"{path}: over {MAX_BYTES} bytes")
            return cls.model_validate(tomllib.loads(text.decode()))
        except OSError as error:
            raise RulesError(f"{path}: {error.strerror}") from error
        except ValidationError as error:
            raise RulesError(f"{path}: {first_problem(error)}") from None
        except (ValueError, RecursionError) as error:  # TOML's, UTF-8's, a number of 5,000 digits
            raise RulesError(f"{path} is no TOML: {error}") from None

    @field_validator("levels")
    @classmethod
    def _known(cls, levels: Mapping[str, Setting]) -> Mapping[str, Setting]:
        for name in levels:
            if name not in CHECKS:
                raise ValueError(f"there is no check {name!r}{did_you_mean(name, CHECKS)}")
        return levels

    @field_validator("tools")
    @classmethod
    def _known_of_tools(cls, tools: Mapping[str, Any]) -> Mapping[str, Any]:
        for levels in tools.values():
            cls._known(levels)
        return tools

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
