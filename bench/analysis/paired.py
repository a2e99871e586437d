"""Statistics of paired outcomes: McNemar's exact test, and intervals of mean differences."""

from collections.abc import Sequence
from math import comb, exp, fsum, lgamma, log, sqrt
from statistics import fmean, variance

from bench.metrics.interval import ONE, OverTasks, student

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


def mean_interval(differences: Sequence[float], most: float | None) -> Interval | None:
    """The 95 % interval of the mean of differences, one a task, that lie between -`most` and
    `most`.

    It is that of `OverTasks`. Where there is no such bound, it is Student's; then nothing can be
    said of one difference, or of equal ones, and the interval is None.
    """
    if most is not None:
        over = OverTasks()
        for difference in differences:
            over.count(round((difference + most) / (2 * most) * ONE), ONE)
        places = over.interval()
        return places and ((2 * places[0] - 1) * most, (2 * places[1] - 1) * most)
    if len(set(differences)) < 2:
        return None
    middle, tasks = fmean(differences), len(differences)
    reach = student(max(tasks - 1, 2)) * sqrt(variance(differences) / tasks)
    return middle - reach, middle + reach
