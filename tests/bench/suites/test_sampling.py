"""Which tasks a sample has: it depends on seed and questions, and on nothing else."""

import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.suites import load_suite
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.suites.suite import SuiteError
from finport import Suite, Task


def suite_of(*sizes: int) -> LabelledTasks:
    """A stratum of each size, in turns; every other task is Chinese."""
    tasks = [(category, n) for category, size in enumerate(sizes) for n in range(size)]
    return LabelledTasks(
        "plain",
        [
            Task(
                category=f"c{category}",
                question=f"{'问' if n % 2 else 'ask'} {category} {n}",
                tools=(),
            )
            for category, n in sorted(tasks, key=lambda one: one[1])
        ],
    )


def ids(suite: Suite) -> list[str]:
    return [task.id for task in suite.tasks]


sizes = st.lists(st.integers(1, 30), min_size=1, max_size=8)
seeds = st.integers(-(2**53), 2**53)


@given(sizes, seeds, st.data())
def test_a_sample_is_a_part_of_a_larger_one_in_any_order_of_the_tasks(
    sizes: list[int], seed: int, data: st.DataObject
) -> None:
    whole = suite_of(*sizes)
    more = data.draw(st.integers(1, len(whole.tasks)))
    fewer = data.draw(st.integers(1, more))
    large, small = (whole.selected(n, seed=seed) for n in (more, fewer))
    assert (len(small.tasks), len(large.tasks)) == (fewer, more)
    assert {*ids(small)} <= {*ids(large)}
    assert ids(large) == [one for one in ids(whole) if one in {*ids(large)}], "in their order"
    shuffled = LabelledTasks("plain", random.Random(seed).sample(whole.tasks, len(whole.tasks)))
    assert {*ids(shuffled.selected(more, seed=seed))} == {*ids(large)}
    assert (large.digest == whole.digest) == (more == len(whole.tasks))


@given(sizes, seeds, st.data())
def test_each_stratum_has_its_share(sizes: list[int], seed: int, data: st.DataObject) -> None:
    whole = suite_of(*sizes)
    number = data.draw(st.integers(1, len(whole.tasks)))
    chosen = whole.selected(number, seed=seed, stratify=["category"])
    counts = Counter(task.category for task in chosen.tasks)
    assert counts.total() == number
    assert chosen.selection["strata"] == {f"c{n}": counts[f"c{n}"] for n in range(len(sizes))}
    shares = [Fraction(size * number, sum(sizes)) for size in sizes]
    has_enough = number >= len(sizes)
    for n, share in enumerate(shares):
        if has_enough:
            assert counts[f"c{n}"] >= 1
        if not has_enough or all(one >= 1 for one in shares):
            assert abs(counts[f"c{n}"] - share) < 1
    of_each = {name: [t.id for t in chosen.tasks if t.category == name] for name in counts}
    for name, of_stratum in of_each.items():
        alone = LabelledTasks("plain", [task for task in whole.tasks if task.category == name])
        assert ids(alone.selected(counts[name], seed=seed)) == of_stratum, "drawn as if it was all"


def test_what_is_drawn_never_changes() -> None:
    """On any machine, in any version."""
    starter = load_suite("starter")
    drawn = starter.selected(4, seed=7)
    assert ids(drawn) == ["starter_35", "starter_51", "starter_52", "starter_62"]
    drawn = starter.selected(6, seed=7, stratify=["language", "category"])
    assert ids(drawn) == [
        "starter_2",
        "starter_24",
        "starter_32",
        "starter_35",
        "starter_55",
        "starter_71",
    ]


@pytest.mark.parametrize(
    ("wanted", "how", "said"),
    [
        (0, {}, "0 tasks can't be chosen: plain has 5 tasks"),
        (6, {}, "6 tasks can't be chosen: plain has 5 tasks"),
        ([], {}, "0 tasks are named: name 1 to 10000"),
        (["x" * 10_000], {}, f"no task has the id '{'x' * 64}'"),
        (2, {"stratify": ["kind"]}, "plain has no field 'kind'; it takes language, category"),
    ],
)
def test_what_can_not_be_chosen_is_said(wanted: Any, how: dict[str, Any], said: str) -> None:
    with pytest.raises(SuiteError) as raised:
        suite_of(3, 2).selected(wanted, **how)
    assert said in str(raised.value)


def test_the_published_questions_are_drawn_in_both_languages(questions: Path) -> None:
    whole = load_suite("fintoolbench", questions)
    drawn = whole.selected(50, stratify=["category", "language"])
    assert Counter(task.language for task in drawn.tasks) == {"zh": 43, "en": 7}
    assert len({task.category for task in drawn.tasks}) == 19
    lines = questions.read_text().splitlines()
    Path("turned.jsonl").write_text("\n".join(lines[::-1]) + "\n")
    turned = load_suite("fintoolbench", Path("turned.jsonl"))
    again = turned.selected(50, stratify=["category", "language"])
    assert {t.question for t in again.tasks} == {t.question for t in drawn.tasks}
