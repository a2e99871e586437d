"""The statistics that tell drift from chance."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import comb, exp, log, sqrt
from statistics import NormalDist
from typing import Final

BINS: Final = 10


def psi(before: Sequence[float], after: Sequence[float], bins: int = BINS) -> float:
    """The population stability index over quantile bins of `before`: the sum of
    (share after - share before) * ln(share after / share before).

    Below 0.1 a distribution counts as stable, above 0.2 as changed (Siddiqi, Credit Risk
    Scorecards, 2006). An empty bin counts as half a value.
    """
    edges = sorted({quantile(before, place / bins) for place in range(1, bins)})
    shares = []
    for values in (before, after):
        counts = [0] * (len(edges) + 1)
        for value in values:
            counts[bisect_left(edges, value)] += 1
        shares.append([max(count, 0.5) / len(values) for count in counts])
    return sum(((b - a) * log(b / a) for a, b in zip(*shares, strict=True)), 0.0)


def psi_by_chance(before: int, after: int, bins: int = BINS) -> float:
    """What the index is on average if nothing has changed, for so many values: its distribution is
    (1/n + 1/m) times chi-squared with one degree less than there are bins (Yurdakul, 2018).
    """
    return (bins - 1) * (1 / before + 1 / after)


def kolmogorov_smirnov(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """The largest distance of two distributions, and the probability that chance alone gives one
    as large: Smirnov's limit with Stephens' correction for few values (JRSS B 32, 1970).

    Both sequences are sorted.
    """
    n, m = len(before), len(after)
    distance, i, j = 0.0, 0, 0
    while i < n and j < m:
        value = min(before[i], after[j])
        while i < n and before[i] == value:
            i += 1
        while j < m and after[j] == value:
            j += 1
        distance = max(distance, abs(i / n - j / m))
    size = sqrt(n * m / (n + m))
    x = (size + 0.12 + 0.11 / size) * distance
    if x < 0.2:
        return distance, 1.0
    total = 2 * sum((-1) ** (k - 1) * exp(-2 * k * k * x * x) for k in range(1, 101))
    return distance, min(max(total, 0.0), 1.0)


def significant(probabilities: Sequence[float], rate: float) -> float:
    """The largest probability that counts if of all that count a share of `rate` may be chance
    (Benjamini and Hochberg, JRSS B 57, 1995). 0 if none counts.
    """
    limit = 0.0
    for rank, value in enumerate(sorted(probabilities), 1):
        if value <= rate * rank / len(probabilities):
            limit = value
    return limit


def fisher(part_a: int, whole_a: int, part_b: int, whole_b: int) -> float:
    """The probability that chance alone makes two shares at least so different that the second is
    the larger one (Fisher's exact test, one-sided). Large counts use the normal approximation.
    """
    whole, part = whole_a + whole_b, part_a + part_b
    if whole > 2_000:
        share = part / whole
        spread = sqrt(share * (1 - share) * (1 / whole_a + 1 / whole_b)) or 1e-12
        return NormalDist().cdf((part_a / whole_a - part_b / whole_b) / spread)
    most = min(part, whole_b)
    ways = sum(comb(part, k) * comb(whole - part, whole_b - k) for k in range(part_b, most + 1))
    return ways / comb(whole, whole_b)


def quantile(values: Sequence[float], place: float) -> float:
    """The quantile of sorted values, by the nearest rank."""
    return values[min(int(place * len(values)), len(values) - 1)]


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's rank correlation, without a correction for ties; 0 for fewer than three pairs."""
    n = len(pairs)
    if n < 3:
        return 0.0
    ranks = []
    for side in (0, 1):
        order = sorted(range(n), key=lambda place, side=side: pairs[place][side])  # type: ignore[misc]
        rank = [0] * n
        for position, place in enumerate(order):
            rank[place] = position
        ranks.append(rank)
    total = sum((a - b) ** 2 for a, b in zip(*ranks, strict=True))
    return 1.0 - 6.0 * float(total) / (n * (n * n - 1))


def is_even(values: Sequence[float]) -> bool:
    """Whether nearly all different values are as far apart, as ranks are."""
    gaps = Counter(round(b - a, 9) for a, b in pairwise(sorted({*values})))
    return bool(gaps) and max(gaps.values()) >= 0.8 * gaps.total()


def direction(values: Sequence[float]) -> int | None:
    """1 if values only rise, -1 if they only fall, None if neither."""
    if len(values) < 2 or values[0] == values[-1]:
        return None
    sign = 1 if values[0] < values[-1] else -1
    return sign if all(sign * a <= sign * b for a, b in pairwise(values)) else None
