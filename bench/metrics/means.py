"""Means of the figures of single episodes, with intervals of 95 %."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from bench.metrics.interval import DIGITS, mean_interval, rounded, wilson
from bench.record import EpisodeRecord, ToolCallRecord


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one episode. `figures` are by measure or metric, None where it has none.
    `infrastructure`: only a quota, the gateway or the model's endpoint made it fail.
    """

    passed: bool
    figures: Mapping[str, float | None]
    infrastructure: bool = False


class _Mean:
    """A mean with exact sums, so the order and any split of the figures do not matter."""

    __slots__ = ("are_all_or_nothing", "count", "squares", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = Fraction()
        self.squares = Fraction()
        self.are_all_or_nothing = True

    def add(self, figure: float) -> None:
        exact = Fraction(figure)
        self.count += 1
        self.total += exact
        self.squares += exact * exact
        self.are_all_or_nothing &= figure in (0, 1)

    def merge(self, other: "_Mean") -> None:
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        self.are_all_or_nothing &= other.are_all_or_nothing

    @property
    def mean(self) -> float | None:
        return round(float(self.total / self.count), DIGITS) if self.count else None

    @property
    def interval(self) -> list[float] | None:
        if self.are_all_or_nothing:
            return rounded(wilson(int(self.total), self.count))
        return rounded(mean_interval(self.total, self.squares, self.count))


class Means:
    """For each name a mean over the episodes that have a figure of that name, from 0 to 1."""

    def __init__(
        self,
        names: Sequence[str],
        measured: Callable[[EpisodeRecord, list[ToolCallRecord]], Measured],
    ) -> None:
        self._measured = measured
        self._means = {name: _Mean() for name in names}
        self._episodes = self._passed = self._infrastructure = 0

    def add(self, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> None:
        found = self._measured(record, last_round)
        self._episodes += 1
        self._passed += found.passed
        self._infrastructure += found.infrastructure
        for name, mean in self._means.items():
            if (figure := found.figures.get(name)) is not None:
                mean.add(_from_0_to_1(name, figure))

    def merge(self, other: "Means") -> None:
        self._episodes += other._episodes
        self._passed += other._passed
        self._infrastructure += other._infrastructure
        for name, mean in self._means.items():
            mean.merge(other._means[name])

    def rates(self) -> dict[str, Any]:
        return {
            "episodes": self._episodes,
            "passed": self._passed,
            "failed_by_infrastructure": self._infrastructure,
            **{name: mean.mean for name, mean in self._means.items()},
            "intervals": {name: mean.interval for name, mean in self._means.items()},
        }

    def details(self) -> dict[str, Any]:
        return {}

    def counts(self) -> Mapping[str, str]:
        return {name: f"{mean.count:,} of {self._episodes:,}" for name, mean in self._means.items()}


def _from_0_to_1(name: str, figure: float) -> float:
    """Raises `ValueError`."""
    plain = float(figure)
    if not 0 <= plain <= 1:
        raise ValueError(f"{name} is {figure!r}, not from 0 to 1")
    return plain
