"""The statistics against enumeration, their definitions and published values."""

from math import comb, isclose, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.drift.snapshots.statistics import (
    fisher,
    kolmogorov_smirnov,
    psi,
    rank_correlation,
    significant,
)

values = st.lists(st.floats(-1e6, 1e6) | st.integers(-3, 3), min_size=1, max_size=30).map(sorted)


@given(values, values)
@settings(max_examples=40)
def test_the_stability_index_is_no_less_than_0_which_it_is_for_the_same_values(
    before: list[float], after: list[float]
) -> None:
    assert psi(before, after) >= -1e-12
    assert psi(before, before) == 0


def test_the_stability_index_of_two_bins() -> None:
    """Shares of 3/4 and 1/4 that become 1/4 and 3/4: 2 * 1/2 * ln 3."""
    assert isclose(psi([1, 2, 3, 4], [1, 4, 4, 4], bins=2), log(3))


@given(values, values)
@settings(max_examples=40)
def test_the_distance_of_distributions_is_the_largest_one_at_any_value(
    before: list[float], after: list[float]
) -> None:
    def share(of: list[float], value: float) -> float:
        return sum(x <= value for x in of) / len(of)

    distance, chance = kolmogorov_smirnov(before, after)
    expected = max(abs(share(before, x) - share(after, x)) for x in (*before, *after))
    assert isclose(distance, expected, abs_tol=1e-12)
    assert 0 <= distance <= 1
    assert 0 <= chance <= 1
    assert kolmogorov_smirnov(after, before) == (distance, chance)
    assert kolmogorov_smirnov(before, before) == (0, 1)


@pytest.mark.parametrize(("x", "published"), [(1.22, 0.10), (1.36, 0.05), (1.63, 0.01)])
def test_the_chance_of_a_distance_is_that_of_smirnov_s_table(x: float, published: float) -> None:
    """The limit of critical values in Smirnov's table, for 100,000 values on each side."""
    n = 100_000
    moved = round(x * (2 / n) ** 0.5 * n)
    before = [*range(n)]
    distance, chance = kolmogorov_smirnov(before, [value + moved for value in before])
    assert isclose(distance, moved / n)
    assert isclose(chance, published, rel_tol=0.05)


def test_the_chance_of_a_distance_is_near_the_exact_one_of_few_values() -> None:
    """Against the share of all ways to split 40 values into halves: of all paths through a grid,
    those that leave the band around its diagonal.
    """
    n = 20
    for apart in range(5, 15):
        ways: dict[tuple[int, int], int] = {(0, 0): 1}
        for i in range(n + 1):
            for j in range(n + 1):
                if i or j:
                    inside = abs(i - j) < apart
                    ways[i, j] = inside * (ways.get((i - 1, j), 0) + ways.get((i, j - 1), 0))
        exact = 1 - ways[n, n] / comb(2 * n, n)
        _, chance = kolmogorov_smirnov([*range(n)], [x + apart for x in range(n)])
        assert chance <= exact
        assert isclose(chance, exact, rel_tol=0.5, abs_tol=0.001)


@given(*[st.tuples(st.integers(0, 9), st.integers(1, 9)).map(sorted)] * 2)
@settings(max_examples=40)
def test_fisher_s_test_is_the_share_of_all_splits(a: list[int], b: list[int]) -> None:
    (part_a, whole_a), (part_b, whole_b) = a, b
    found = fisher(part_a, whole_a, part_b, whole_b)
    marked, whole = part_a + part_b, whole_a + whole_b
    splits = [
        comb(marked, k) * comb(whole - marked, whole_b - k)
        for k in range(max(0, whole_b - whole + marked), min(marked, whole_b) + 1)
        if k >= part_b
    ]
    assert isclose(found, sum(splits) / comb(whole, whole_b))
    assert 0 <= found <= 1


def test_large_counts_take_the_normal_approximation() -> None:
    exact, near = fisher(300, 1_000, 340, 1_000), fisher(301, 1_001, 341, 1_001)
    assert isclose(exact, near, rel_tol=0.15)
    for counts in ((0, 5_000, 0, 5_000), (5_000, 5_000, 5_000, 5_000), (0, 5_000, 5_000, 5_000)):
        assert 0 <= fisher(*counts) <= 1
    assert fisher(0, 10**9, 10**9, 10**9) < 1e-9


@given(st.lists(st.floats(0, 1), max_size=30), st.floats(0.001, 0.5))
@settings(max_examples=40)
def test_the_limit_of_chance_is_benjamini_s_and_hochberg_s(
    chances: list[float], rate: float
) -> None:
    limit = significant(chances, rate)
    ranked = sorted(chances)
    counting = [k for k in range(1, len(ranked) + 1) if ranked[k - 1] <= rate * k / len(ranked)]
    assert limit == (ranked[max(counting) - 1] if counting else 0)


def test_rank_correlation() -> None:
    """Of 1 to 5 and an order with one exchange: 1 - 6 * 2 / (5 * 24)."""
    assert isclose(rank_correlation([(1, 1), (2, 3), (3, 2), (4, 40), (5, 500)]), 0.9)
    assert rank_correlation([(1, 3), (2, 2), (3, 1)]) == -1
    assert rank_correlation([(1, 1), (2, 2)]) == 0
