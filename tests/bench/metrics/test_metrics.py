"""Every rule of the capability metrics on hand-made traces, and what accumulators promise."""

import json
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.metrics import Traffic
from bench.metrics.interval import ONE, OverTasks, wilson
from bench.record import (
    Ending,
    EpisodeRecord,
    Judgement,
    ModelCallRecord,
    ToolVerdict,
)
from bench.runs.metrics import RunMetrics
from bench.suites.fintoolbench.suite import LabelledTasks
from gateway import CallRecord
from gateway.telemetry.quantile import Quantiles
from tests.support.records import call, episode, made


def judged(
    *scores: float,
    kind: str = "free_text",
    invalid: int = 0,
    tools: list[ToolVerdict] | None = None,
    **of: Any,
) -> EpisodeRecord:
    """An episode that called a tool and was judged."""
    judgement = Judgement("llm:m", kind, list(scores), invalid, tools or [])
    return replace(episode(made(1)), judgement=judgement, **of)


def measured(*records: EpisodeRecord | CallRecord) -> dict[str, Any]:
    """The metrics over records, each of a task of its own."""
    metrics = RunMetrics(LabelledTasks)
    for n, record in enumerate(records):
        metrics.add(replace(record, id=f"{n}") if isinstance(record, EpisodeRecord) else record)
    return metrics.result()


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
    found = measured(record)
    assert (found["invoked"], found["passed"], found["TESR_text"]) == (invoked, passed, passed_text)


def test_the_papers_text_and_its_program_read_an_episode_differently() -> None:
    failed: dict[str, Any] = {"ok": False, "output": ERROR}
    one_of_two = episode(made(1, **failed), made(1))  # in one round, the last one succeeded
    late = [ToolVerdict("a", False, True, True), ToolVerdict("b", True, True, True)]
    earlier = episode(replace(made(1), tool_name="a"), replace(made(2), tool_name="b"))
    judgement = Judgement("llm:m", "free_text", [1.0, 0.5], 1, late)
    found = measured(one_of_two, replace(earlier, judgement=judgement))
    assert (found["TESR"], found["TESR_paper"]) == (0.5, 1.0)
    assert (found["SoftScore"], found["SoftScore_paper"]) == (0.75, 0.5), "a third score is missing"
    assert (found["CSS"], found["CSS_paper"]) == (0.75, 0.5)
    assert (found["TMR"], found["TMR_paper"]) == (0.0, 1.0)
    idle = measured(episode())
    assert (idle["CER"], idle["CER_paper"]) == (None, 0.0)


def test_what_is_nobodys_choice_is_left_out_of_net_rates() -> None:
    codes = ("not_subscribed", "circuit_open", "upstream_unreachable", "upstream_error")
    failed = [replace(made(1, ok=False, output=ERROR), code=code, fault="tool") for code in codes]
    found = measured(episode(made(1)), *map(episode, failed))
    assert (found["TESR"], found["TESR_net"], found["CER_net"]) == (0.2, 0.5, 0.5)


def test_rates_are_over_the_right_whole_and_undefined_over_nothing() -> None:
    failed = episode(made(1, ok=False, output=ERROR))
    for records, rates in (
        ([], (None, None, None)),
        ([episode()], (0.0, 0.0, None)),
        ([episode(), episode(made(1)), episode(made(1)), failed], (0.75, 0.5, 0.666667)),
    ):
        result = measured(*records)
        assert (result["TIR"], result["TESR"], result["CER"]) == rates


def test_a_fault_of_the_infrastructure_is_told_from_the_agents() -> None:
    quota, gateway, tool = (
        replace(made(1, ok=False, output=ERROR), fault=f) for f in ("quota", "gateway", "tool")
    )
    result = measured(
        episode(made(1)),
        episode(quota),
        episode(gateway, made(1)),
        episode(quota, tool),  # the tool's too: it would have failed anyway
        episode(gateway, replace(made(2, ok=False, output=ERROR), fault="agent")),
    )
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
        call(ok=False, tool="bad", host="a.com"),
        call(ok=False, tool="bad", host="a.com", code="rate_limited"),
        call(host="a.com"),
    ):
        traffic.add(record)
    result = traffic.result()
    assert (result["calls"], result["answered"], result["cache_hit_rate"]) == (6, 4, 0.5)
    assert result["errors"] == {"rate_limited": 1, "timeout": 1}
    assert result["faults"] == {"tool": 2}
    assert result["slowest"][0]["tool"] == "slow"
    assert [row["tool"] for row in result["most_failing"]] == ["bad"]
    assert result["hosts"] == {
        "a.com": {"calls": 3, "failed": 2, "errors": {"rate_limited": 1, "timeout": 1}},
        "unknown": {"calls": 3, "failed": 0, "errors": {}},
    }


