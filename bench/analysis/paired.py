"""Statistics of paired outcomes: McNemar's exact test, and bootstrap intervals of mean differences.

It is pure Python; the same input and seed give the same figures.
"""

import random
from collections.abc import Sequence
from math import comb, exp, fsum, lgamma, log, sqrt
from operator import itemgetter
from statistics import fmean, variance

from bench.metrics.interval import Z_95

NORMAL_FROM = 2_000
"""From this many tasks on, an interval is computed from mean and standard error. There it equals
the bootstrap's to two digits, at no cost.
"""

_EXACT_TO = 1_000

Interval = tuple[float, float]


def mcnemar(only_a: int, only_b: int) -> float:
    """The exact two-sided p-value of McNemar's test (Psychometrika 12(2), 1947), for pairs that
    passed on one side only: twice the lower tail of a fair coin, at most 1.
    """
    n, fewer = only_a + only_b, min(only_a, only_b)
    if n <= _EXACT_TO:
        tail = sum(comb(n, k) for k in range(fewer + 1)) / (1 << n)
    else:  # exact integers of n bits would take minutes
        whole = lgamma(n + 1) - n * log(2)
        tail = fsum(exp(whole - lgamma(k + 1) - lgamma(n - k + 1)) for k in range(fewer + 1))
    return min(1.0, 2 * tail)


def bootstrap(
    columns: Sequence[Sequence[float | None]], resamples: int, seed: int
) -> list[Interval | None]:
    """Percentile intervals of 95 % for the means of columns over the same tasks (Efron, Annals of
    Statistics 7(1), 1979).

    Tasks are drawn with replacement, once for all columns, so the interval of a column does not
    depend on the others. None values do not count; a column with nothing else has no interval.
    """
    tasks = len(columns[0]) if columns else 0
    if tasks >= NORMAL_FROM:
        return [_normal(column) for column in columns]
    rng, places = random.Random(seed), range(tasks)  # noqa: S311 - not for secrets
    varied = [column for column in columns if len(set(_known(column))) > 1]
    values = [[0.0 if v is None else v for v in column] for column in varied]
    counted = [None if None not in c else [v is not None for v in c] for c in varied]
    means: list[list[float]] = [[] for _ in varied]
    for _ in range(resamples if varied else 0):
        drawn = itemgetter(*rng.choices(places, k=tasks))
        for value, count, found in zip(values, counted, means, strict=True):
            whole = tasks if count is None else sum(drawn(count))
            if whole:
                found.append(sum(drawn(value)) / whole)
    intervals = iter([_middle_95(found) for found in means])
    return [
        next(intervals) if len(known := set(_known(column))) > 1 else _point(known)
        for column in columns
    ]


def _known(column: Sequence[float | None]) -> list[float]:
    return [value for value in column if value is not None]


def _point(values: set[float]) -> Interval | None:
    """The interval of a column that holds one value only, however often."""
    return next(((value, value) for value in values), None)


def _middle_95(means: list[float]) -> Interval:
    means.sort()
    outside = round(len(means) * 0.025)
    return means[outside], means[-1 - outside]


def _normal(column: Sequence[float | None]) -> Interval | None:
    values = _known(column)
    if not values:
        return None
    middle = fmean(values)
    reach = Z_95 * sqrt(variance(values) / len(values)) if len(values) > 1 else 0.0
    return middle - reach, middle + reach
