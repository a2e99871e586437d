"""What drift of tools does to a recorded run: which calls, episodes and outcomes differ between two
snapshots.

A call differs if one snapshot has another answer than the other, an error in place of an answer, or
an error of another code. The texts of errors do not count: they name times and limits. A call that
a snapshot lacks was not recorded, which is no drift, so its episode counts in no share.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from sys import intern
from typing import Any

from bench.agents.agent import ToolCall
from bench.agents.replay import script_of
from bench.metrics.interval import rounded, share, wilson
from bench.record import EpisodeRecord
from cache import Row, Snapshot
from cache.row import OK
from gateway.pipeline.bind import Binder, InvalidCall, printable
from gateway.pipeline.snapshot_rows import error_of_row
from manifests import Catalog

REMEMBERED = 2**16
"""Of how many calls it is remembered what became of them."""


class Fate(StrEnum):
    """What became of a call between two snapshots, A and B."""

    SAME = "same"
    OTHER_ANSWER = "other_answer"
    NOW_FAILS = "now_fails"
    NOW_ANSWERS = "now_answers"
    OTHER_ERROR = "other_error"
    MISSING_A = "missing_a"
    MISSING_B = "missing_b"
    MISSING_BOTH = "missing_both"
    NEVER_RECORDED = "never_recorded"
    """Its tool is transactional or of a recorded market, and no snapshot has its answers."""
    REFUSED = "refused"
    """It reaches no tool: its arguments do not bind, or lack a value that was redacted."""


CHANGED = frozenset([Fate.OTHER_ANSWER, Fate.NOW_FAILS, Fate.NOW_ANSWERS, Fate.OTHER_ERROR])
MISSING = frozenset([Fate.MISSING_A, Fate.MISSING_B, Fate.MISSING_BOTH])
NOT_RECORDED = frozenset([Fate.NEVER_RECORDED, Fate.REFUSED])

Figures = Mapping[str, float | None]
"""The figures of a replayed episode by metric."""


class Fates:
    """Looks up calls in two snapshots, by the key that the gateway uses."""

    def __init__(self, a: Snapshot, b: Snapshot, catalog: Catalog) -> None:
        self._a, self._b = a, b
        self._catalog = catalog
        self._binder = Binder(catalog)
        self._of_key = lru_cache(REMEMBERED)(self._look_up)

    def of(self, call: ToolCall) -> Fate:
        """Raises `SnapshotError` for a row that is damaged."""
        if call.problem is not None:
            return Fate.REFUSED
        manifest = self._catalog.get(call.tool)
        if manifest is not None and manifest.is_for_one:  # it need not bind: no record has sessions
            return Fate.NEVER_RECORDED
        try:
            return self._of_key(self._binder.bind(call.tool, call.arguments).key)
        except InvalidCall:
            return Fate.REFUSED

    def _look_up(self, key: str) -> Fate:
        rows = []
        for snapshot in (self._a, self._b):
            row = snapshot.get(key)
            if row is not None and row.status != OK:
                error_of_row(row, snapshot)  # the gateway would have failed, not the tool
            rows.append(row)
        return _fate(*rows)


def _fate(a: Row | None, b: Row | None) -> Fate:
    if a is None or b is None:
        if a is None and b is None:
            return Fate.MISSING_BOTH
        return Fate.MISSING_A if a is None else Fate.MISSING_B
    if a.status == OK == b.status:
        return Fate.SAME if a.entry.digest == b.entry.digest else Fate.OTHER_ANSWER
    if a.status == b.status:
        return Fate.SAME
    if OK not in (a.status, b.status):
        return Fate.OTHER_ERROR
    return Fate.NOW_FAILS if a.status == OK else Fate.NOW_ANSWERS


def calls_of(record: EpisodeRecord) -> list[ToolCall]:
    """The calls that a replay of the episode makes, which are not those of the driver."""
    return [call for turn in script_of(record).turns for call in turn.calls]


@dataclass(slots=True)
class Impact:
    """Counts of calls and episodes, and what changed in which episode.

    An episode is compared if it was replayed and both snapshots have all of its calls. `compared`
    has their tasks and repeats. `outcome` in `changes` has, by metric, the figure on A and the
    one on B. `without_a_call` counts the compared ones that have no call that snapshots record.
    """

    episodes: int = 0
    not_replayed: int = 0
    without_a_call: int = 0
    changed: int = 0
    changed_outcomes: int = 0
    compared: set[tuple[str, int]] = field(default_factory=set)
    changes: list[dict[str, Any]] = field(default_factory=list)
    tools: dict[str, Counter[Fate]] = field(default_factory=dict)

    def add(
        self, record: EpisodeRecord, fates: Fates, on_a: Figures | None, on_b: Figures | None
    ) -> None:
        """Count an episode of the recorded run, with the figures of its replays; None for one that
        was not replayed. Raises `SnapshotError`.
        """
        self.episodes += 1
        changed: Counter[str] = Counter()
        met: set[Fate] = set()
        for call in calls_of(record):
            fate = fates.of(call)
            met.add(fate)
            tool = intern(printable(call.tool))
            self.tools.setdefault(tool, Counter())[fate] += 1
            changed[tool] += fate in CHANGED
        is_compared = MISSING.isdisjoint(met)
        outcome: dict[str, tuple[float | None, float | None]] = {}
        if on_a is None or on_b is None:
            self.not_replayed += 1
            is_compared = False
        elif is_compared:
            outcome = {
                name: (figure, on_b.get(name))
                for name, figure in on_a.items()
                if figure != on_b.get(name)
            }
        if is_compared:
            self.without_a_call += met <= NOT_RECORDED
            self.compared.add((record.id, record.repeat))
            self.changed += changed.total() > 0
            self.changed_outcomes += bool(outcome)
        if changed.total() or outcome:
            self.changes.append(
                {
                    "episode": record.episode,
                    "id": record.id,
                    "repeat": record.repeat,
                    "compared": is_compared,
                    "tools": dict(+changed),
                    "outcome": outcome,
                }
            )

    @property
    def calls(self) -> Counter[Fate]:
        """All calls by what became of them."""
        return sum(self.tools.values(), Counter[Fate]())

    @property
    def same_outcomes(self) -> float | None:
        """The share of compared episodes whose outcome is the same; None if none is compared."""
        return share(len(self.compared) - self.changed_outcomes, len(self.compared))

    def result(self) -> dict[str, Any]:
        """All figures as plain data; the tools and their calls with the most changed first."""
        calls, compared = self.calls, len(self.compared)
        by_tool = [(tool, _counts(fates)) for tool, fates in self.tools.items()]
        by_tool.sort(key=lambda row: (-row[1]["changed"], -row[1]["calls"], row[0]))
        tools = [{"tool": tool, **counts} for tool, counts in by_tool]
        counts = _counts(calls)
        same, changed = counts["same"], counts["changed"]
        return {
            "calls": {**counts, "tools": tools},
            "episodes": {
                "episodes": self.episodes,
                "compared": compared,
                "compared_without_a_call": self.without_a_call,
                "not_replayed": self.not_replayed,
                "changed": self.changed,
                "changed_but_not_compared": sum(not c["compared"] for c in self.changes),
                "changed_outcomes": self.changed_outcomes,
                "changed_outcomes_without_a_changed_call": sum(
                    not c["tools"] for c in self.changes
                ),
                "changes": self.changes,
            },
            "reproducibility": {
                "calls": {"of": same + changed, "same": same, "share": share(same, same + changed)},
                "episodes": _reproduced(compared - self.changed, compared),
                "outcomes": _reproduced(compared - self.changed_outcomes, compared),
            },
        }


def _counts(fates: Counter[Fate]) -> dict[str, int]:
    either = fates[Fate.MISSING_BOTH]
    return {
        "calls": fates.total(),
        "same": fates[Fate.SAME],
        "changed": sum(fates[fate] for fate in CHANGED),
        **{fate.value: fates[fate] for fate in Fate if fate in CHANGED},
        "missing_a": fates[Fate.MISSING_A] + either,
        "missing_b": fates[Fate.MISSING_B] + either,
        "never_recorded": fates[Fate.NEVER_RECORDED],
        "refused": fates[Fate.REFUSED],
    }


def _reproduced(same: int, whole: int) -> dict[str, Any]:
    interval = rounded(wilson(same, whole))
    return {"of": whole, "same": same, "share": share(same, whole), "interval": interval}
