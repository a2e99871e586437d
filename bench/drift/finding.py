"""What a comparison finds: one change of one tool, in the form that all `finbench drift` commands
share.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal

Level = Literal["ERR", "WARN", "INFO"]

LEVELS: Final[tuple[Level, ...]] = ("ERR", "WARN", "INFO")
"""From the worst down. ERR: a call or a reader that worked no longer does. WARN: the answer may be
another. INFO: nothing that worked is at risk.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A change of `tool`. `column` names the column or the parameter that changed, if one did.

    A finding about all tools of a host has no tool. The id depends on check, tool or host, and
    column alone, so it stays the same from one comparison to the next. Where columns that differ
    may be shown alike, `path` tells them apart. `evidence` is what a page
    draws of both sides.
    """

    tool: str | None
    check: str
    level: Level
    text: str
    host: str | None = None
    column: str | None = None
    before: Any = None
    after: Any = None
    path: str | None = field(default=None, compare=False, repr=False)
    evidence: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        named = "\0".join(
            (self.check, self.tool or f"host {self.host}", self.path or self.column or "")
        )
        object.__setattr__(self, "id", blake2b(named.encode(), digest_size=6).hexdigest())

    def to_json(self) -> dict[str, Any]:
        """The finding as `--json` prints it."""
        order = ("id", "tool", "host", "check", "level", "column", "before", "after", "text")
        return {name: getattr(self, name) for name in order}


def reaches(level: str, limit: str) -> bool:
    """Whether a finding of `level` is at least as bad as `limit`."""
    levels: tuple[str, ...] = LEVELS
    return levels.index(level) <= levels.index(limit)
