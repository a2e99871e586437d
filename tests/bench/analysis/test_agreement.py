"""Agreement of two judges: worked-out examples, and what must hold for all."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.analysis.agreement import SCORE, agreement, scores_of, spearman, weighted_kappa
from bench.record import EpisodeRecord, Judgement
from tests.support.runs import episode

PAIRS = [(1, 1), (2, 3), (3, 3), (5, 4)]


def test_kappa_and_rho_are_those_worked_out_by_hand() -> None:
    # Squared differences: 0 + 1 + 0 + 1 = 2, times 4 pairs = 8. By chance, each of 1, 2, 3, 5
    # against each of 1, 3, 3, 4: (0+4+4+9) + (1+1+1+4) + (4+0+0+1) + (16+4+4+1) = 54.
    assert weighted_kappa(PAIRS) == pytest.approx(1 - 8 / 54)
    # Ranks 1, 2, 3, 4 and 1, 2.5, 2.5, 4: products of the deviations 2.25 + 0 + 0 + 2.25 = 4.5,
    # squares 5 and 4.5.
    assert spearman(PAIRS) == pytest.approx(4.5 / (5 * 4.5) ** 0.5)


def test_nothing_is_said_where_all_scores_are_equal() -> None:
    assert weighted_kappa([(3, 3), (3, 3)]) is None
    assert spearman([(3, 3), (3, 3)]) is None
    assert (weighted_kappa([]), spearman([])) == (None, None)


scores = st.integers(1, 5)


@given(st.lists(st.tuples(scores, scores), min_size=1))
def test_agreement_lies_within_its_bounds_and_knows_no_sides(
    pairs: list[tuple[float, float]],
) -> None:
    turned = [(y, x) for x, y in pairs]
    for figure in (weighted_kappa, spearman):
        found, other = figure(pairs), figure(turned)
        assert found is None or (-1 <= found <= 1 and other == pytest.approx(found))


@given(st.lists(scores, min_size=2).filter(lambda values: len(set(values)) > 1))
def test_a_judge_agrees_with_itself(values: list[int]) -> None:
    same = [(value, value) for value in values]
    assert weighted_kappa(same) == 1
    assert spearman(same) == pytest.approx(1)


def test_judgements_are_paired_by_episode_and_metric() -> None:
    def judged(number: int, judge: str, **scores: list[float]) -> EpisodeRecord:
        return replace(episode(number), judgement=Judgement(judge, "x", by_metric=scores))

    a, _ = scores_of([judged(0, "one", M=[4, 5, 5]), judged(1, "one", M=[2]), judged(2, "one")])
    b, names = scores_of(
        [judged(0, "two", M=[3]), judged(1, "two", M=[2]), judged(3, "two", M=[1])]
    )
    assert names == {"two": 3}
    found = agreement(a, b)["M"]
    assert (found["episodes"], found["only_a"], found["only_b"]) == (2, 0, 1)
    assert (found["mean_a"], found["mean_b"], found["equal"]) == (3.5, 2.5, 0.5)
    plain, _ = scores_of([episode(0, scores=[0, 1, 1])])
    assert plain == {SCORE: {"task_0.0": 1.0}}
