"""Intervals of the figures of daily returns, and of the difference between two agents, by the
stationary bootstrap.

Days are drawn in blocks, since returns of neighbouring days are not independent: a block begins on
a random day, has a geometrically distributed length, and goes on at the first day after the last
one (Politis and Romano, JASA 89(428), 1994). The mean length is the cube root of the number of
days, rounded up: the rate that is optimal for variances (Hall, Horowitz and Jing, Biometrika 82(3),
1995), with a factor of 1. Intervals are the middle 95 % of the resamples. The same input and seed
give the same intervals.

The functions compute for about 0.1 s on 150 days, so the event loop must not run them.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import ceil, log

from bench.suites.investorbench.returns import Measures, measures

RESAMPLES = 1_000

MEASURES = ("CR", "SR", "MDD", "AV")

UNDEFINED_SHARE = 0.05
"""If more than this share of resamples lacks a figure, it has no interval: the others would be a
selection.
"""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Difference:
    """How much higher a figure of the first agent is than that of the second, with its interval."""

    value: float
    interval: Interval | None


def block_length(days: int) -> int:
    """The mean length of a block, in days: the cube root of `days`, rounded up."""
    return next(length for length in count(1) if length**3 >= days)


def intervals(
    returns: Sequence[float],
    *,
    days: int,
    year_days: int,
    seed: int = 0,
    resamples: int = RESAMPLES,
    block: int | None = None,
) -> dict[str, Interval | None]:
    """The intervals of CR, SR, MDD and AV of daily returns over `days` prices; `block` overrides
    `block_length`. None where the figure or too many of its resamples are undefined. Raises
    `ValueError` for a block or a number of resamples below 1.
    """
    point = _named(measures(returns, days=days, year_days=year_days))
    drawn: dict[str, list[float]] = {name: [] for name in MEASURES}
    for chosen in _resampled(len(returns), resamples, block, seed):
        resample = [returns[day] for day in chosen]
        found = _named(measures(resample, days=days, year_days=year_days))
        for name, value in found.items():
            if value is not None:
                drawn[name].append(value)
    return {
        name: None if point[name] is None else _middle(drawn[name], resamples) for name in MEASURES
    }


def differences(
    first: Sequence[float],
    second: Sequence[float],
    *,
    days: int,
    year_days: int,
    seed: int = 0,
    resamples: int = RESAMPLES,
    block: int | None = None,
) -> dict[str, Difference | None]:
    """CR, SR, MDD and AV of the first agent minus those of the second, whose daily returns are of
    the same days. Each resample draws the same days for both. None where a figure is undefined.
    Raises `ValueError` as `intervals` does, and if the agents differ in their number of returns.
    """
    if len(first) != len(second):
        text = f"{len(first)} and {len(second)} returns"
        raise ValueError(f"{text} are no pairs: both agents need one for each day")

    def between(chosen: Sequence[int]) -> dict[str, float | None]:
        one, other = (
            _named(measures([side[day] for day in chosen], days=days, year_days=year_days))
            for side in (first, second)
        )
        return {name: _minus(one[name], other[name]) for name in MEASURES}

    point = between(range(len(first)))
    drawn: dict[str, list[float]] = {name: [] for name in MEASURES}
    for chosen in _resampled(len(first), resamples, block, seed):
        for name, value in between(chosen).items():
            if value is not None:
                drawn[name].append(value)
    return {
        name: None if value is None else Difference(value, _middle(drawn[name], resamples))
        for name, value in point.items()
    }


def _named(found: Measures) -> Mapping[str, float | None]:
    return {"CR": found.cr, "SR": found.sr, "MDD": found.mdd, "AV": found.av}


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _resampled(days: int, resamples: int, block: int | None, seed: int) -> Iterator[list[int]]:
    """Days from 0, as many as there are, for each resample."""
    if resamples < 1:
        raise ValueError(f"{resamples} resamples are too few; at least 1")
    length = block_length(days) if block is None else block
    if length < 1:
        raise ValueError(f"a block of {length} days is none; at least 1")
    rng = random.Random(seed)  # noqa: S311 - a reproducible draw
    circle = [*range(days), *range(days)]
    for _ in range(resamples):
        drawn: list[int] = []
        while len(drawn) < days:
            begin = rng.randrange(days)
            drawn += circle[begin : begin + min(_geometric(rng, length), days)]
        yield drawn[:days]


def _geometric(rng: random.Random, mean: int) -> int:
    """A number from 1, geometrically distributed."""
    return 1 if mean == 1 else ceil(log(1.0 - rng.random()) / log(1.0 - 1.0 / mean)) or 1


def _middle(values: list[float], resamples: int) -> Interval | None:
    if len(values) < (1 - UNDEFINED_SHARE) * resamples:
        return None
    values.sort()
    outside = round(len(values) * 0.025)
    return values[outside], values[-1 - outside]
