"""The sample of FinTrace: its gold trajectories are balanced, valid and answered."""

import json
import re
from collections import Counter
from typing import Any

import pytest

from bench.suites import BUILT_IN
from manifests import Catalog, Signature
from tests.support.commands import finbench
from tests.support.tools import tool

SAMPLE = BUILT_IN["fintrace-sample"]

CALLS = {"easy": range(1, 2), "medium": range(2, 4), "hard": range(4, 8)}


@pytest.fixture(scope="module")
def tasks() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]


def calls_of(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [call for task in tasks for call in task["gold_trajectory"]]


def test_the_sample_is_balanced(tasks: list[dict[str, Any]], catalog: Catalog) -> None:
    assert len(tasks) >= 66
    assert len({task["category"] for task in tasks}) >= 20
    difficulties = Counter(task["difficulty"] for task in tasks)
    assert set(difficulties) == set(CALLS)
    assert min(difficulties.values()) >= 22
    chinese = sum(re.search(r"[\u4e00-\u9fff]", task["query"]) is not None for task in tasks)
    assert min(chinese, len(tasks) - chinese) >= 0.4 * len(tasks)
    used = {call["tool"] for call in calls_of(tasks)}
    assert len(used) >= 60
    sources = Counter(tool(catalog, name).source for name in used)
    assert min(sources["rapidapi"], sources["akshare"]) >= 30


def test_each_task_is_complete_and_none_comes_twice(tasks: list[dict[str, Any]]) -> None:
    assert [task["id"] for task in tasks] == [f"fintrace-sample_{n}" for n in range(len(tasks))]
    assert len({task["query"] for task in tasks}) == len(tasks)
    for task in tasks:
        assert set(task) == {
            *("id", "category", "difficulty", "query"),
            *("gold_trajectory", "reference_answer"),
        }
        assert task["reference_answer"]
        trajectory = task["gold_trajectory"]
        assert len(trajectory) in CALLS[task["difficulty"]], task["id"]
        assert all(trajectory.count(call) == 1 for call in trajectory), task["id"]


def test_the_arguments_of_each_gold_call_are_canonical(
    tasks: list[dict[str, Any]], catalog: Catalog
) -> None:
    for call in calls_of(tasks):
        manifest = tool(catalog, call["tool"])
        assert manifest.unavailable is None
        assert manifest.intent_type != "transactional"
        bound = Signature(manifest).bind(call["arguments"])
        given = {name: bound[name] for name in call["arguments"]}
        assert repr(given) == repr(call["arguments"]), call  # 1, 1.0 and true are told apart


def test_a_perfect_player_reaches_the_end_of_each_trajectory_and_each_call_is_answered() -> None:
    flawless = (f"--{name}-rate=0" for name in ("no-call", "wrong-tool", "bad-arguments"))
    command = ("run", "fintrace-sample", "--upstream", "simulated", *flawless, "--json")
    done = finbench(*command, "--out", "perfect")
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)
    assert metrics["ToolCallingF1"] == metrics["ToolCallingF1_arguments"] == 1
    assert metrics["passed"] == metrics["episodes"] == 75
    assert metrics["traffic"]["answered"] == metrics["traffic"]["calls"]
