"""Block-bootstrap intervals of figures, and of the difference of two agents."""

import random
from math import sqrt
from operator import mul
from statistics import fmean

import pytest

from bench.suites.investorbench.bootstrap import (
    MEASURES,
    Bootstrap,
    block_length,
)


def normal(seed: int, count: int = 149, mean: float = 0.0) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(mean, 0.01) for _ in range(count)]


def test_blocks_grow_with_the_cube_root_of_the_days() -> None:
    lengths = {days: block_length(days) for days in (0, 1, 2, 8, 9, 27, 28, 149, 10**6)}
    assert lengths == {0: 1, 1: 1, 2: 2, 8: 2, 9: 3, 27: 3, 28: 4, 149: 6, 10**6: 100}


def test_the_same_seed_gives_the_same_intervals() -> None:
    returns = normal(1)
    first = Bootstrap(252, resamples=50, seed=3).intervals(returns)
    assert first == Bootstrap(252, resamples=50, seed=3).intervals(returns)
    assert first != Bootstrap(252, resamples=50, seed=4).intervals(returns)
    assert tuple(first) == MEASURES


def sum_deviation(returns: list[float], block: int) -> float:
    """The standard deviation of a resample's sum, which Politis and Romano (1994, lemma 1) give
    in closed form.
    """
    count, mean, stay = len(returns), fmean(returns), 1 - 1 / block
    off = [value - mean for value in returns]
    variance = fmean(value * value for value in off)
    for lag in range(1, count):
        weight = (1 - lag / count) * stay**lag + lag / count * stay ** (count - lag)
        variance += 2 * weight * sum(map(mul, off, off[lag:])) / count
    return sqrt(count * variance)


@pytest.mark.parametrize(("seed", "block"), [(1, 1), (2, 6), (3, 12)])
def test_intervals_are_as_wide_as_the_theory_says(seed: int, block: int) -> None:
    returns = normal(seed)
    found = Bootstrap(252, block=block).intervals(returns)["CR"]
    assert found is not None
    low, high = found
    assert low < sum(returns) < high
    assert high - low == pytest.approx(2 * 1.96 * sum_deviation(returns, block), rel=0.1)


def test_blocks_widen_the_interval_of_returns_that_follow_each_other() -> None:
    steady = [value for value in normal(3, 50) for _ in range(4)]
    widths = {}
    for block in (1, 12):
        found = Bootstrap(252, block=block).intervals(steady)["CR"]
        assert found is not None
        widths[block] = found[1] - found[0]
    assert widths[12] > 1.4 * widths[1]


def test_undefined_figures_have_no_interval() -> None:
    flat = Bootstrap(252, resamples=20).intervals([0.0] * 20)
    assert flat == {"CR": (0.0, 0.0), "SR": None, "MDD": (0.0, 0.0), "AV": (0.0, 0.0)}
    # A third of the resamples lack the only day on which something was earned.
    rare = Bootstrap(252, resamples=200).intervals([0.0] * 30 + [0.1])
    assert rare["SR"] is None
    assert rare["CR"] is not None
    none = Bootstrap(252, resamples=3).intervals([])
    assert none == {"CR": (0.0, 0.0), "SR": None, "MDD": (0.0, 0.0), "AV": None}


def test_equal_agents_do_not_differ() -> None:
    returns = normal(5)
    found = Bootstrap(252, resamples=30).differences(returns, list(returns))
    for name in MEASURES:
        assert found[name] == (0.0, (0.0, 0.0))


def test_pairs_show_a_small_steady_advantage_that_single_intervals_hide() -> None:
    worse = normal(6)
    better = [value + 0.0005 for value in worse]
    found = Bootstrap(252, resamples=100).differences(better, worse)["CR"]
    assert found is not None
    assert found[1] == pytest.approx((0.0745, 0.0745))
    single = Bootstrap(252, resamples=100).intervals(better)["CR"]
    assert single is not None
    assert single[1] - single[0] > 0.2


def test_a_difference_without_a_sharpe_ratio_on_one_side_is_undefined() -> None:
    found = Bootstrap(252, resamples=20).differences(normal(7), [0.0] * 149)
    assert found["SR"] is None
    assert found["CR"] is not None