def test_soft_score_is_the_mean_of_means_and_css_that_of_the_passed() -> None:
    failed = [made(1, ok=False, output=ERROR)]
    result = measured(
        judged(1, 1, 0.5),  # 5/6
        judged(0, 0.5),  # 1/4: one of three judgements was invalid
        judged(1, tool_calls=failed),  # 1, and failed
        judged(0, tool_calls=[]),  # 0, and called nothing
        judged(invalid=3),  # no valid judgement: left out
        judged(kind="none"),  # no gold answer: left out
        episode(made(1)),  # not judged at all
    )
    # (5/6 + 1/4 + 1 + 0) / 4 = 25/48; of the passed (5/6 + 1/4) / 2 = 13/24
    assert (result["SoftScore"], result["CSS"]) == (0.520833, 0.541667)
    # with a task of 0 and one of 1: 37/72, s^2 = 0.2343, reach 2.571 s / sqrt(6) = 0.507
    assert result["intervals"]["SoftScore"] == pytest.approx([0.0059, 1.0], abs=1e-3)
    # 25/48, s^2 = 0.1960, reach 3.159 s / 2 = 0.699: cut off at both ends
    assert result["intervals"]["CSS"] == [0.0, 1.0]
    assert result["judged"] == {
        "judges": {"llm:m": 6},
        "episodes": 6,
        "judged": 4,
        "invalid": 3,
        "rounded": 0,
        "invalid_tools": 0,
        "eligible": {"TMR": 0, "IMR": 0, "DMR": 0},
        "marked": {"TMR": 0, "IMR": 0, "DMR": 0},
        "verdicts": {"TMR": 0, "IMR": 0, "DMR": 0},
        "kinds": {
            "free_text": {"episodes": 5, "judged": 4, "invalid": 3, "SoftScore": 0.520833},
            "none": {"episodes": 1, "judged": 0, "invalid": 0, "SoftScore": None},
        },
    }


def test_one_mismatch_marks_an_episode_in_its_dimension_alone() -> None:
    fits, late = ToolVerdict("a", True, True, True), ToolVerdict("b", False, None, True)
    result = measured(
        judged(tools=[fits, fits]),
        judged(tools=[fits, late]),  # one of two tools mismatches: marked
        judged(tools=[late, fits]),  # in either order
        judged(tools=[ToolVerdict("c", None, None, False)]),  # judged in one dimension
        judged(tools=[ToolVerdict("c")]),  # in none
        judged(tools=[]),  # its tools have no tags, or the judgement was invalid
        judged(tools=[late], tool_calls=[]),  # called nothing: no tool to judge
    )
    # eligible are the judged that called something, also those without a verdict
    assert result["judged"]["eligible"] == {"TMR": 6, "IMR": 6, "DMR": 6}
    assert result["judged"]["marked"] == {"TMR": 2, "IMR": 0, "DMR": 1}
    assert result["judged"]["verdicts"] == {"TMR": 3, "IMR": 3, "DMR": 4}
    assert (result["TMR"], result["IMR"], result["DMR"]) == (0.333333, 0.0, 0.166667)
    assert result["intervals"]["DMR"] == pytest.approx(wilson(1, 6), abs=1e-6)


def test_what_no_judge_saw_is_not_eligible_and_what_none_could_tell_is_undefined() -> None:
    fits = ToolVerdict("a", True, None, None)
    result = measured(judged(tools=[fits]), judged(tools=[]), episode(made(1)))
    assert (result["TMR"], result["IMR"]) == (0.0, None)
    assert result["judged"]["eligible"] == {"TMR": 2, "IMR": 0, "DMR": 0}
    assert result["intervals"]["IMR"] is None


@pytest.mark.parametrize(
    ("tasks", "low", "high"),
    [
        ([], None, None),
        ([[1]] * 10, 0.722467, 1.0),  # Wilson's of 10 of 10
        ([[0, 0, 0]], 0.0, 0.793451),  # of 0 of 1: repeats are one task
        ([[1, 1], [1, 1], [0, 0], [0, 0]], 0.150036, 0.849964),  # of 2 of 4
        # with tasks of 0 and 1: 0.5, s^2 = 0.5 / 4, reach 2.768 s / sqrt(5) = 0.438
        ([[0.5]] * 3, 0.0624, 0.9376),
        # with tasks of 0 and 1: 0.5, s^2 = 0.625 / 4, reach 0.489
        ([[0, 1], [1, 1, 1, 0], [1, 0, 0, 0]], 0.0, 1.0),
    ],
)
def test_an_interval_is_over_tasks(
    tasks: list[list[float]], low: float | None, high: float | None
) -> None:
    over = OverTasks()
    for scores in tasks:
        over.count(round(ONE * sum(scores)), ONE * len(scores))
    found = over.interval()
    assert found == (None if low is None else pytest.approx((low, high), abs=1e-2))


