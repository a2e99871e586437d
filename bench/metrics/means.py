"""Means of the figures of single episodes, with 95 % intervals over tasks."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.metrics.interval import DIGITS, ONE, ByTask
from bench.metrics.mergeable import Mergeable
from bench.metrics.passes import Passes
from bench.record import EpisodeRecord, ToolCallRecord


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one episode. `figures` are by measure or metric, None where it has none.
    `infrastructure`: only a quota, the gateway or the model's endpoint made it fail. An episode
    without a figure of the name of one of `unmarked` counts as 0 beside others that have one.
    `is_judged`: there is a verdict; without one it has not passed either.
    """

    passed: bool
    figures: Mapping[str, float | None]
    infrastructure: bool = False
    unmarked: Collection[str] = ()
    is_judged: bool = True

    @property
    def is_of_agent(self) -> bool:
        """Whether `passed` says something about the agent."""
        return self.is_judged and not self.infrastructure


class _Mean(Mergeable):
    """A mean of figures from `low` to `high`."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = float(low), float(high)
        self.count = 0
        self.places = ByTask()

    def add(self, task: str, figure: float) -> None:
        self.count += 1
        self.places.add(task, round((figure - self.low) / (self.high - self.low) * ONE), ONE)

    @property
    def mean(self) -> float | None:
        return None if (ratio := self.places.ratio) is None else self._figure(ratio)

    @property
    def interval(self) -> list[float] | None:
        ends = self.places.interval()
        return None if ends is None else [self._figure(end) for end in ends]

    def _figure(self, place: float) -> float:
        return round(self.low + place * (self.high - self.low), DIGITS)


class Group(Mergeable):
    """The means of a group of episodes."""

    def __init__(self, ranges: Mapping[str, tuple[float, float]]) -> None:
        self.episodes = 0
        self.means = {name: _Mean(*ends) for name, ends in ranges.items()}

    def add(self, task: str, figures: Mapping[str, float | None]) -> None:
        """Raises `ValueError` for a figure that is not between its ends."""
        self.episodes += 1
        for name, mean in self.means.items():
            if (figure := figures.get(name)) is not None:
                if not mean.low <= (plain := float(figure)) <= mean.high:
                    ends = f"from {mean.low:g} to {mean.high:g}"
                    raise ValueError(f"{name} is {figure!r}, not {ends}")
                mean.add(task, plain)

    def figures(self) -> dict[str, float | None]:
        return {name: mean.mean for name, mean in self.means.items()}

    def result(self) -> dict[str, Any]:
        return {"episodes": self.episodes, **self.figures()}


class Means(Mergeable):
    """For each name a mean over the episodes that have a figure of that name. `ranges` has the ends
    between which figures lie, by name; `groups` are fields of a record by which the means are
    broken down; `has_verdicts` says whether `passed` judges the agent (`Suite.has_verdicts`).
    """

    def __init__(
        self,
        ranges: Mapping[str, tuple[float, float]],
        measured: Callable[[EpisodeRecord, list[ToolCallRecord]], Measured],
        groups: Iterable[str] = (),
        *,
        has_verdicts: bool = True,
    ) -> None:
        self._measured = measured
        self._all = Group(ranges)
        self._groups: dict[str, defaultdict[str, Group]] = {
            name: defaultdict(partial(Group, ranges)) for name in groups
        }
        self._passed = self._infrastructure = 0
        self._passes = Passes() if has_verdicts else None
        self._judges: Counter[str] = Counter()
        self._invalid = 0

    def add(self, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> None:
        found = self._measured(record, last_round)
        self._passed += found.passed
        self._infrastructure += found.infrastructure
        if self._passes is not None:
            self._passes.add(record.id, passed=found.passed, is_left_out=not found.is_of_agent)
        if record.judgement is not None:
            self._judges[record.judgement.judge] += 1
            self._invalid += record.judgement.invalid
        self._all.add(record.id, found.figures)
        for name, rows in self._groups.items():
            rows[str(getattr(record, name))].add(record.id, found.figures)

    def rates(self) -> dict[str, Any]:
        return {
            "episodes": self._all.episodes,
            "passed": self._passed,
            "failed_by_infrastructure": self._infrastructure,
            **self._all.figures(),
            "intervals": {name: mean.interval for name, mean in self._all.means.items()},
            "denominators": {name: mean.count for name, mean in self._all.means.items()},
        }

    def details(self) -> dict[str, Any]:
        breakdown = {
            name: {row: group.result() for row, group in sorted(rows.items())}
            for name, rows in self._groups.items()
        }
        judged = {
            "judges": dict(sorted(self._judges.items())),
            "episodes": self._judges.total(),
            "invalid": self._invalid,
        }
        passes = self._passes.result() if self._passes is not None else {}
        return {"judged": judged, **passes, **({"breakdown": breakdown} if breakdown else {})}

    def counts(self) -> Mapping[str, str]:
        of = f"of {self._all.episodes:,}"
        return {name: f"{mean.count:,} {of}" for name, mean in self._all.means.items()}
