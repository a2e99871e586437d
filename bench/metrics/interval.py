"""How far a rate that was counted may be from the rate that it stands for."""

from math import sqrt

Z_95 = 1.959963984540054
"""The standard normal quantile of two-sided 95 %."""


def wilson(part: int, whole: int, z: float = Z_95) -> tuple[float, float] | None:
    """The score interval of a binomial rate (Wilson, JASA 22(158), 1927); None over nothing.

    Unlike the textbook interval it stays within 0 and 1, and has a width where none or all passed.
    """
    if not whole:
        return None
    rate, z2 = part / whole, z * z
    middle = (rate + z2 / (2 * whole)) / (1 + z2 / whole)
    reach = z * sqrt(rate * (1 - rate) / whole + z2 / (4 * whole * whole)) / (1 + z2 / whole)
    low = 0.0 if part == 0 else middle - reach
    return low, 1.0 if part == whole else middle + reach
