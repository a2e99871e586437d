"""pass@k and pass^k of every suite, against their definitions."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.metrics.passes import KS
from bench.record import EpisodeRecord, Judgement
from bench.runs.metrics import RunMetrics
from bench.suites import SUITES
from bench.suites.finova.suite import Finova
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.suites.fintrace.suite import FinTrace
from bench.suites.suite import Suite
from tests.support.records import episode, made

PASSED, FAILED, LEFT_OUT = "passed", "failed", "left out"


def called(outcome: str) -> EpisodeRecord:
    """An episode that calls the labelled tool, none, or another one beyond the quota."""
    beyond = replace(made(1, ok=False), tool_name="u", fault="quota")
    calls = {PASSED: [made(1)], FAILED: [], LEFT_OUT: [beyond]}[outcome]
    return replace(episode(*calls), execution_result="42", labelled_tools=["t"])


def answered(outcome: str) -> EpisodeRecord:
    """An answer to a prompt of Finova, right or wrong; one that is left out is not judged."""
    score = float(outcome == PASSED)
    verdict = Judgement("rules", "reasoning", by_metric={"accuracy": [score]})
    verdict.by_metric["accuracy_published"] = [score]
    judgement = None if outcome == LEFT_OUT else verdict
    return replace(episode(), category="reasoning", judgement=judgement)


def metrics_of(
    suite: type[Suite],
    made_as: Callable[[str], EpisodeRecord],
    outcomes: list[tuple[str, str]],
) -> RunMetrics:
    """The metrics over repeats of tasks."""
    metrics = RunMetrics(suite)
    for task, outcome in outcomes:
        metrics.add(replace(made_as(outcome), id=task))
    return metrics


def by_hand(tasks: dict[str, list[bool]], k: int) -> tuple[float, float]:
    """Both figures by drawing every subset of `k` repeats of each task that has as many."""
    draws = [[*combinations(one, k)] for one in tasks.values() if len(one) >= k]
    return (
        float(fmean(Fraction(sum(map(any, of)), len(of)) for of in draws)),
        float(fmean(Fraction(sum(map(all, of)), len(of)) for of in draws)),
    )


@pytest.mark.parametrize(
    ("suite", "made_as"), [(LabelledTasks, called), (FinTrace, called), (Finova, answered)]
)
@given(
    outcomes=st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from([PASSED, FAILED, LEFT_OUT])), max_size=24
    ),
    cut=st.integers(0, 24),
    rng=st.randoms(use_true_random=False),
)
def test_repeats_pass_as_often_as_subsets_of_them_do(
    suite: type[Suite],
    made_as: Callable[[str], EpisodeRecord],
    outcomes: list[tuple[str, str]],
    cut: int,
    rng: Any,
) -> None:
    passes = metrics_of(suite, made_as, outcomes).result().get("passes")
    shuffled = rng.sample(outcomes, len(outcomes))
    merged = metrics_of(suite, made_as, shuffled[:cut])
    merged.merge(metrics_of(suite, made_as, shuffled[cut:]))
    assert merged.result().get("passes") == passes, "whatever their order, and however split"

    tasks: dict[str, list[bool]] = {}
    for task, outcome in outcomes:
        if outcome != LEFT_OUT:
            tasks.setdefault(task, []).append(outcome == PASSED)
    most = max(map(len, tasks.values()), default=0)
    if most < 2:
        assert passes is None
        return
    assert passes is not None
    assert passes["left_out"] == sum(outcome == LEFT_OUT for _, outcome in outcomes)
    assert [*passes["by_k"]] == [str(k) for k in KS if k <= most]
    for k, row in passes["by_k"].items():
        any_one, all_of_them = by_hand(tasks, int(k))
        assert row["tasks"] == sum(len(one) >= int(k) for one in tasks.values())
        assert row["pass_at_k"] == pytest.approx(any_one, abs=1e-6)
        assert row["pass_hat_k"] == pytest.approx(all_of_them, abs=1e-6)
        for name, (low, high) in row["intervals"].items():
            assert 0 <= low <= row[name] + 1e-6
            assert row[name] - 1e-6 <= high <= 1


def test_a_suite_without_verdicts_has_none() -> None:
    with_them = {name for name, suite in SUITES.items() if suite.has_verdicts}
    assert SUITES.keys() - with_them == {"investorbench"}
    metrics = metrics_of(SUITES["investorbench"], called, [("a", FAILED)] * 3)
    assert "passes" not in metrics.result()

    class Unjudged(FinTrace):
        has_verdicts = False

    assert "passes" not in metrics_of(Unjudged, called, [("a", PASSED)] * 3).result()


def test_many_repeats_of_one_task_have_few_rows() -> None:
    metrics = metrics_of(LabelledTasks, called, [("a", PASSED), ("a", FAILED)] * 60)
    rows = metrics.result()["passes"]["by_k"]
    assert [int(k) for k in rows] == [*KS]
    assert rows["100"]["pass_at_k"] == 1.0
    assert rows["2"]["pass_hat_k"] == pytest.approx(60 / 120 * 59 / 119, abs=1e-6)
