"""Rates over tasks and their 95 % confidence intervals, as figures to print."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import sqrt
from typing import Any

Z_95 = 1.959963984540054
"""The standard normal quantile of two-sided 95 %."""

DIGITS = 6

ONE = 2**40
"""The whole of a figure that is no count. Parts of it are whole numbers, whose sums are exact."""


def wilson(part: int | Fraction, whole: int) -> tuple[float, float] | None:
    """The score interval of a binomial rate (Wilson, JASA 22(158), 1927); None over nothing.

    Unlike the textbook interval it stays within 0 and 1, and has a width if none or all passed.
    """
    if not whole:
        return None
    rate, z2 = float(part / whole), Z_95 * Z_95
    middle = (rate + z2 / (2 * whole)) / (1 + z2 / whole)
    reach = Z_95 * sqrt(rate * (1 - rate) / whole + z2 / (4 * whole * whole)) / (1 + z2 / whole)
    low = 0.0 if part == 0 else middle - reach
    return low, 1.0 if part == whole else middle + reach


class OverTasks:
    """A ratio over tasks: the sum of their parts by the sum of their wholes, with its interval.

    A part lies between 0 and its whole, which is more than 0. The repeats of a task are one of its
    parts and wholes together, because they are not independent. So the interval is about other
    tasks of the same kind. The sums are exact, so the order of tasks and any split do not matter.
    """

    __slots__ = ("cross", "halves", "part", "parts2", "tasks", "whole", "wholes2")

    def __init__(self) -> None:
        self.tasks = self.halves = 0
        self.part = self.whole = self.parts2 = self.cross = self.wholes2 = 0

    def count(self, part: int, whole: int, times: int = 1) -> None:
        """Count `times` tasks of this part and whole; with -1 take one back."""
        if not whole:
            return
        self.tasks += times
        self.halves += times * (0 < part < whole)
        self.part += times * part
        self.whole += times * whole
        self.parts2 += times * part * part
        self.cross += times * part * whole
        self.wholes2 += times * whole * whole

    @property
    def ratio(self) -> float | None:
        return self.part / self.whole if self.whole else None

    def interval(self) -> tuple[float, float] | None:
        """The interval of 95 %; None over nothing.

        If the part of each task is nothing or all, it is Wilson's over the number of tasks. Else it
        is Student's for a ratio of means (Cochran, Sampling Techniques, 1977, 6.3), where two tasks
        are added, one with no part and one with all of its whole: without these the interval would
        have no width if all tasks were equal, and be too narrow near 0 and 1. (Agresti and Coull,
        The American Statistician 52(2), 1998, add four to a binomial rate for the same reason.)
        """
        if not self.tasks:
            return None
        if not self.halves:
            return wilson(Fraction(self.part * self.tasks, self.whole), self.tasks)
        ratio, error = self.near()
        reach = student(self.tasks + 1) * error
        return max(0.0, ratio - reach), min(1.0, ratio + reach)

    def near(self) -> tuple[float, float]:
        """The ratio with these two tasks added, and its standard error."""
        tasks, each = self.tasks + 2, self.whole / self.tasks
        whole = self.whole + 2 * each
        ratio = (self.part + each) / whole
        squares = self.parts2 - 2 * ratio * self.cross + ratio * ratio * self.wholes2
        squares += each * each * (ratio * ratio + (1 - ratio) * (1 - ratio))
        return ratio, sqrt(tasks / (tasks - 1) * squares) / whole


class ByTask(OverTasks):
    """A ratio over tasks whose episodes come one by one, in any order."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        super().__init__()
        self._of: dict[str, tuple[int, int]] = {}

    def add(self, task: str, part: int, whole: int) -> None:
        """Add to the part and the whole of a task."""
        before, of_before = self._of.get(task, (0, 0))
        self.count(before, of_before, -1)
        self._of[task] = part, whole = before + part, of_before + whole
        self.count(part, whole)

    def merge(self, other: "ByTask") -> None:
        for task, (part, whole) in other._of.items():
            self.add(task, part, whole)


def student(df: int) -> float:
    """The two-sided 95 % quantile of Student's t with `df` of 2 or more, within 4 % (from
    5 on within 0.2 %; Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5).
    """
    z = Z_95
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / df + second / df**2 + third / df**3


def share(part: int, whole: int) -> float | None:
    """A rate, None over nothing."""
    return round(part / whole, DIGITS) if whole else None


def rounded(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else [round(end, DIGITS) for end in interval]


def percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share:.1%}"


def interval_text(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.1%} to {interval[1]:.1%}"


def spread(counts: Counter[int]) -> dict[str, Any]:
    """The mean of the numbers, and how many episodes have each."""
    total = sum(number * n for number, n in counts.items())
    return {
        "mean": share(total, counts.total()),
        "episodes": {str(number): n for number, n in sorted(counts.items())},
    }
