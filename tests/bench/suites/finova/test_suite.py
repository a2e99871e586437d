"""Finova from end to end: its sample in a run, and recorded answers."""

import asyncio
import json
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.suites import BUILT_IN, load_suite
from bench.suites.finova.extraction import KINDS
from bench.suites.finova.tasks import AUTHORS
from bench.suites.suite import SuiteError
from manifests import Catalog
from tests.support.commands import finbench
from tests.support.simulated_runs import played

SAMPLE = str(BUILT_IN["finova-sample"])


def test_the_sample_is_played_scored_reported_and_compared(
    catalog: Catalog, tmp_path: Path
) -> None:
    suite = load_suite("finova-sample")
    asyncio.run(played(suite, catalog, tmp_path / "run", episodes=24, concurrency=8))
    at = str(tmp_path / "run")
    metrics = json.loads((tmp_path / "run/metrics.json").read_bytes())
    assert all(0 <= metrics[kind] <= 1 for kind in KINDS)
    mean = sum(metrics[kind] for kind in KINDS) / len(KINDS)
    assert metrics["accuracy"] == pytest.approx(mean, abs=1e-6)
    assert 0 < metrics["accuracy"] < 1
    assert set(metrics["confusion"]) == {"intent_recognition", "expression", "compliance"}
    assert metrics["usage"]["model_calls"]["purposes"] == {"act": 24}
    scored = json.loads(finbench("score", at, "--json").stdout)
    assert scored["accuracy"] == metrics["accuracy"]
    assert finbench("report", at).returncode == 0
    page = (tmp_path / "run/report.html").read_text()
    assert "Confusion" in page
    compared = json.loads(finbench("compare", at, at, "--json").stdout)
    assert compared["metrics"]["accuracy"]["difference"] == 0


def answers(*lines: Any) -> str:
    Path("answers.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return "answers.jsonl"


def answer(task: str, index: int, text: str | None) -> dict[str, Any]:
    return {"task": task, "index": index, "answer": text}


def scored(*more: str) -> tuple[Any, dict[str, Any]]:
    options = ("--suite", "finova", "--dataset", SAMPLE, "--json", *more)
    done = finbench("score", "answers.jsonl", *options)
    return done, json.loads(done.stdout) if done.stdout else {}


def test_recorded_answers_are_scored_and_each_verdict_is_written() -> None:
    answers(
        answer("reasoning", 0, "① \\boxed{两 3} ② \\boxed{10609}"),  # one value is asked for
        answer("reasoning", 0, "It is 10,609.00 yuan, so \\boxed{10{,}609}"),
        answer("reasoning", 3, "\\boxed{CA}"),
        answer("compliance", 1, "否"),
        answer("intent_recognition", 3, "\\boxed{[]}"),
        answer("slot_filling", 1, None),
        answer("slot_filling", 2, ""),  # no slot is expected, but an empty answer is none
        answer("tool_planning", 0, '```json\n["基金净值查询", "持仓查询", "汇率查询"]\n```'),
    )
    done, metrics = scored("--items", "items.jsonl")
    assert done.returncode == 0, done.stderr
    items = [orjson.loads(line) for line in Path("items.jsonl").read_bytes().splitlines()]
    assert [(i["task"], i["index"], i["right"], i["extracted"]) for i in items] == [
        ("reasoning", 0, True, "10609"),
        ("reasoning", 0, True, "10{,}609"),
        ("reasoning", 3, True, "CA"),
        ("compliance", 1, True, "否"),
        ("intent_recognition", 3, True, "[]"),
        ("slot_filling", 1, False, ""),
        ("slot_filling", 2, False, ""),
        ("tool_planning", 0, True, '["基金净值查询","持仓查询","汇率查询"]'),
    ]
    assert (metrics["reasoning"], metrics["slot_filling"], metrics["expression"]) == (1, 0, None)
    assert metrics["accuracy"] == pytest.approx(4 / 5)
    assert metrics["readings_differ"]["reasoning"] == 2  # CA for A;C, and two boxes
    assert finbench("score", "answers.jsonl", "--suite", "finova", "--dataset", SAMPLE).stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (answer("maths", 0, "1"), "answers.jsonl:1: task: 'maths' is none of intent_recognition"),
        (answer("reasoning", -1, "1"), "answers.jsonl:1: index"),
        ({"task": "reasoning", "answer": "1"}, "answers.jsonl:1: index"),
        (answer("reasoning", 0, 7), "answers.jsonl:1: answer"),  # type: ignore[arg-type]
        ([], "answers.jsonl:1: "),
    ],
)
def test_a_line_that_is_no_answer_is_named(line: Any, said: str) -> None:
    answers(line)
    done, _ = scored()
    assert done.returncode == 1
    assert said in done.stderr


