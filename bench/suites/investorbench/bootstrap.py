"""Intervals of the figures of daily returns, and of the difference between two agents, by the
stationary bootstrap.

Days are drawn in blocks, since returns of neighbouring days are not independent: a block begins on
a random day, has a geometrically distributed length, and goes on at the first day after the last
one (Politis and Romano, JASA 89(428), 1994). The mean length is the cube root of the number of
days, rounded up: the rate that is optimal for variances (Hall, Horowitz and Jing, Biometrika 82(3),
1995), with a factor of 1. Intervals are the middle 95 % of the resamples. The same input and seed
give the same intervals.

The computation takes about 0.1 s on 150 days, so it is not for the event loop.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import ceil, log

from bench.suites.investorbench.returns import Figures, measures

RESAMPLES = 1_000

MEASURES = ("CR", "SR", "MDD", "AV")

UNDEFINED_SHARE = 0.05
"""If more than this share of resamples lacks a figure, it has no interval: the others would be a
selection.
"""

Interval = tuple[float, float]
Estimate = tuple[float, Interval | None]
"""A figure with its interval, which it lacks if too many of its resamples are undefined."""


def block_length(days: int) -> int:
    """The mean length of a block, in days: the cube root of `days`, rounded up."""
    return next(length for length in count(1) if length**3 >= days)


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """A bootstrap of daily returns, where a year has `year_days`. `block` overrides `block_length`;
    it and `resamples` are at least 1.
    """

    year_days: int
    seed: int = 0
    resamples: int = RESAMPLES
    block: int | None = None

    def intervals(self, returns: Sequence[float]) -> dict[str, Interval | None]:
        """The intervals of CR, SR, MDD and AV. None where the figure or too many of its resamples
        are undefined.
        """
        found = self._estimates(len(returns), lambda chosen: self._measures(returns, chosen))
        return {name: None if one is None else one[1] for name, one in found.items()}

    def differences(
        self, first: Sequence[float], second: Sequence[float]
    ) -> dict[str, Estimate | None]:
        """CR, SR, MDD and AV of the first agent minus those of the second, whose daily returns are
        of the same days. Each resample draws the same days for both. None where a figure is
        undefined.
        """

        def between(chosen: Sequence[int]) -> Figures:
            one, other = (self._measures(side, chosen) for side in (first, second))
            pairs = {name: (one[name], other[name]) for name in MEASURES}
            return {
                name: None if a is None or b is None else a - b for name, (a, b) in pairs.items()
            }

        return self._estimates(len(first), between)

    def _estimates(
        self, count: int, figures: Callable[[Sequence[int]], Figures]
    ) -> dict[str, Estimate | None]:
        """The figures of `count` days with their intervals; None for a figure that is undefined."""
        drawn: dict[str, list[float]] = {name: [] for name in MEASURES}
        for chosen in self._resampled(count):
            for name, value in figures(chosen).items():
                if value is not None:
                    drawn[name].append(value)
        return {
            name: None if value is None else (value, _middle(drawn[name], self.resamples))
            for name, value in figures(range(count)).items()
        }

    def _measures(self, returns: Sequence[float], chosen: Sequence[int]) -> Figures:
        return measures([returns[day] for day in chosen], year_days=self.year_days)

    def _resampled(self, count: int) -> Iterator[list[int]]:
        """Days from 0, as many as there are, for each resample."""
        length = block_length(count) if self.block is None else self.block
        rng = random.Random(self.seed)  # noqa: S311 - a reproducible draw
        circle = [*range(count), *range(count)]
        for _ in range(self.resamples):
            drawn: list[int] = []
            while len(drawn) < count:
                begin = rng.randrange(count)
                drawn += circle[begin : begin + min(_geometric(rng, length), count)]
            yield drawn[:count]


def _geometric(rng: random.Random, mean: int) -> int:
    """A number from 1, geometrically distributed."""
    return 1 if mean == 1 else ceil(log(1.0 - rng.random()) / log(1.0 - 1.0 / mean)) or 1


def _middle(values: list[float], resamples: int) -> Interval | None:
    if len(values) < (1 - UNDEFINED_SHARE) * resamples:
        return None
    values.sort()
    outside = round(len(values) * 0.025)
    return values[outside], values[-1 - outside]
