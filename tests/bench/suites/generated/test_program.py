"""Programs of generated tasks: what their operations mean, and that nothing else is evaluated."""

import itertools
import statistics
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.suites.generated.program import (
    Ambiguous,
    Leaf,
    ProgramError,
    Series,
    Unknown,
    evaluate,
    expanded,
    leaves,
    operations,
)

A = 'close("a", "2024-01-01", "2024-12-31", "tool_a")'
B = 'close("b", "2024-01-01", "2024-12-31", "tool_b")'

PRICES = st.lists(st.integers(100, 100_000).map(lambda n: n / 100), min_size=3, max_size=40)
PAIRS = st.lists(st.tuples(*[st.integers(100, 9_000)] * 2), min_size=6, max_size=30)


def series(values: Any) -> Series:
    return [(date(2024, 1, 1) + timedelta(n), float(value)) for n, value in enumerate(values)]


def value_of(program: str, a: Any = (), b: Any = ()) -> Any:
    """The value of a program, with the values of two series."""
    found = {"a": series(a), "b": series(b)}
    return evaluate(program, lambda leaf: found[leaf.subject]).value


def moves(values: list[float]) -> list[float]:
    return [(after - before) / before * 100 for before, after in itertools.pairwise(values)]


def worst_fall(values: list[float]) -> float:
    pairs = ((x, y) for n, x in enumerate(values) for y in values[n:])
    return max((x - y) / x for x, y in pairs) * 100


def longest_run(values: list[float]) -> int:
    """The longest of all stretches that only rise, in days."""
    number = len(values)
    stretches = ((first, last) for first in range(number) for last in range(first, number))
    return max(
        last - first
        for first, last in stretches
        if all(values[n] < values[n + 1] for n in range(first, last))
    )


@given(PRICES)
def test_operations_on_a_series_are_their_plain_definitions(values: list[float]) -> None:
    for program, wanted in {
        f"first({A})": values[0],
        f"last({A})": values[-1],
        f'at({A}, "2024-01-02")': values[1],
        f"highest({A}) - lowest({A})": max(values) - min(values),
        f"mean({A})": statistics.fmean(values),
        f"median({A})": statistics.median(values),
        f"drawdown({A})": worst_fall(values),
        f"volatility({A})": statistics.stdev(moves(values)),
        f"best_move({A})": max(moves(values)),
        f"worst_move({A})": min(moves(values)),
        f"pct(last({A}), first({A}))": (values[-1] - values[0]) / values[0] * 100,
    }.items():
        assert value_of(program, values) == pytest.approx(wanted, rel=1e-9, abs=1e-9), program
    assert 0 <= value_of(f"drawdown({A})", values) < 100


@given(PRICES)
def test_days_are_counted_and_found_or_a_tie_is_told(values: list[float]) -> None:
    days = [day for day, _ in series(values)]
    if any(x == y for x, y in itertools.pairwise(values)):
        with pytest.raises(Ambiguous):
            value_of(f"longest_rise({A})", values)
    else:
        assert value_of(f"longest_rise({A})", values) == longest_run(values)
        rises = sum(move > 0 for move in moves(values))
        assert value_of(f"rises({A})", values) == rises >= longest_run(values)
    for name, best in (("day_highest", max(values)), ("day_lowest", min(values))):
        if values.count(best) > 1:
            with pytest.raises(Ambiguous):
                value_of(f"{name}({A})", values)
        else:
            assert value_of(f"{name}({A})", values) == days[values.index(best)]
    bound = statistics.median(values) + 0.5
    try:
        assert value_of(f"days_above({A}, {bound})", values) == sum(v > bound for v in values)
        above = [day for day, value in series(values) if value > bound]
        assert value_of(f"day_above({A}, {bound})", values) == above[0]
    except Ambiguous:
        near = min(abs(value - bound) for value in values)
        assert near <= 1e-3 * bound or max(values) <= bound or values[0] > bound


@given(PAIRS)
def test_a_correlation_is_symmetric_and_a_beta_turns_it_round(
    pairs: list[tuple[int, int]],
) -> None:
    a, b = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    if min(len({round(move, 6) for move in moves(values)}) for values in (a, b)) < 2:
        return  # a constant has no correlation
    found = value_of(f"correlation({A}, {B})", a, b)
    assert -1 - 1e-9 <= found <= 1 + 1e-9
    assert found == pytest.approx(value_of(f"correlation({B}, {A})", a, b), abs=1e-12)
    assert found == pytest.approx(statistics.correlation(moves(a), moves(b)), abs=1e-6)
    assert value_of(f"correlation({A}, {A})", a) == pytest.approx(1)
    both = value_of(f"beta({A}, {B})", a, b) * value_of(f"beta({B}, {A})", a, b)
    assert both == pytest.approx(found**2, abs=1e-9)


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(-500, 500), min_size=2))
def test_a_ranking_is_sorted_and_everything_else_about_a_group_agrees(
    figures: dict[str, int],
) -> None:
    try:
        ranking = value_of(f"ranking({figures})")
    except Ambiguous:
        assert len({*figures.values()}) < len(figures)
        return
    ranked = [figures[name] for name in ranking]
    assert ranked == sorted(figures.values(), reverse=True)
    assert value_of(f"top({figures})") == ranking[0]
    assert value_of(f"second({figures})") == ranking[1]
    assert value_of(f"bottom({figures})") == ranking[-1]
    assert value_of(f"spread({figures})") == ranked[0] - ranked[-1]
    assert value_of(f"average({figures}) * {len(figures)}") == pytest.approx(sum(ranked))
    assert value_of(f"table({figures})") == figures
    bound = ranked[0] - 0.5
    assert value_of(f"above({figures}, {bound})") == [ranking[0]]
    assert value_of(f"number_above({figures}, {bound})") == 1


