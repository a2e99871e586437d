"""`finbench compare`: which tasks flipped, and how sure one can be that it was not chance."""

import json
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.analysis.compare import Run, compare
from bench.analysis.significance import mcnemar, mean_interval
from bench.cli.main import main
from bench.record import EpisodeRecord, ModelCallRecord, ToolVerdict
from bench.suites.fintoolbench.suite import LabelledTasks
from tests.support.runs import call, episode, failing, write_run

TASKS = 295


def compared(
    a: Iterable[EpisodeRecord], b: Iterable[EpisodeRecord], tmp_path: Path, **options: Any
) -> dict[str, Any]:
    runs = Run(write_run(tmp_path / "a", a)), Run(write_run(tmp_path / "b", b))
    return compare(*runs, **options)


def finbench(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


def known() -> list[EpisodeRecord]:
    """295 tasks of which every third fails."""
    return [episode(n, call()) if n % 3 else failing(n) for n in range(TASKS)]


@pytest.mark.parametrize(("lost", "won", "p"), [(5, 0, 0.0625), (4, 1, 0.375), (0, 5, 0.0625)])
def test_the_tasks_that_flipped_are_named_and_weighed(
    tmp_path: Path, lost: int, won: int, p: float
) -> None:
    after = known()
    to_fail, to_pass = (1, 2, 4, 5, 7)[:lost], (0, 3, 6, 9, 12)[:won]
    for n in to_fail:
        after[n] = failing(n, "unknown_tool")
    for n in to_pass:
        after[n] = episode(n, call())
    result = compared(known(), after, tmp_path)
    flips = {flip["id"]: (flip["flip"], flip["a"], flip["b"]) for flip in result["flips"]}
    assert flips == {
        **{f"task_{n}": ("pass to fail", "answer", "answer, unknown_tool") for n in to_fail},
        **{f"task_{n}": ("fail to pass", "answer, invalid_arguments", "answer") for n in to_pass},
    }
    first = result["flips"][0]
    assert (first["category"], first["infrastructure"]) == (f"category {first['id'][5:]}", False)
    assert first["question"] == f"What is the price of coin {first['id'][5:]}?"
    tesr = result["metrics"]["TESR"]
    assert tesr["p"] == p
    assert (tesr["only_a"], tesr["only_b"], tesr["tasks"]) == (lost, won, TASKS)
    assert tesr["both"] + tesr["neither"] == TASKS - 5
    assert tesr["difference"] == pytest.approx((won - lost) / TASKS, abs=1e-6)
    low, high = tesr["interval"]
    assert low <= tesr["difference"] <= high
    assert high - low < 0.04
    assert result["tasks"] == {"common": TASKS, "only_a": [], "only_b": []}
    assert result["settings"] == []


def test_a_run_is_like_itself(tmp_path: Path) -> None:
    result = compared(known(), known(), tmp_path)
    assert result["flips"] == []
    shares = {f"{one.name}{net}" for one in LabelledTasks.measures for net in ("", "_net")}
    shares.add("cache_hit_rate")
    for name, found in result["metrics"].items():
        if found["tasks"]:
            assert (found["difference"], found.get("p", 1)) == (0, 1), name
            # other tasks of the same kind might differ; of a number without bounds nothing is known
            ends = [pytest.approx(-0.0094, abs=1e-4), pytest.approx(0.0094, abs=1e-4)]
            assert found["interval"] == (ends if name in shares else None), name
    assert result["metrics"]["TIR"]["a"] == 1
    assert result["metrics"]["TMR"] == {
        "tasks": 0,
        "a": None,
        "b": None,
        "difference": None,
        "interval": None,
        "both": 0,
        "only_a": 0,
        "only_b": 0,
        "neither": 0,
        "p": None,
    }


def test_runs_without_a_common_task_are_refused(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [episode(n, call()) for n in (1, 2)])
    for name, other, said in (
        ("b", [episode(3, call())], f"no task is in both runs: {a} has 2 tasks of known and "),
        ("c", [episode(1, call(), repeat=4)], "no repeat of a task is in both runs: "),
        ("d", [], "has 0 tasks of known"),
    ):
        done = finbench(a, write_run(tmp_path / name, other), "--json")
        assert (done.exit_code, done.stdout) == (2, "")
        assert said in " ".join(done.stderr.split())


def test_a_flip_through_infrastructure_is_told_apart(tmp_path: Path) -> None:
    after = known()
    after[1] = failing(1, "quota_exhausted", "quota")
    after[2] = failing(2, "overloaded", "gateway")
    after[4] = episode(4, ending="model_error", error="model: gone")
    after[5] = failing(5)
    result = compared(known(), after, tmp_path)
    flips = {flip["id"]: (flip["infrastructure"], flip["b"]) for flip in result["flips"]}
    assert flips == {
        "task_1": (True, "answer, quota_exhausted"),
        "task_2": (True, "answer, overloaded"),
        "task_4": (True, "model_error, no call"),
        "task_5": (False, "answer, invalid_arguments"),
    }
    whole, net = (result["metrics"][name] for name in ("TESR", "TESR_net"))
    assert (whole["only_a"], whole["tasks"]) == (4, TASKS)
    assert (net["only_a"], net["tasks"]) == (1, TASKS - 3)
    assert (whole["p"], net["p"]) == (0.125, 1)
    assert (result["metrics"]["TIR"]["only_a"], result["metrics"]["TIR_net"]["only_a"]) == (1, 0)


def test_repeats_of_a_task_stay_together(tmp_path: Path) -> None:
    """Task 0 passes 2 of 3 times, then 1 of 3; task 1 once of twice, which is not most."""

    def runs(*passed: tuple[int, int, bool]) -> list[EpisodeRecord]:
        return [
            replace(episode(n, call()) if ok else failing(n), repeat=repeat)
            for n, repeat, ok in passed
        ]

    a = runs((0, 0, True), (0, 1, True), (0, 2, False), (1, 0, True), (1, 1, False))
    b = runs((0, 0, True), (0, 1, False), (0, 2, False), (1, 0, True), (1, 1, False), (1, 2, True))
    result = compared(a, b, tmp_path)
    assert result["episodes"] == {"common": 5, "only_a": 0, "only_b": 1}
    tesr = result["metrics"]["TESR"]
    assert tesr["a"] == pytest.approx((2 / 3 + 1 / 2) / 2, abs=1e-6)
    assert tesr["b"] == pytest.approx((1 / 3 + 1 / 2) / 2, abs=1e-6)
    assert (tesr["both"], tesr["only_a"], tesr["only_b"], tesr["neither"]) == (0, 1, 0, 1)
    (flip,) = result["flips"]
    assert (flip["a"], flip["b"]) == ("2/3 answer", "1/3 answer, invalid_arguments")


def test_scores_and_marks_count_where_both_were_judged(tmp_path: Path) -> None:
    def judged(n: int, scores: list[float], timeliness: bool | None) -> EpisodeRecord:
        found = episode(n, call(), scores=scores)
        assert found.judgement is not None
        found.judgement.tools = [ToolVerdict("get_coin", timeliness=timeliness)]
        return found

    a = [judged(0, [1, 1, 0.5], True), judged(1, [0.5], True), judged(2, [], None)]
    b = [judged(0, [0, 0.5, 0], False), judged(1, [1], True), judged(2, [1], False)]
    metrics = compared(a, b, tmp_path)["metrics"]
    soft = metrics["SoftScore"]
    assert soft["tasks"] == 2
    assert soft["difference"] == pytest.approx(((0.5 - 2.5) / 3 + 0.5) / 2, abs=1e-6)
    assert soft["interval"] == [-1, 1]
    tmr = metrics["TMR"]
    assert (tmr["tasks"], tmr["only_b"], tmr["p"]) == (3, 2, 0.5)
    for side, records in (("a", a), ("b", b)):  # an episode without a verdict is not marked
        scored = LabelledTasks.new_metrics()
        for record in records:
            scored.add(record, record.last_round)
        rates = scored.rates()
        assert (rates["TMR"], rates["denominators"]["TMR"]) == (tmr[side], tmr["tasks"])
    assert metrics["IMR"]["tasks"] == 0


def test_what_it_took_is_compared(tmp_path: Path) -> None:
    def costly(n: int, extra: int) -> EpisodeRecord:
        asked = ModelCallRecord(1, "act", "m", 0.0, 1.0, input_tokens=100 + extra, output_tokens=9)
        calls = [call(step) for step in range(1, 2 + extra)]
        found = episode(n, *calls, model_calls=[asked])
        return replace(found, elapsed_ms=1_000.0 * (1 + extra))

    a, b = ([costly(n, extra * (n % 2)) for n in range(100)] for extra in (0, 2))
    metrics = compared(a, b, tmp_path, only=["tokens", "calls", "rounds", "wall_s"])["metrics"]
    assert list(metrics) == ["calls", "rounds", "tokens", "wall_s"]
    for name, difference in (("tokens", 1), ("calls", 1), ("rounds", 1), ("wall_s", 1)):
        assert metrics[name]["difference"] == pytest.approx(difference), name
        low, high = metrics[name]["interval"]
        assert 0.7 < low < 1 < high < 1.3
    assert metrics["tokens"]["a"] == 109


def test_times_have_the_share_of_cached_answers_beside_them(tmp_path: Path) -> None:
    warm = [replace(call(step), source=source) for step, source in ((1, "cached"), (2, "stale"))]
    write_run(tmp_path / "a", [episode(n, call(), call(2)) for n in range(9)])
    about = {"upstream": "simulated", "agent_is_simulated": True}
    write_run(tmp_path / "b", [episode(n, *warm[n % 2 :]) for n in range(9)], **about)
    result = compare(Run(tmp_path / "a"), Run(tmp_path / "b"))
    names = list(result["metrics"])
    assert names[names.index("wall_s") + 1] == "cache_hit_rate"
    assert [result["metrics"]["cache_hit_rate"][side] for side in ("a", "b")] == [0, 1]
    done = finbench(tmp_path / "a", tmp_path / "b")
    assert "cache_hit_rate: answers from the cache, of all answers" in done.stdout
    said = "answers are simulated, so no figure tells of real tools; the agent is scripted, so none"
    assert done.stderr == f"finbench: {tmp_path / 'b'}: {said} tells of a model\n"


def test_tasks_of_one_run_only_and_settings_that_differ_are_told(tmp_path: Path) -> None:
    asked = [replace(episode(n, call()), question=f"[red]宏观[/red] <img> {n}") for n in range(30)]
    write_run(tmp_path / "a", asked[:20])
    other = [replace(failing(2), question=asked[2].question), *asked[3:]]
    differing = {"suite_digest": "d2", "top_k": 20, "judge": "llm:x", "model": "[bold]m"}
    differing["judge_base_url"] = "http://b/v1"
    write_run(tmp_path / "b", other, **differing)
    done = finbench(tmp_path / "a", tmp_path / "b")
    assert done.exit_code == 0, done.output
    assert "tasks in both: 18" in done.output
    assert "tasks only in A: 2: task_0, task_1" in done.output
    assert "tasks only in B: 10: task_20, task_21" in done.output
    assert "not alike: tasks of the same question may differ (suite_digest)" in done.output
    assert "scores and marks come from different judges (judge, judge_base_url)" in done.output
    assert "agents were offered other tools (top_k)" in done.output
    assert "[bold]m" in done.output
    assert "pass to fail: 1, without infrastructure 1" in done.output
    assert "fail to pass: 0" in done.output

    chosen = ("--json", "--metric", "TESR")
    first, second = (finbench(tmp_path / "a", tmp_path / "b", *chosen).stdout for _ in range(2))
    assert first == second
    result = json.loads(first)
    assert list(result["metrics"]) == ["TESR", "TESR_net"]
    assert result["tasks"]["only_b"] == sorted(f"task_{n}" for n in range(20, 30))
    assert {s["name"]: s["b"] for s in result["settings"]} == differing


def test_what_is_no_run_and_what_is_torn(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", known(), ended="interrupted")
    with (run / "episodes.jsonl").open("ab") as file:
        file.write(b'{"episode": "task_9')
    assert sum(map(len, Run(run).rows.values())) == TASKS
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = finbench(run, empty)
    assert (refused.exit_code, "holds no run: run.json" in refused.output) == (1, True)
    assert finbench(run, tmp_path / "missing").exit_code == 2
    wrong = finbench(run, run, "--metric", "F1")
    assert (wrong.exit_code, "there are: TESR, TIR" in wrong.output) == (2, True)
    with (run / "episodes.jsonl").open("ab") as file:
        file.write(b'"}\n')
    refused = finbench(run, run)
    assert (refused.exit_code, "episodes.jsonl:296: not a record: " in refused.output) == (1, True)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_binomial_test(only_a: int, only_b: int) -> None:
    """The two-sided binomial test by its definition: all outcomes no more likely than this one."""
    n = only_a + only_b
    as_odd = (comb(n, k) for k in range(n + 1) if comb(n, k) <= comb(n, only_a))
    p = mcnemar(only_a, only_b)
    assert p == pytest.approx(float(Fraction(sum(as_odd), 2**n)), rel=1e-12)
    assert 0 < p <= 1
    assert p == mcnemar(only_b, only_a)


@given(st.integers(1_001, 3_000), st.integers(0, 200))
@settings(max_examples=10)
def test_mcnemar_of_many_is_as_exact(n: int, off: int) -> None:
    fewer = max(n // 2 - off, 0)
    tail = Fraction(2 * sum(comb(n, k) for k in range(fewer + 1)), 2**n)
    assert mcnemar(fewer, n - fewer) == pytest.approx(min(1.0, float(tail)), rel=1e-9)


@pytest.mark.parametrize(
    ("differences", "most", "interval"),
    [
        ([], 1.0, None),
        ([0.0], 1.0, (-1.0, 1.0)),
        ([0.0] * 10, 1.0, (-0.271, 0.271)),
        ([1.0] * 10, 1.0, (0.445, 1.0)),  # Wilson's of 10 of 10
        ([3.0], None, None),
        ([3.0, 3.0], None, None),
        ([1.0, 2.0, 3.0, 4.0, 5.0], None, (1.042, 4.958)),  # 3 +- 2.7764 sqrt(2.5 / 5)
    ],
)
def test_the_interval_of_a_difference_has_a_width(
    differences: list[float], most: float | None, interval: tuple[float, float] | None
) -> None:
    found = mean_interval(differences, most)
    assert found == (None if interval is None else pytest.approx(interval, abs=6e-3))


def test_tasks_are_paired_by_their_question_and_never_by_an_id_of_another(tmp_path: Path) -> None:
    """As where a dataset was reordered, which counts its questions."""
    first = [episode(n, call()) for n in range(12)]
    moved = [
        replace(one, id=f"task_{n}", episode=f"task_{n}.0")
        for n, one in enumerate([*(episode(n, call()) for n in range(1, 12)), failing(30)])
    ]
    moved[0] = replace(moved[0], ground_truth="43")
    result = compared(first, moved, tmp_path)
    assert result["flips"] == [], "task_11 of B asks something else, which failed"
    tasks = result["tasks"]
    assert (tasks["common"], tasks["only_a"], tasks["only_b"]) == (11, ["task_0"], ["task_11"])
    assert tasks["other_questions"] == sorted(f"task_{n}" for n in range(12))
    assert tasks["other_ids"] == sorted(f"task_{n}" for n in range(1, 12))
    assert tasks["other_solutions"] == ["task_1"]
    done = finbench(tmp_path / "a", tmp_path / "b")
    assert "ids of another question in each run, which are no pair: 12: task_0" in done.stdout
    assert "with another gold answer or other labels in B: 1: task_1" in done.stdout

    alike = [replace(one, question="the same") for one in moved]
    done = finbench(tmp_path / "a", write_run(tmp_path / "c", alike))
    assert done.exit_code == 2, "which of them is meant is not known"
    assert "12 ids stand for another question" in " ".join(done.stderr.split())


def test_rows_of_groups_are_compared_with_corrected_p_values(tmp_path: Path) -> None:
    def asked(n: int, one: EpisodeRecord) -> EpisodeRecord:
        question = f"价格 {n}" if n % 2 else one.question
        return replace(one, question=question, difficulty="hard" if n < 5 else "easy")

    before = [asked(n, failing(n) if n % 2 else episode(n, call())) for n in range(40)]
    after = [asked(n, episode(n, call())) for n in range(40)]
    write_run(tmp_path / "a", before)
    write_run(tmp_path / "b", after)
    done = finbench(tmp_path / "a", tmp_path / "b", "--by", "language,difficulty", "--json")
    groups = json.loads(done.stdout)["groups"]
    zh, en = groups["language"]["zh"]["TESR"], groups["language"]["en"]["TESR"]
    assert (zh["tasks"], zh["difference"], en["tasks"], en["difference"]) == (20, 1, 20, 0)
    # three rows have enough tasks; the smallest p-value counts three times
    assert zh["p"] == pytest.approx(3 * mcnemar(0, 20))
    assert groups["difficulty"]["easy"]["TESR"]["p"] == pytest.approx(2 * mcnemar(0, 17 + 1))
    assert groups["difficulty"]["hard"]["TESR"]["p"] is None
    table = finbench(tmp_path / "a", tmp_path / "b", "--by", "language,difficulty").stdout
    assert table.count("too few") >= 1
    assert "corrected by Holm's method" in " ".join(table.split())
    done = finbench(tmp_path / "a", tmp_path / "b", "--by", "languages")
    assert done.exit_code == 2
    assert (
        "no group 'languages'; did you mean language?; it takes category, language" in done.stderr
    )


def test_judges_of_different_questions_are_no_pair(tmp_path: Path) -> None:
    scored = [episode(n, call(), scores=[n % 2]) for n in range(8)]
    write_run(tmp_path / "a", scored)
    other = replace(scored[3], question="Which other coin?")
    write_run(tmp_path / "b", [*scored[:3], other, *scored[4:]])
    done = finbench(tmp_path / "a", tmp_path / "b", "--judges", "--json")
    assert json.loads(done.stdout)["metrics"]["score"]["episodes"] == 7
    assert "1 episodes have another question in each, and are no pair: task_3.0" in done.stderr
