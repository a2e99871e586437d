"""Finova's metrics: the unweighted mean of kinds, its interval, and what does not matter."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.record import EpisodeRecord, Judgement
from bench.suites.finova.extraction import KINDS
from bench.suites.finova.metrics import FinovaMetrics
from tests.support.runs import episode


def judged(kind: str, ours: bool, published: bool, **more: Any) -> EpisodeRecord:
    by_metric = {"accuracy": [float(ours)], "accuracy_published": [float(published)]}
    extracted = more.pop("extracted", "")
    judgement = Judgement("rules", kind, by_metric=by_metric, extracted=extracted)
    return replace(episode(0), category=kind, judgement=judgement, **more)


def metrics_of(*records: EpisodeRecord) -> FinovaMetrics:
    metrics = FinovaMetrics()
    for record in records:
        metrics.add(record, [])
    return metrics


def test_accuracy_is_the_unweighted_mean_of_the_kinds() -> None:
    reasoning = [judged("reasoning", n == 0, False) for n in range(4)]  # 1 of 4, and 0 of 4
    compliance = [judged("compliance", True, True) for _ in range(2)]  # 2 of 2
    given = [replace(one, id=f"{n}") for n, one in enumerate([*reasoning, *compliance])]
    rates = metrics_of(*given).rates()
    assert (rates["reasoning"], rates["compliance"]) == (0.25, 1)
    assert rates["accuracy"] == pytest.approx((0.25 + 1) / 2)
    assert rates["accuracy_published"] == pytest.approx((0 + 1) / 2)
    assert (rates["episodes"], rates["passed"], rates["expression"]) == (6, 3, None)
    # (1 + 1) / (4 + 2) and (2 + 1) / (2 + 2) right: variances 2/9 / 5 and 3/16 / 3.
    reach = 1.959964 * (2 / 9 / 5 + 3 / 16 / 3) ** 0.5 / 2
    assert rates["intervals"]["accuracy"] == [
        pytest.approx(0.625 - reach, abs=1e-6),
        pytest.approx(min(1.0, 0.625 + reach), abs=1e-6),
    ]


def test_an_answer_that_was_not_judged_is_counted_as_such() -> None:
    metrics = metrics_of(replace(episode(0), judgement=None), judged("reasoning", True, True))
    rates = metrics.rates()
    assert (rates["episodes"], rates["unjudged"], rates["accuracy"]) == (2, 1, 1)
    assert metrics_of().rates()["accuracy"] is None


def test_the_confusion_says_which_right_answer_got_which() -> None:
    gold = orjson.dumps(["基金-信息查询", "保险-信息查询"]).decode()
    given = orjson.dumps(["保险-信息查询", "基金-信息查询"]).decode()
    details = metrics_of(
        judged("intent_recognition", True, True, ground_truth=gold, extracted=given),
        judged("intent_recognition", False, True, ground_truth="[]", extracted=given),
        judged("compliance", False, False, ground_truth="是", extracted="否"),
        judged("reasoning", False, False, ground_truth="1", extracted="2"),
    ).details()
    both = "保险-信息查询, 基金-信息查询"
    assert details["confusion"] == {
        "intent_recognition": {both: {both: 1}, "": {both: 1}},
        "compliance": {"是": {"否": 1}},
    }
    assert details["readings_differ"] == {
        "compliance": 0,
        "intent_recognition": 1,
        "reasoning": 0,
    }


records = st.lists(
    st.builds(judged, st.sampled_from(KINDS), st.booleans(), st.booleans()), max_size=20
)


@given(records, st.integers(0, 20), st.randoms())
def test_neither_order_nor_split_matters(made: list[EpisodeRecord], cut: int, random: Any) -> None:
    shuffled = random.sample(made, len(made))
    merged = metrics_of(*shuffled[:cut])
    merged.merge(metrics_of(*shuffled[cut:]))
    whole = metrics_of(*made)
    assert merged.rates() == whole.rates()
    assert merged.details() == whole.details()
    low, high = whole.rates()["intervals"]["accuracy"] or (0, 1)
    assert 0 <= low <= (whole.rates()["accuracy"] or 0) <= high <= 1 or not made
