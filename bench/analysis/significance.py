"""How far differences of tasks can be chance: p-values, their correction, and intervals.

Tasks are paired: there is one difference for each.
"""

from collections.abc import Sequence
from math import comb, exp, fsum, lgamma, log, sqrt
from statistics import fmean, variance

from bench.metrics.interval import ONE, OverTasks, student

SIGNIFICANT = 0.05
_EXACT_TO = 1_000


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


def mean_interval(differences: Sequence[float], most: float | None) -> tuple[float, float] | None:
    """The 95 % interval of the mean of differences, one a task, that lie between -`most` and
    `most`.

    It is that of `OverTasks`. Where there is no such bound, it is Student's; then nothing can be
    said of fewer than three differences, or of equal ones, and the interval is None.
    """
    if most is not None:
        over = OverTasks()
        for difference in differences:
            over.count(round((difference + most) / (2 * most) * ONE), ONE)
        places = over.interval()
        return places and ((2 * places[0] - 1) * most, (2 * places[1] - 1) * most)
    middle, tasks = fmean(differences or [0]), len(differences)
    if tasks < 3 or len(set(differences)) < 2:
        return None
    reach = student(tasks - 1) * sqrt(variance(differences) / tasks)
    return middle - reach, middle + reach


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected by Holm's step down, in the same order."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, before = [0.0] * len(p_values), 0.0
    for place, number in enumerate(order):
        before = max(before, min(1.0, (len(order) - place) * p_values[number]))
        corrected[number] = before
    return corrected


def t_test(differences: Sequence[float]) -> float | None:
    """The two-sided p-value of a paired t-test over tasks; None with fewer than two tasks."""
    if len(differences) < 2:
        return None
    spread, size = variance(differences), max(map(abs, differences))
    if spread <= (1e-9 * size) ** 2:  # all alike: only their sign tells something
        return min(1.0, 2 * 0.5 ** len(differences)) if size else 1.0
    t = fmean(differences) / sqrt(spread / len(differences))
    degrees = len(differences) - 1
    return _beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by Lentz's continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x))
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    tiny = 1e-300
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    fraction = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + numerator * d) or tiny)
            c = (1 + numerator / c) or tiny
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * fraction / a
