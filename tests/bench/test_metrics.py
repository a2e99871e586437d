"""Every rule of the capability metrics on hand-made traces, and what accumulators promise."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.metrics import Capability, RunMetrics, Traffic
from bench.metrics.interval import wilson
from bench.record import EpisodeRecord, ToolCallRecord
from gateway import CallRecord
from gateway.quantile import Quantiles


def made(step: int, ok: bool = True, output: Any = "[]") -> ToolCallRecord:
    return ToolCallRecord(step, "t", {}, output, ok, None, None, "live", "1", 1.0)


def episode(*calls: ToolCallRecord, error: str | None = None) -> EpisodeRecord:
    return EpisodeRecord(
        episode="e",
        id="t",
        repeat=0,
        source_dataset="s",
        category="equity",
        question="?",
        setting="scripted",
        ground_truth="",
        candidate_tools=[],
        started_at=0.0,
        tool_calls=list(calls),
        error=error,
    )


def call(ok: bool = True, source: str = "live", tool: str = "t", ms: float = 1.0) -> CallRecord:
    code, fault = (None, None) if ok else ("timeout", "tool")
    return CallRecord(
        *("1", 0.0, tool, None, {}, ok, code, fault, None, source if ok else None, "live"),
        *(0.0, 1, ms, None, None, 0, None, None),
    )


ERROR = {"error": "no"}


@pytest.mark.parametrize(
    ("record", "invoked", "passed", "passed_text"),
    [
        (episode(), 0, 0, 0),
        (episode(made(1)), 1, 1, 1),
        (episode(made(1), error="agent: ValueError"), 1, 0, 0),
        (episode(made(1, ok=False, output=ERROR)), 1, 0, 0),
        # only the last round counts, and every call of it
        (episode(made(1, ok=False, output=ERROR), made(2)), 1, 1, 1),
        (episode(made(1), made(2, ok=False, output=ERROR)), 1, 0, 0),
        (episode(made(2), made(2, ok=False, output=ERROR), made(1)), 1, 0, 0),
        # the last round is the highest step, not the last in the list
        (episode(made(2), made(1, ok=False, output=ERROR)), 1, 1, 1),
        # the text rule sees words where the typed outcome knows better, and the other way round
        (episode(made(1, output="forecast ERRORS of analysts")), 1, 1, 0),
        (episode(made(1, output="Traceback (most recent call last)")), 1, 1, 0),
        (episode(made(1, output={"error": None, "rows": 3})), 1, 1, 1),
        (episode(made(1, ok=False, output="no luck")), 1, 0, 1),
    ],
)
def test_an_episode_counts_as_the_papers_rules_say(
    record: EpisodeRecord, invoked: int, passed: int, passed_text: int
) -> None:
    metric = Capability()
    metric.add(record)
    assert (metric.invoked, metric.passed, metric.passed_text) == (invoked, passed, passed_text)


def test_rates_are_over_the_right_whole_and_undefined_over_nothing() -> None:
    metric = Capability()
    assert [metric.result()[name] for name in ("TIR", "TESR", "CER")] == [None, None, None]
    metric.add(episode())
    assert [metric.result()[name] for name in ("TIR", "TESR", "CER")] == [0.0, 0.0, None]
    for record in (episode(made(1)), episode(made(1)), episode(made(1, ok=False, output=ERROR))):
        metric.add(record)
    result = metric.result()
    assert (result["TIR"], result["TESR"], result["CER"]) == (0.75, 0.5, 0.666667)


def test_a_fault_of_the_infrastructure_is_told_from_the_agents() -> None:
    quota, gateway, tool = (
        replace(made(1, ok=False, output=ERROR), fault=f) for f in ("quota", "gateway", "tool")
    )
    metric = Capability()
    for record in (
        episode(made(1)),
        episode(quota),
        episode(gateway, made(1)),
        episode(quota, tool),  # the tool's too: it would have failed anyway
        episode(gateway, replace(made(2, ok=False, output=ERROR), fault="agent")),
    ):
        metric.add(record)
    result = metric.result()
    assert (result["passed"], result["failed_by_infrastructure"]) == (1, 2)
    assert (result["TESR"], result["TESR_net"], result["CER_net"]) == (0.2, 0.333333, 0.333333)


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [  # worked out by hand from the formula
        (0, 10, 0.0, 0.277533),
        (8, 10, 0.490162, 0.943318),
        (10, 10, 0.722467, 1.0),
        (500, 1000, 0.469069, 0.530931),
    ],
)
def test_the_interval_is_wilsons(part: int, whole: int, low: float, high: float) -> None:
    assert wilson(part, whole) == pytest.approx((low, high), abs=1e-6)


@given(whole=st.integers(1, 10**7), share=st.floats(0, 1))
def test_an_interval_holds_its_rate_and_shrinks(whole: int, share: float) -> None:
    part = round(share * whole)
    interval, finer = wilson(part, whole), wilson(4 * part, 4 * whole)
    assert interval is not None
    assert finer is not None
    (low, high), (finer_low, finer_high) = interval, finer
    assert 0 <= low <= part / whole <= high <= 1
    assert finer_high - finer_low < high - low
    mirrored = wilson(whole - part, whole)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_traffic_counts_sources_errors_faults_and_ranks_tools() -> None:
    traffic = Traffic()
    for record in (
        call(source="cached"),
        call(source="cached"),
        call(source="live", tool="slow", ms=900.0),
        call(ok=False, tool="bad"),
        call(ok=False, tool="bad"),
    ):
        traffic.add(record)
    result = traffic.result()
    assert (result["calls"], result["answered"], result["cache_hit_rate"]) == (5, 3, 0.666667)
    assert result["errors"] == {"timeout": 2}
    assert result["faults"] == {"tool": 2}
    assert result["slowest"][0]["tool"] == "slow"
    assert [row["tool"] for row in result["most_failing"]] == ["bad"]


records = st.lists(
    st.builds(
        lambda steps, error: episode(*(made(s, ok) for s, ok in steps), error=error),
        st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=3),
        st.sampled_from([None, "agent: x"]),
    )
    | st.builds(
        call,
        st.booleans(),
        st.sampled_from(["live", "cached"]),
        st.sampled_from("abcdefg"),
        st.floats(0.001, 1e5),
    ),
    max_size=30,
)


@given(records, st.integers(0, 30), st.randoms(use_true_random=False))
def test_any_split_and_any_order_add_up_to_the_same(
    stream: list[EpisodeRecord | CallRecord], cut: int, rng: Any
) -> None:
    whole, left, right = RunMetrics(), RunMetrics(), RunMetrics()
    for record in stream:
        whole.add(record)
    shuffled = rng.sample(stream, len(stream))
    for record in shuffled[:cut]:
        left.add(record)
    for record in shuffled[cut:]:
        right.add(record)
    left.merge(right)
    assert left.result() == whole.result()


@given(st.lists(st.floats(1e-3, 1e6), min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_within_one_percent(figures: list[float], q: float) -> None:
    sketch = Quantiles()
    for figure in figures:
        sketch.add(figure)
    exact = sorted(figures)[int(q * (len(figures) - 1))]
    estimate = sketch.at(q)
    assert estimate is not None
    assert abs(estimate - exact) <= 0.0101 * exact
