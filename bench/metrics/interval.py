"""Rates, and confidence intervals of rates and means, as figures to print."""

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt

Z_95 = 1.959963984540054
"""The standard normal quantile of two-sided 95 %."""

DIGITS = 6


def wilson(part: int | Fraction, whole: int, z: float = Z_95) -> tuple[float, float] | None:
    """The score interval of a binomial rate (Wilson, JASA 22(158), 1927); None over nothing.

    Unlike the textbook interval it stays within 0 and 1, and has a width if none or all passed.
    """
    if not whole:
        return None
    rate, z2 = float(part / whole), z * z
    middle = (rate + z2 / (2 * whole)) / (1 + z2 / whole)
    reach = z * sqrt(rate * (1 - rate) / whole + z2 / (4 * whole * whole)) / (1 + z2 / whole)
    low = 0.0 if part == 0 else middle - reach
    return low, 1.0 if part == whole else middle + reach


def mean_interval(
    total: Fraction, squares: Fraction, count: int, z: float = Z_95
) -> tuple[float, float] | None:
    """The interval of the mean of `count` scores between 0 and 1, from their sum and the sum of
    their squares, by the normal approximation: mean +- z s / sqrt(count), cut off at 0 and 1.

    If all scores are equal, or there is only one, that interval has no width and would say nothing.
    Then Wilson's interval is used. It is wide enough for any scores from 0 to 1, since scores of 0
    and 1 vary the most. None over nothing.
    """
    if not count:
        return None
    mean = total / count
    variance = (squares - total * mean) / (count - 1) if count > 1 else 0
    if not variance:
        return wilson(total, count, z)
    reach = z * sqrt(variance / count)
    return max(0.0, float(mean) - reach), min(1.0, float(mean) + reach)


def share(part: int, whole: int) -> float | None:
    """A rate, None over nothing."""
    return round(part / whole, DIGITS) if whole else None


def rounded(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else [round(end, DIGITS) for end in interval]


def percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share:.1%}"


def interval_text(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.1%} to {interval[1]:.1%}"