@given(
    tasks=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=40),
    split=st.integers(0, 40),
)
def test_an_interval_holds_its_ratio_however_it_is_counted(
    tasks: list[tuple[int, int]], split: int
) -> None:
    once, moved = OverTasks(), OverTasks()
    for part, whole in tasks:
        once.count(min(part, whole), whole)
    for part, whole in (*tasks[split:], *tasks[:split], *tasks):
        moved.count(min(part, whole), whole)
    for part, whole in tasks:
        moved.count(min(part, whole), whole, -1)
    interval, ratio = once.interval(), once.ratio
    assert interval is not None
    assert ratio is not None
    assert 0 <= interval[0] <= ratio + 1e-12
    assert ratio - 1e-12 <= interval[1] <= 1
    assert moved.interval() == interval


def asked(purpose: str, *tokens: int, error: str | None = None) -> ModelCallRecord:
    read, cached, written = tokens or (0, 0, 0)
    return ModelCallRecord(1, purpose, "m", 0.0, 5.0, 2, read, cached, written, "stop", error)


def test_usage_counts_endings_rounds_requests_and_tokens() -> None:
    calls = [asked("act", 1000, 400, 20), asked("reduce", 500, 0, 10), asked("act", error="no")]
    usage = measured(
        replace(episode(made(1), made(2), made(2)), model_calls=calls),
        replace(episode(made(1)), model_calls=[asked("act", error="no")] * 2, ending="model_error"),
        episode(),
    )["usage"]
    assert usage["endings"] == {"answer": 2, "model_error": 1}
    assert usage["rounds"] == {"mean": 1.0, "episodes": {"0": 1, "1": 1, "2": 1}}
    assert usage["model_calls"] == {
        "calls": 5,
        "failed": 3,
        "attempts": 10,
        "purposes": {"act": 4, "reduce": 1},
    }
    assert usage["tokens"] == {"input": 1500, "cached": 400, "output": 30}
    quantiles = usage["tokens_an_episode"]
    assert quantiles["input"]["p50"] == 0, "of the two that asked, one got nothing"
    assert measured(episode())["usage"]["tokens_an_episode"]["input"]["p50"] is None
    only = measured(replace(episode(), model_calls=calls))["usage"]["tokens_an_episode"]
    assert only["input"]["p99"] == pytest.approx(1500, rel=0.011)
    assert only["output"]["p99"] == pytest.approx(30, rel=0.02)


def test_what_a_judge_asked_is_counted_apart_from_what_the_agent_did() -> None:
    requests = [asked("judge", 300, 0, 5), asked("judge", error="429")]
    judged = Judgement("llm:j", "numeric", [1.0], invalid=1, model_calls=requests)
    one = replace(episode(), model_calls=[asked("act", 100, 0, 1)], judgement=judged)
    usage = measured(one, replace(episode(), judgement=Judgement("rules", "none")))["usage"]
    assert usage["tokens"] == {"input": 100, "cached": 0, "output": 1}
    assert usage["judge"]["tokens"] == {"input": 300, "cached": 0, "output": 5}
    assert usage["judge"]["model_calls"] == {
        "calls": 2,
        "failed": 1,
        "attempts": 4,
        "purposes": {"judge": 2},
    }
    assert one.tokens == 101, "a limit on tokens is the agent's"
    twice = RunMetrics(LabelledTasks)
    for _ in range(2):
        part = RunMetrics(LabelledTasks)
        part.add(one)
        twice.merge(part)
    assert twice.result()["usage"]["judge"]["tokens"]["input"] == 600


def test_tool_use_tells_what_was_offered_and_labelled() -> None:
    named = {name: replace(made(1), tool_name=name) for name in "abcx"}

    def labelled(*calls: str) -> EpisodeRecord:
        record = episode(*(named[name] for name in calls))
        return replace(record, candidate_tools=["a", "b", "c"], labelled_tools=["a", "b"])

    use = measured(
        labelled("a", "b", "a"),  # all of them
        labelled("a", "x", "x"),  # one, and two calls of what was not offered
        labelled("c"),  # none
        labelled(),
        episode(named["x"]),  # no candidates, no labels: neither counts
    )["tool_use"]
    assert use == {
        "calls_an_episode": {"mean": 1.6, "episodes": {"0": 1, "1": 2, "3": 2}},
        "tools_an_episode": {"mean": 1.2, "episodes": {"0": 1, "1": 2, "2": 2}},
        "not_offered": {"calls": 2, "of": 7, "share": 0.285714},
        "labelled": {
            "episodes": 4,
            "offered_any": 1.0,
            "offered_all": 1.0,
            "called_any": 0.5,
            "called_all": 0.25,
        },
    }


