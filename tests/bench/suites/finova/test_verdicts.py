"""Answers in every form that models give: what is read, and whether it is right by both rules.

`verdicts.jsonl` has a line for each answer. `pad` is repeated to 100 KB before its text.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.suites.finova.extraction import KINDS, READ, extracted
from bench.suites.finova.judge import is_right
from bench.suites.finova.mathematics import Verdict, are_equal_formulas
from bench.suites.finova.published import published
from bench.suites.finova.tasks import gold_text, read_folder
from tests.support.checkout import SHARED

PADDING = 100_000
HOSTILE_CHARS = 10_000
CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("verdicts.jsonl").read_text(encoding="utf-8").splitlines()
]
DATASET = SHARED / "datasets" / "finova"
HOSTILE = (
    *("\\boxed{", "boxed", "[", "]", "{", "}", "<answer>", "</answer>", "`", "```", "**", "**a"),
    *("</think>", "答案", "答案：", "是否", "\\", "'", '"', '["', "[{", "\\text{", "boxed{}", "[]"),
    *("['a',", "{'type':'a'}", "，", "json[", "【工具S】", "<example>\n", "9^", "\n", " ", "="),
    *("、", " - ", "①", "(1)", "1,111,", "\\boxed{1}\n", "(1)\\boxed{1}", "答案不是A，"),
)

tasks = st.sampled_from(KINDS)
answers = st.text() | st.lists(
    st.sampled_from((*HOSTILE, "是", "否", "对", "错", "A", ";", "1", "１", "%", "万", ".", "-"))
).map("".join)


def text_of(case: dict[str, Any]) -> str:
    pad: str = case.get("pad", "")
    return pad * (PADDING // len(pad) if pad else 0) + str(case["text"])


def holds(verdict: Verdict) -> bool:
    if isinstance(verdict, bool):
        return verdict
    return all(are_equal_formulas(*pair) for pair in verdict)


def test_every_task_has_sixty_answers() -> None:
    assert min(Counter(case["task"] for case in CASES)[task] for task in KINDS) >= 60


@pytest.mark.parametrize("task", KINDS)
def test_answers_are_read_and_judged_by_both_rules(task: str) -> None:
    for case in CASES:
        if case["task"] == task:
            gold, text = gold_text(case["gold"]), text_of(case)
            answer = extracted(task, text)
            found = (
                answer,
                holds(is_right(task, gold, answer)),
                holds(published(task, gold, text)),
            )
            expected = (case["extracted"], case["right"], case["published"])
            assert found == expected, (gold, case["text"], case.get("pad"))


@pytest.mark.parametrize("task", KINDS)
def test_repeated_marks_take_linear_time(task: str) -> None:
    """With steps that grow by the square of the length, this test would take many minutes."""
    for mark in HOSTILE:
        text = mark * (HOSTILE_CHARS // len(mark))
        for answer in (text, f"\\boxed{{{text}}}", f"<answer>{text}</answer>", f"[{text}]"):
            is_right(task, "1;2", extracted(task, answer))
            published(task, "1;2", answer)


def test_of_a_long_text_the_end_counts() -> None:
    assert extracted("reasoning", "\\boxed{1}" + " " * READ) == ""
    assert extracted("reasoning", " " * 2 * READ + "\\boxed{1}") == "1"


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(ValueError, match="'choice' is no task of Finova"):
        extracted("choice", "")


@given(tasks, st.sampled_from(["是", "A", "A;C", "1200", "1;2", '["a"]', "[]", ""]), answers)
def test_any_text_has_a_verdict(task: str, gold: str, text: str) -> None:
    is_right(task, gold, extracted(task, text))
    published(task, gold, text)


@given(
    st.recursive(
        st.text("0123456789ABCx+-*/=.,%", min_size=1),
        lambda inner: st.tuples(inner, inner).map(lambda parts: f"{parts[0]}{{{parts[1]}}}"),
    )
)
def test_a_box_holds_what_is_in_its_braces(content: str) -> None:
    assert extracted("reasoning", f"因此 $\\boxed{{{content}}}$。") == content


@pytest.mark.skipif(not DATASET.is_dir(), reason="the data set is not in ../shared")
def test_every_gold_answer_in_a_box_is_right_by_both_rules() -> None:
    tasks = read_folder(DATASET)
    assert len(tasks) == 1_249
    for task, gold in ((task.category, task.answer) for task in tasks):
        text = f"\\boxed{{{gold}}}"
        assert is_right(task, gold, extracted(task, text)) is True, (task, gold)
        assert published(task, gold, text) is True, (task, gold)
