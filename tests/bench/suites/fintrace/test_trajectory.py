"""FinTrace's computed metrics: hand-made trajectories, with the figures worked out by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.record import EpisodeRecord, ToolCallRecord
from bench.suites.fintrace.trajectory import computed
from tests.support.runs import call, episode

Made = tuple[str, dict[str, Any]]
Labelled = tuple[str, dict[str, Any] | None]
A1: Made = ("a", {"n": 1})
A2: Made = ("a", {"n": 2})
B1: Made = ("b", {"n": 1})
C1: Made = ("c", {})
ANY: Labelled = ("a", None)
NAMES = ("ToolCallingPrecision", "ToolCallingRecall", "ToolCallingF1")
KEYS = (*NAMES, *(f"{name}_arguments" for name in NAMES), "StepEfficiency", "Redundancy")


def trajectory(
    made: list[Made], gold: Sequence[Labelled], outputs: list[str] | None = None
) -> EpisodeRecord:
    calls: list[ToolCallRecord] = []
    for place, (tool, arguments) in enumerate(made):
        output = outputs[place] if outputs else "42"
        is_error = output.startswith("!")
        calls.append(
            replace(
                call(place + 1, output[1:] if is_error else None, "tool" if is_error else None),
                tool_name=tool,
                parameters=arguments,
                output={"error": output} if is_error else output,
            )
        )
    return replace(
        episode(0, *calls),
        labelled_tools=[tool for tool, _ in gold],
        labelled_arguments=[arguments for _, arguments in gold],
    )


CASES: list[tuple[str, list[Made], Sequence[Labelled], tuple[float, ...]]] = [
    # name, calls, gold, then precision, recall, F1, the same with arguments, steps, redundancy
    ("the gold one", [A1], [A1], (1, 1, 1, 1, 1, 1, 1, 1)),
    ("the gold ones in their order", [A1, B1, C1], [A1, B1, C1], (1,) * 8),
    ("in another order", [C1, A1, B1], [A1, B1, C1], (1,) * 8),
    ("no call", [], [A1], (0, 0, 0, 0, 0, 0, 1, 1)),
    ("no call where five are gold", [], [A1, A2, B1, B1, C1], (0, 0, 0, 0, 0, 0, 1, 1)),
    ("a wrong tool", [B1], [A1], (0, 0, 0, 0, 0, 0, 1, 1)),
    ("other arguments", [A2], [A1], (1, 1, 1, 0, 0, 0, 1, 1)),
    ("one more", [A1, B1], [A1], (1 / 2, 1, 2 / 3, 1 / 2, 1, 2 / 3, 1 / 2, 1)),
    ("one less", [A1], [A1, B1], (1, 1 / 2, 2 / 3, 1, 1 / 2, 2 / 3, 1, 1)),
    ("two of three", [A1, B1], [A1, B1, C1], (1, 2 / 3, 4 / 5, 1, 2 / 3, 4 / 5, 1, 1)),
    ("one of three, two wrong", [A1, ("x", {}), ("y", {})], [A1, B1, C1], (1 / 3,) * 6 + (1, 1)),
    ("a repeat", [A1, A1], [A1], (1 / 2, 1, 2 / 3, 1 / 2, 1, 2 / 3, 1 / 2, 1 / 2)),
    ("three times the same", [A1] * 3, [A1], (1 / 3, 1, 1 / 2, 1 / 3, 1, 1 / 2, 1 / 3, 1 / 3)),
    ("gold has it twice", [A1, A1], [A1, A1], (1, 1, 1, 1, 1, 1, 1, 1 / 2)),
    ("gold twice, called once", [A1], [A1, A1], (1, 1 / 2, 2 / 3, 1, 1 / 2, 2 / 3, 1, 1)),
    ("one tool, two arguments", [A1, A2], [A1, A2], (1,) * 8),
    (
        "one tool, one of two arguments",
        [A1, A1],
        [A1, A2],
        (1, 1, 1, 1 / 2, 1 / 2, 1 / 2, 1, 1 / 2),
    ),
    ("two wrong of two", [("x", {}), ("y", {})], [A1, B1], (0,) * 6 + (1, 1)),
    ("twice the steps", [A1, A2, B1, C1], [A1, B1], (1 / 2, 1, 2 / 3) * 2 + (1 / 2, 1)),
    ("order of names", [("a", {"x": 1, "y": 2})], [("a", {"y": 2, "x": 1})], (1,) * 8),
    ("5.0 is 5", [("a", {"n": 5.0})], [("a", {"n": 5})], (1,) * 8),
    (
        "'5' is not 5 for an unknown tool",
        [("a", {"n": "5"})],
        [("a", {"n": 5})],
        (1, 1, 1, 0, 0, 0, 1, 1),
    ),
    ("nested", [("a", {"n": {"b": [1, 2.0]}})], [("a", {"n": {"b": [1, 2]}})], (1,) * 8),
    (
        "ten calls of one gold",
        [A1, *[("x", {"n": n}) for n in range(9)]],
        [A1],
        (1 / 10, 1, 2 / 11) * 2 + (1 / 10, 1),
    ),
    (
        "half right by arguments",
        [A1, ("b", {"n": 9})],
        [A1, B1],
        (1, 1, 1, 1 / 2, 1 / 2, 1 / 2, 1, 1),
    ),
    ("a gold call without arguments", [A2, B1], [ANY, B1], (1,) * 8),
    ("the exact one first, in whatever order", [A2, A1], [ANY, A1], (1,) * 8),
    ("one of two without arguments", [B1, A1], [ANY, ANY, B1], (1, 2 / 3, 4 / 5) * 2 + (1, 1)),
    ("one without arguments of another tool", [B1], [ANY, B1], (1, 1 / 2, 2 / 3) * 2 + (1, 1)),
    (
        "a known tool, in another spelling",
        [("stock_zh_a_hist", {"symbol": "000001", "period": "daily"})],
        [("stock_zh_a_hist", {"symbol": "000001"})],
        (1,) * 8,
    ),
    (
        "an instrument left out is that of the upstream, also under another name",
        [("stock_zh_a_hist", {"period": "daily"}), ("stock_zh_a_hist", {"code": "600519"})],
        [("stock_zh_a_hist", {"symbol": "000001"}), ("stock_zh_a_hist", {"symbol": "600519"})],
        (1,) * 8,
    ),
]


@pytest.mark.parametrize(
    ("made", "gold", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_figures_are_those_worked_out_by_hand(
    made: list[Made], gold: Sequence[Labelled], expected: tuple[float, ...]
) -> None:
    figures = computed(trajectory(made, gold))
    assert {name: figures[name] for name in KEYS} == pytest.approx(
        dict(zip(KEYS, expected, strict=True))
    )


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (["1", "1"], 1 / 2),  # the same again
        (["1", "2"], 1),  # it brought something new
        (["!timeout", "1"], 1),  # a retry that worked
        (["!timeout", "!timeout"], 1 / 2),  # a retry that did not
        (["!timeout", "!overloaded"], 1),
        (["!timeout", "1", "1", "!timeout"], 2 / 4),
    ],
)
def test_a_repeat_brings_nothing_new(outputs: list[str], expected: float) -> None:
    assert computed(trajectory([A1] * len(outputs), [A1], outputs))["Redundancy"] == expected


def test_without_a_gold_trajectory_only_redundancy_is_known() -> None:
    assert computed(trajectory([A1], [])) == {"Redundancy": 1.0}
    names_only = replace(trajectory([A1], [A1]), labelled_arguments=[])
    beside = {"StepEfficiency", "Redundancy", "ToolCallingF1_ceiling"}
    assert set(computed(names_only)) == {*NAMES, *beside}


calls = st.lists(
    st.tuples(st.sampled_from("abc"), st.dictionaries(st.just("n"), st.integers(0, 2))), max_size=6
)


@given(calls, calls, st.lists(st.just(ANY), max_size=2))
def test_figures_are_shares(made: list[Made], exact: list[Made], of_any: list[Labelled]) -> None:
    gold = [*exact, *of_any]
    figures = computed(trajectory(made, gold))
    assert all(0 <= figure <= 1 for figure in figures.values() if figure is not None)
    if gold:
        by_tool, by_call = figures["ToolCallingF1"], figures.get("ToolCallingF1_arguments")
        assert by_tool is not None
        assert (by_call is None) == (not exact)
        assert by_call is None or by_call <= by_tool


@given(calls.filter(bool))
def test_a_perfect_trajectory_scores_1(gold: list[Made]) -> None:
    figures = computed(trajectory(gold, gold, [f"{place}" for place in range(len(gold))]))
    assert {figures[name] for name in KEYS} == {1}


@given(calls, calls.filter(bool), st.randoms())
def test_the_order_of_calls_does_not_matter(
    made: list[Made], gold: list[Made], random: Any
) -> None:
    shuffled = random.sample(made, len(made))
    assert computed(trajectory(shuffled, gold)) == computed(trajectory(made, gold))
