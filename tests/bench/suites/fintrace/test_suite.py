"""FinTrace from end to end: real agents, judge and gateway; model and upstreams are simulated."""

import asyncio
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.models.simulated import ModelFaults
from bench.record import Judgement
from bench.suites import load_suite
from bench.suites.fintrace.judge import RUBRICS
from bench.suites.suite import SuiteError
from manifests import Catalog
from tests.support.commands import finbench
from tests.support.runs import call, episode, lines_of, write_run
from tests.support.simulated_runs import played
from tests.support.tools import tool


def test_a_run_has_all_metrics_and_its_judge_is_compared(catalog: Catalog, tmp_path: Path) -> None:
    """25 episodes each, of tasks whose tools need no worker process to import AkShare, judged by a
    sound and by a faulty model.
    """
    suite = load_suite("fintrace-sample")
    quick = [
        task.id
        for task in suite.tasks
        if all(tool(catalog, call.name).source == "rapidapi" for call in task.tools)
    ]
    suite = suite.selected(quick)
    how: dict[str, Any] = {"judge": "llm", "episodes": 25, "concurrency": 25, "top_k": 0}
    asyncio.run(played(suite, catalog, tmp_path / "a", **how))
    faults = ModelFaults(judge_invalid=0.3)
    asyncio.run(played(suite, catalog, tmp_path / "b", faults=faults, seed=1, **how))
    metrics = json.loads((tmp_path / "a/metrics.json").read_bytes())
    for metric in suite.metrics:
        assert metric.low <= metrics[metric.name] <= metric.high
    assert set(metrics["breakdown"]) == {"difficulty", "category", "language", "source"}
    assert metrics["usage"]["judge"]["model_calls"]["calls"] == 75
    records = lines_of(tmp_path / "a/episodes.jsonl")
    assert {len(r["labelled_arguments"]) - len(r["labelled_tools"]) for r in records} == {0}
    again = finbench("score", str(tmp_path / "a"), "--json")
    assert {m: json.loads(again.stdout)[m] for m in RUBRICS} == {m: metrics[m] for m in RUBRICS}
    runs = (str(tmp_path / "a"), str(tmp_path / "b"))
    compared = json.loads(finbench("compare", "--judges", *runs, "--json").stdout)
    assert set(compared["metrics"]) == set(RUBRICS)
    assert 0 < compared["metrics"]["TaskRelevance"]["episodes"] <= 25
    shown = finbench("compare", "--judges", *runs)
    assert shown.returncode == 0
    assert "kappa" in shown.stdout
    assert finbench("report", runs[0]).returncode == 0
    page = (tmp_path / "a/report.html").read_text()
    assert "execution efficiency" in page
    assert "3.23" in page


GOLD = {
    "id": "g0",
    "category": "coins",
    "difficulty": "easy",
    "query": "What is the price of coin 0?",
    "gold_trajectory": [{"tool": "get_coin", "arguments": {"uuid": "a"}}],
    "reference_answer": "42",
}


OF_GOLD = ("--suite", "fintrace", "--dataset", "gold.jsonl")


def write_gold(**changed: Any) -> None:
    Path("gold.jsonl").write_text(json.dumps({**GOLD, **changed}))  # an integer may be a large one


