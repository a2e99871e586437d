"""InvestorBench's metrics over episodes: for each task the median of its repeats, with their range,
and over tasks the mean.
"""

from array import array
from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median, median_low
from typing import Any

from bench.metrics.interval import DIGITS
from bench.record import Ending, EpisodeRecord, ToolCallRecord
from bench.suites.investorbench.bootstrap import Bootstrap
from bench.suites.investorbench.returns import Figures, played, rounded_figures
from bench.task import GROUPS

NAMES = ("CR", "SR", "MDD", "AV", "CR_above_hold", "win_rate", "turnover", "exposure")

MOST_REPEATS = 1_000
"""The repeats of a task whose figures are kept; of further ones only the number is."""


@dataclass(slots=True)
class _Repeat:
    figures: Figures
    returns: "array[float]"
    held: float
    year_days: int


@dataclass(slots=True)
class _Task:
    """The repeats of a task. `figures` are sorted, so that medians are at hand."""

    groups: tuple[str, ...]
    repeats: list[_Repeat] = field(default_factory=list)
    figures: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in NAMES})
    left_out: int = 0

    def add(self, repeat: _Repeat) -> None:
        if len(self.repeats) == MOST_REPEATS:
            self.left_out += 1
            return
        self.repeats.append(repeat)
        for name, value in repeat.figures.items():
            if value is not None:
                insort(self.figures[name], value)

    def medians(self) -> Figures:
        return rounded_figures(
            {name: median(values) if values else None for name, values in self.figures.items()}
        )

    def result(self) -> dict[str, Any]:
        return {
            "episodes": len(self.repeats) + self.left_out,
            **self.medians(),
            "held_CR": _rounded(self.repeats[0].held),
            "ranges": {
                name: [_rounded(values[0]), _rounded(values[-1])] if values else None
                for name, values in self.figures.items()
            },
        }

    def middle(self) -> _Repeat:
        """The repeat with the median cumulative return, the lower one of two."""
        wanted = median_low(sum(repeat.returns) for repeat in self.repeats)
        return next(repeat for repeat in self.repeats if sum(repeat.returns) == wanted)


class InvestorMetrics:
    """The metrics of the suite; a figure that a repeat lacks does not count in its median."""

    def __init__(self) -> None:
        self._episodes = self._unfinished = self._infrastructure = 0
        self._tasks: dict[str, _Task] = {}

    def add(self, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> None:  # noqa: ARG002
        self._episodes += 1
        found = played(record)
        if found is None:
            self._unfinished += 1
            self._infrastructure += record.ending in (Ending.MODEL_ERROR, Ending.ENVIRONMENT_ERROR)
            return
        repeat = _Repeat(
            found.figures,
            array("d", found.returns),
            sum(found.held),
            found.year_days,
        )
        groups = tuple(getattr(record, name) for name in GROUPS)
        self._tasks.setdefault(record.id, _Task(groups)).add(repeat)

    def merge(self, other: "InvestorMetrics") -> None:
        self._episodes += other._episodes
        self._unfinished += other._unfinished
        self._infrastructure += other._infrastructure
        for name, theirs in other._tasks.items():
            task = self._tasks.setdefault(name, _Task(theirs.groups))
            task.left_out += theirs.left_out
            for repeat in theirs.repeats:
                task.add(repeat)

    def rates(self) -> dict[str, Any]:
        return {
            "episodes": self._episodes,
            "passed": self._episodes - self._unfinished,
            "failed_by_infrastructure": self._infrastructure,
            **_means(self._tasks.values()),
            "intervals": {},
        }

    def details(self) -> dict[str, Any]:
        tasks = {name: task.result() for name, task in sorted(self._tasks.items())}
        groups: dict[str, dict[str, list[_Task]]] = {name: {} for name in GROUPS}
        for task in self._tasks.values():
            for name, row in zip(GROUPS, task.groups, strict=True):
                groups[name].setdefault(row, []).append(task)
        return {
            "breakdown": {
                "id": tasks,
                **{
                    name: {row: _together(of_row) for row, of_row in sorted(rows.items())}
                    for name, rows in groups.items()
                },
            }
        }

    def intervals(self) -> dict[str, dict[str, list[float] | None]]:
        """By task and figure, the bootstrap interval of the repeat with the median return. It takes
        about 0.1 s a task.
        """
        by_task = {}
        for name, task in sorted(self._tasks.items()):
            middle = task.middle()
            found = Bootstrap(middle.year_days).intervals(middle.returns)
            by_task[name] = {
                figure: None if ends is None else [_rounded(end) for end in ends]
                for figure, ends in found.items()
            }
        return by_task

    def counts(self) -> Mapping[str, str]:
        repeats = sum(len(task.repeats) for task in self._tasks.values())
        return dict.fromkeys(NAMES, f"{len(self._tasks)} tasks, {repeats:,} repeats")


def _together(tasks: list[_Task]) -> dict[str, Any]:
    return {
        "episodes": sum(len(task.repeats) + task.left_out for task in tasks),
        **_means(tasks),
    }


def _means(tasks: Iterable[_Task]) -> Figures:
    """The means over tasks of their medians."""
    medians = [task.medians() for task in tasks]
    known = {name: [of for one in medians if (of := one[name]) is not None] for name in NAMES}
    return rounded_figures({name: fmean(all_) if all_ else None for name, all_ in known.items()})


def _rounded(value: float) -> float:
    return round(value, DIGITS) + 0.0