def test_an_index_beyond_the_tasks_is_named(tmp_path: Path) -> None:
    answers(answer("reasoning", 3, "\\boxed{1}"), answer("reasoning", 4, "1"))
    done, _ = scored()
    assert done.returncode == 1
    said = "answers.jsonl:2: index: 4 is no task of reasoning, which has 4 tasks (0 to 3)"
    assert said in done.stderr
    item = {"prompt": "1 + 1?", "ground_truth": "2", "from": ""}
    (tmp_path / "reasoning.json").write_bytes(BOM_UTF8 + orjson.dumps([item]))
    answers(answer("reasoning", 0, "2"), answer("expression", 0, "是"))
    done = finbench("score", "answers.jsonl", "--suite", "finova", "--dataset", str(tmp_path))
    assert done.returncode == 1
    assert "answers.jsonl:2: index: 0 is no task of expression, which has 0 tasks" in done.stderr


def test_a_dataset_that_is_no_folder_of_tasks_is_named(tmp_path: Path) -> None:
    for name, text, said in (
        ("compliance.json", "[]", "holds no tasks; they are in intent_recognition.json"),
        ("compliance.json", '[{"prompt": 1}]', r"compliance.json: 0\.prompt"),
        ("compliance.json", "{", "compliance.json: "),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(SuiteError, match=said):
            load_suite("finova", tmp_path)
    with pytest.raises(SuiteError, match="is no folder"):
        load_suite("finova", tmp_path / "compliance.json")
    with pytest.raises(SuiteError, match=r"name its folder with --dataset \(finbench fetch finova"):
        load_suite("finova")


SAMPLE_OF = Path(BUILT_IN["finova-sample"])


@pytest.mark.parametrize("at", ["data", "."])
def test_a_clone_of_the_authors_repository_is_a_dataset(at: str, tmp_path: Path) -> None:
    for kind, name in AUTHORS.items():
        file = tmp_path / at / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((SAMPLE_OF / f"{kind}.json").read_bytes())
    suite, ours = load_suite("finova", tmp_path), load_suite("finova-sample")
    assert suite.tasks == ours.tasks
    assert not suite.notes
    (tmp_path / at / AUTHORS["expression"]).unlink()
    (note,) = load_suite("finova", tmp_path).notes
    assert "no tasks of expression (Agent/金融表达.json): the mean is over 5 kinds" in note
    answers(answer("compliance", 1, "否"))
    done = finbench("score", "answers.jsonl", "--suite", "finova", "--dataset", str(tmp_path))
    assert (done.returncode, note in done.stderr) == (0, True)


def test_what_accuracy_does_not_punish_has_figures_of_its_own() -> None:
    tools = '["持仓查询", "基金净值查询", "汇率查询", "财经新闻检索"]'
    answers(answer("tool_planning", 0, tools), answer("slot_filling", 0, "[]"))
    _, metrics = scored()
    assert (metrics["tool_planning"], metrics["tools_exact"]) == (1, 0)
    assert metrics["over_calling"] == 0.5
    gold = load_suite("finova-sample").tasks
    slots = next(task.answer for task in gold if task.id == "slot_filling_0")
    wanted = orjson.loads(slots)
    assert metrics["entity_f1"] == 0
    answers(
        answer("slot_filling", 0, orjson.dumps([*wanted, {"type": "t", "content": "c"}]).decode())
    )
    _, metrics = scored()
    assert metrics["entity_f1"] == pytest.approx(2 * len(wanted) / (2 * len(wanted) + 1), abs=1e-6)