def test_rates_stand_apart_by_category_source_and_labels() -> None:
    late = [ToolVerdict("a", False, True, None)]
    apart = measured(
        judged(1, category="bond", labelled_tools=["a"], tools=late),
        judged(0, category="bond", labelled_tools=["a", "b"]),
        replace(episode(), category="fund", source_dataset="other"),
    )["breakdown"]
    capability = ("episodes", "invoked", "passed", "TIR", "TESR", "CER")
    judgements = ("SoftScore", "CSS", "TMR", "IMR", "DMR")
    bond: dict[str, float | None] = dict(zip(capability, (2, 2, 2, 1.0, 1.0, 1.0), strict=True))
    bond |= dict(zip(judgements, (0.5, 0.5, 0.5, 0.0, None), strict=True))
    idle = dict(zip(capability, (1, 0, 0, 0.0, 0.0, None), strict=True))
    idle |= dict.fromkeys(judgements)
    assert apart["category"] == {"bond": bond, "fund": idle}
    assert apart["source"] == {"other": idle, "s": bond}
    assert list(apart["labelled_tools"]) == ["multi", "none", "single"]
    assert apart["labelled_tools"]["none"] == idle
    assert apart["labelled_tools"]["single"]["SoftScore"] == 1.0


verdict = st.builds(ToolVerdict, st.just("t"), *[st.sampled_from([True, False, None])] * 3)
judgement = st.builds(
    Judgement,
    st.sampled_from(["rules", "llm:m"]),
    st.sampled_from(["none", "choice", "free_text"]),
    st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=3),
    st.integers(0, 3),
    st.lists(verdict, max_size=2),
)
tokens = st.integers(0, 10**6)
model_call = st.builds(
    lambda purpose, figures, error: asked(purpose, *figures, error=error),
    st.sampled_from(["act", "final"]),
    st.tuples(tokens, tokens, tokens),
    st.sampled_from([None, "no"]),
)
names = st.lists(st.sampled_from("tuv"), max_size=3)
an_episode = st.builds(
    lambda steps, **fields: replace(episode(*(made(s, ok) for s, ok in steps)), **fields),
    st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=3),
    error=st.sampled_from([None, "agent: x"]),
    ending=st.sampled_from(list(map(str, Ending))),
    category=st.sampled_from(["bond", "fund"]),
    source_dataset=st.sampled_from(["s", "r"]),
    candidate_tools=names,
    labelled_tools=names,
    model_calls=st.lists(model_call, max_size=2),
    judgement=st.none() | judgement,
)
a_call = st.builds(
    call,
    st.booleans(),
    st.sampled_from(["live", "cached"]),
    st.sampled_from("abcdefg"),
    st.floats(0.001, 1e5),
    st.sampled_from([None, "a.com", "b.com"]),
)


@settings(max_examples=100)
@given(
    st.lists(an_episode | a_call, max_size=30),
    st.integers(0, 30),
    st.randoms(use_true_random=False),
)
def test_any_split_and_any_order_add_up_to_the_same(
    stream: list[EpisodeRecord | CallRecord], cut: int, rng: Any
) -> None:
    whole, left, right = (RunMetrics(LabelledTasks) for _ in range(3))
    for record in stream:
        whole.add(record)
    shuffled = rng.sample(stream, len(stream))
    for record in shuffled[:cut]:
        left.add(record)
    for record in shuffled[cut:]:
        right.add(record)
    left.merge(right)
    assert json.dumps(left.result()) == json.dumps(whole.result()), "figures, and order of names"


@settings(max_examples=100)
@given(st.lists(an_episode, max_size=30))
def test_groups_add_up_to_the_whole_and_rates_stay_within_bounds(
    stream: list[EpisodeRecord],
) -> None:
    result = measured(*stream)
    for groups in result["breakdown"].values():
        for name in ("episodes", "invoked", "passed"):
            assert sum(group[name] for group in groups.values()) == result[name]
    for name, interval in result["intervals"].items():
        rate = result[name]
        assert (rate is None) or 0 <= rate <= (inf if name == "CSS_paper" else 1)
        if interval is not None:
            assert 0 <= interval[0] <= rate + 1e-6
            assert rate - 1e-6 <= interval[1] <= 1
    assert result["judged"]["judged"] == sum(
        bool(e.judgement and e.judgement.scores) for e in stream
    )


@given(st.lists(st.floats(1e-3, 1e6), min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_within_one_percent(figures: list[float], q: float) -> None:
    sketch = Quantiles()
    for figure in figures:
        sketch.add(figure)
    exact = sorted(figures)[int(q * (len(figures) - 1))]
    estimate = sketch.at(q)
    assert estimate is not None
    assert abs(estimate - exact) <= 0.0101 * exact