def scored(source: str, *options: str) -> dict[str, Any]:
    done = finbench("score", source, *OF_GOLD, "--json", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_run_of_another_suite_and_a_trace_of_others_are_scored() -> None:
    write_gold()
    record = replace(episode(0, call(), call()), labelled_tools=[], judgement=None)
    write_run(Path("run"), [record])
    public = {
        "question": GOLD["query"],
        "tool_calls": [
            {"step": 1, "tool_name": "get_coin", "parameters": {"uuid": "a"}, "output": "42"},
            {"step": 2, "tool_name": "get_coin", "parameters": {"uuid": "a"}, "output": "42"},
        ],
        "execution_result": "42",
    }
    Path("trace.jsonl").write_bytes(orjson.dumps(public) + b"\n")
    for source in ("run", "trace.jsonl"):
        metrics = scored(source, "--items", "items.jsonl", "--force")
        assert metrics["ToolCallingF1_arguments"] == pytest.approx(2 / 3, abs=1e-6)
        assert (metrics["StepEfficiency"], metrics["Redundancy"]) == (0.5, 0.5)
        assert metrics["TaskPassRate"] is None
        item = orjson.loads(Path("items.jsonl").read_bytes())
        assert item["right"] is True
        assert item["ToolCallingPrecision"] == 0.5


def test_an_episode_passes_by_an_answer_to_a_known_task() -> None:
    write_gold()
    answered = replace(episode(0, call()), judgement=None)
    silent = replace(answered, execution_result=" ", episode="silent")
    foreign = replace(episode(1, call()), labelled_tools=[], judgement=None)
    write_run(Path("run"), [answered, silent, foreign])
    metrics = scored("run")
    assert (metrics["episodes"], metrics["passed"], metrics["filled"]) == (3, 1, 2)
    told = finbench("score", "run", *OF_GOLD)
    assert "2 of 3 episodes" in told.stdout
    assert "1 of 3 episodes are of no task of fintrace" in told.stderr
    write_run(Path("other"), [foreign])
    other = finbench("score", "other", *OF_GOLD)
    assert "0 answered and called every gold tool" in other.stdout
    assert "1 of 1 episodes are of no task of fintrace" in other.stderr


def test_arguments_count_where_the_gold_has_them() -> None:
    made = replace(call(), tool_name="rates", parameters={"base": "ZAR"})
    record = replace(episode(0, made), labelled_tools=[], judgement=None)
    write_run(Path("run"), [record])
    for trajectory, f1 in (
        ([{"tool": "rates", "arguments": {}}], 0),
        ([{"tool": "rates", "arguments": {"base": "ZAR"}}], 1),
        ([{"tool": "rates"}], None),
        ([{"tool": "rates"}, {"tool": "get_coin", "arguments": {}}], 2 / 3),
    ):
        write_gold(gold_trajectory=trajectory)
        found = scored("run")["ToolCallingF1_arguments"]
        assert found == (f1 and pytest.approx(f1, abs=1e-6))


def test_an_integer_over_64_bits_is_compared_and_recorded() -> None:
    trajectory: list[dict[str, Any]] = [{"tool": "transfer", "arguments": {"wei": 10**21}}]
    write_gold(gold_trajectory=trajectory)
    made = {"step": 1, "tool_name": "transfer", "parameters": {"wei": 10**21}, "output": "42"}
    lines = [{"question": GOLD["query"], "tool_calls": [made, made][:n]} for n in (1, 2)]
    Path("trace.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    f1 = scored("trace.jsonl", "--out", "out.jsonl")["ToolCallingF1_arguments"]
    assert f1 == pytest.approx((1 + 2 / 3) / 2, abs=1e-6)
    judged = [record["labelled_arguments"] for record in lines_of("out.jsonl")]
    assert judged == [[{"wei": 1e21}]] * 2
    trajectory[0]["arguments"] = {"wei": int("9" * 400)}
    write_gold(gold_trajectory=trajectory)
    with pytest.raises(SuiteError, match=r"gold\.jsonl:1: arguments: .*infinity"):
        load_suite("fintrace", Path("gold.jsonl"))


def test_what_is_no_trace_of_this_suite_is_refused() -> None:
    Path("answers.jsonl").write_bytes(orjson.dumps({"task": "x", "index": 0, "answer": "1"}))
    done = finbench("score", "answers.jsonl")
    assert done.returncode == 1
    assert "name --suite finova" in done.stderr
    judgements = [Judgement("a", "x", by_metric={"M": [1.0]}), Judgement("b", "x", invalid=3)]
    for name, judgement in zip("ab", judgements, strict=True):
        write_run(Path(name), [replace(episode(0), judgement=judgement)])
    compared = finbench("compare", "--judges", "a", "b")
    assert compared.returncode == 1
    assert "no episode has valid scores of both judges" in compared.stderr


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"gold_trajectory": []}, r"gold\.jsonl:1: gold_trajectory"),
        ({"id": ""}, r"gold\.jsonl:1: id"),
        ({"gold_trajectory": [{"name": "a"}]}, r"gold\.jsonl:1: gold_trajectory\.0\.tool"),
        ({"answr": "42"}, r"gold\.jsonl:1: answr"),
        ({"query": None}, r"gold\.jsonl:1: query"),
    ],
)
def test_a_line_that_is_no_task_is_named(changed: dict[str, Any], said: str) -> None:
    write_gold(**changed)
    with pytest.raises(SuiteError, match=said):
        load_suite("fintrace", Path("gold.jsonl"))


def test_the_datasets_name_and_judge_are_asked_for() -> None:
    done = finbench("run", "fintrace", "--upstream", "simulated", "--out", "out")
    assert done.returncode == 2
    assert "name its file with --dataset" in done.stdout + done.stderr
    done = finbench("compare", "--judges", "nothing.jsonl", "none")
    assert done.returncode == 2
    Path("one.jsonl").write_bytes(orjson.dumps(asdict(replace(episode(0), judgement=None))) + b"\n")
    done = finbench("compare", "--judges", "one.jsonl", "one.jsonl")
    assert done.returncode == 1
    assert "one.jsonl: no episode is judged" in done.stdout + done.stderr