@pytest.mark.parametrize(
    ("program", "a", "b"),
    [
        (f"day_highest({A})", (1, 3, 3), ()),
        (f"day_lowest({A})", (1, 1, 3), ()),
        (f"rises({A})", (1, 1, 3), ()),
        (f"longest_rise({A})", (1, 2, 2), ()),
        (f"day_of_best({A})", (100, 110, 100, 110), ()),
        (f"day_of_worst({A})", (100, 90, 100, 90), ()),
        (f"days_above({A}, 2)", (1, 2.0001, 3), ()),
        (f"day_above({A}, 5)", (1, 2, 3), ()),
        (f'at({A}, "2025-01-01")', (1, 2, 3), ()),
        (f"days_higher({A}, {B})", (1, 2, 3), (2, 2.0001, 2)),
        (f"days_same_way({A}, {B})", (1, 1, 2), (1, 2, 3)),
        (f"correlation({A}, {B})", (1, 2, 3), (1, 2)),
        (f"first({A}) > last({B})", (100.001, 1, 1), (1, 1, 100)),
        ('ranking({"x": 10, "y": 10.0001, "z": 5})', (), ()),
        ('top({"x": 1, "y": 1})', (), ()),
        ('above({"x": 1, "y": 2}, 2.0001)', (), ()),
    ],
)
def test_a_tie_or_numbers_too_close_are_ambiguous(program: str, a: Any, b: Any) -> None:
    with pytest.raises(Ambiguous):
        value_of(program, a, b)


def test_facts_that_do_not_exist_are_unknown_and_only_the_picked_one_is_read() -> None:
    with pytest.raises(Unknown):
        value_of(f"highest({A})", ())
    program = f'pick(top({{"a": 2, "b": 1}}), {{"a": last({A}), "b": last({B})}})'
    assert value_of(program, (1, 2, 7), ()) == 7
    assert value_of(f"first({A}) if first({A}) > 3 and last({A}) < 9 else 0", (4, 5, 6)) == 4


def test_the_leaves_steps_and_size_of_a_program_are_told() -> None:
    program = f"pct(last({A}), first({B})) + last({A})"
    first, other = leaves(program)
    assert (first.text, other.text) == (A, B)
    assert first == Leaf("close", "a", date(2024, 1, 1), date(2024, 12, 31), "tool_a")
    assert operations(program) == 5
    found = {"a": series([1, 2, 4]), "b": series([2, 5, 6])}
    outcome = evaluate(program, lambda leaf: found[leaf.subject])
    assert (outcome.value, outcome.steps) == (104, [4, 2, 4])
    days = evaluate(f"day_highest({A})", lambda leaf: found[leaf.subject])
    assert days.steps == [4, "2024-01-03"]


def test_a_template_becomes_a_program_of_leaves() -> None:
    first, other = leaves(f"pct(last({A}), first({B}))")
    slots = {"m": {"x": first, "y": other}, "n": 3}
    program = expanded("top({name: last(s) * n for name, s in m})", slots)
    assert leaves(program) == [first, other]
    assert value_of(program, [1, 2, 3], [1, 2, 9]) == "y"


MARK = "was-here"
LOOSE = [
    f"__import__('os').mkdir({MARK!r})",
    f"(lambda: open({MARK!r}, 'w'))()",
    "'a'.upper()",
    "'a' < 'b'",
    "-'a'",
    "'a' * 3",
    f"-{A}",
    f"{A} * 2",
    "1 == 1",
    "1 in 2",
    "top({})",
    "spread({})",
    "{{}: 1}",
    "{**{'a': 1}}",
    "pct(2, 1, key=1)",
    "pick(1, 2)",
    "first('abc')",
    "average(1)",
]
HOSTILE = [
    f"open({MARK!r}, 'w')",
    "().__class__.__mro__",
    f"pct(open({MARK!r}, 'w'), 1)",
    "lambda: 1",
    "[s for s in (1, 2)]",
    "{n: n for n in (1, 2)}",
    "top({name: 1 for name, s in m})",
    "(x := 1)",
    "f'{1}'",
    "2 ** 99999999",
    "pct(2)",
    "name",
    "close(1)",
    "close('a', 'b', 'c', 'd')",
    "",
    "1 +",
    "1; 2",
    "import os",
    "\0",
    "None",
    "b'a'",
]
NESTED = ["(" * 20_000 + "1" + ")" * 20_000, "-" * 20_000 + "1", "+".join(["1"] * 20_000)]


@pytest.mark.parametrize("program", [*HOSTILE, *LOOSE])
def test_what_is_no_program_is_refused_and_nothing_of_it_runs(program: str) -> None:
    with pytest.raises(ProgramError):
        value_of(program, (1, 2, 3), (1, 2, 3))
    assert not Path(MARK).exists()


@pytest.mark.parametrize("program", NESTED, ids=["brackets", "signs", "a sum"])
def test_a_program_that_is_nested_too_deep_is_refused(program: str) -> None:
    for function in (leaves, operations, value_of):
        with pytest.raises(ProgramError):
            function(program)


@given(st.text(st.sampled_from("()[]{}'\",.:*+-<> 0123abclose_"), max_size=40))
def test_no_text_leads_to_another_error(text: str) -> None:
    try:
        leaves(text), operations(text)
    except ProgramError:
        return
