"""`finbench tasks`, and runs of generated tasks by the solver, as a user runs them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manifests import Catalog
from tests.support.commands import finbench, finbench_in
from tests.support.runs import lines_of
from tests.support.tools import tool

FILE = "tasks.jsonl"

Line = dict[str, Any]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    """Tasks with a number for an answer, whose tools need no worker process to import AkShare."""
    place = tmp_path_factory.mktemp("quick")
    made = finbench_in(*(place, "tasks", "make", "--n", "150", "--difficulty", "1", "--out", FILE))
    assert made.returncode == 0, made.stderr
    catalog = Catalog.load()
    found = [
        line
        for line in lines_of(place / FILE)
        if line["answer"]["kind"] == "number"
        and all(tool(catalog, call["tool"]).source == "rapidapi" for call in line["calls"])
    ]
    assert len(found) >= 6
    return found


def write(lines: list[Line]) -> None:
    Path(FILE).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def run(*arguments: str) -> Any:
    done = finbench("run", "generated", "--agent", "solver", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_oracle_is_right_in_all_tasks_and_solvers_as_often_as_their_mistakes_let_them() -> None:
    made = finbench("tasks", "make", "--n", "15", "--seed", "3", "--out", FILE)
    assert made.returncode == 0, made.stderr
    done = finbench("tasks", "audit", FILE, "--folder", "out/folder")
    rows = [line.split() for line in done.stdout.splitlines()]
    oracle = {row[0]: row[3] for row in rows if row and row[0] in [*"12345"]}
    assert oracle == dict.fromkeys("12345", "100.0%"), done.stdout + done.stderr
    for problem in ("the oracle", "a question stands", "a tool that", "not accepted", "beyond"):
        assert problem not in done.stdout
    assert done.returncode == (0 if ": passes, in " in done.stdout else 1)
    assert Path("out/folder", FILE).read_bytes() == Path(FILE).read_bytes()

    offline = ("--dataset", "out/folder", *OFFLINE)
    for mistakes in ("0", "0.4"):
        found = run(*offline, "--agent-option", f"mistakes={mistakes}", "--out", mistakes)
        figures = [found[name] for name in ("Accuracy", "AboveChance", "StepCredit", "Efficiency")]
        if mistakes == "0":
            assert figures == [1, 1, 1, 1]
        else:
            assert found["AboveChance"] <= found["Accuracy"] < 0.6
            assert found["StepCredit"] > found["Accuracy"], "it has read what it then misreads"
    blind = run(*offline, "--agent-option", "blind=true", "--out", "blind")
    chance = sum(line["answer"].get("chance", 0) for line in lines_of(Path(FILE))) / 15
    assert abs(blind["Accuracy"] - chance) <= 0.15
    assert abs(blind["AboveChance"]) <= 0.15
    assert (blind["StepCredit"], blind["Efficiency"]) == (0, 0)


OFFLINE = ("--mode", "offline", "--snapshot", "out/folder/answers.snapshot")


def test_the_recorded_answers_and_the_simulated_market_give_the_same_run(
    quick: list[Line],
) -> None:
    write(quick[:6])
    audited = finbench("tasks", "audit", FILE, "--folder", "out/folder")
    assert "the oracle" not in audited.stdout, audited.stdout
    refused = finbench("tasks", "audit", FILE, "--folder", "out/folder")
    assert refused.returncode != 0
    assert "exists" in refused.stderr
    mistakes = ("--agent-option", "mistakes=0.3")
    online = run("--dataset", FILE, "--upstream", "simulated", *mistakes, "--out", "online")
    offline = run("--dataset", "out/folder", *OFFLINE, *mistakes, "--out", "offline")
    assert offline["Accuracy"] == online["Accuracy"] < 1
    said = [
        {line["id"]: line["execution_result"] for line in lines_of(Path(of, "episodes.jsonl"))}
        for of in ("online", "offline")
    ]
    assert said[0] == said[1]


def changed_answer(line: Line) -> None:
    line["answer"]["value"] = line["answer"]["value"] * 2 + 1


def changed_program(line: Line) -> None:
    line["program"] = f"1 + 2 * ({line['program']})"


def other_tool(line: Line) -> None:
    line["tools"] = ["stock_zh_a_hist"]


def other_question(line: Line) -> None:
    line["question"] += f" {line['answer']['value']:.10g}"


TAMPERED: dict[Callable[[Line], None], str] = {
    changed_answer: "the oracle is wrong: 1",
    changed_program: "the oracle is wrong: 1",
    other_tool: "a tool that is needed is not offered: 1",
    other_question: "the answer is in the question: 1",
}


@pytest.mark.parametrize("change", TAMPERED, ids=lambda change: change.__name__)
def test_an_audit_tells_of_a_task_that_was_changed(
    change: Callable[[Line], None], quick: list[Line]
) -> None:
    lines: list[Line] = json.loads(json.dumps(quick[:2]))
    change(lines[0])
    write(lines)
    done = finbench("tasks", "audit", FILE)
    assert done.returncode == 1, done.stderr
    assert TAMPERED[change] in done.stdout
    assert lines[0]["id"] in done.stdout
    assert "FAILS" in done.stdout


def test_an_audit_as_json_has_the_figures(quick: list[Line]) -> None:
    write(quick[:2])
    done = finbench("tasks", "audit", FILE, "--json")
    told = json.loads(done.stdout)
    assert told["tasks"] == 2
    assert told["wrong"] == told["problems"] == {}
    assert all(row["oracle"] == 1 for row in told["difficulty"].values())
    assert 0 < told["tools"]["served"] < told["tools"]["all"]


def a_version(line: Line) -> Line:
    return {**line, "world": {**line["world"], "version": 1}}


def a_world(line: Line) -> Line:
    return {**line, "id": "other", "world": {**line["world"], "seed": 9}}


def a_now(line: Line) -> Line:
    return {**line, "world": {**line["world"], "now": "yesterday"}}


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (lambda line: [a_version(line)], f"{FILE}:1: world: the task is about version 1"),
        (lambda line: [line, a_world(line)], "the tasks are about several worlds"),
        (lambda line: [line, line], f"{FILE}:2: question: line 1 asks it too"),
        (lambda line: [{**line, "answer": {}}], f"{FILE}:1: answer.kind"),
        (lambda line: [{**line, "extra": 1}], f"{FILE}:1: extra"),
        pytest.param(
            lambda line: [a_now(line)],
            f"{FILE}:1: world",
        ),
        (lambda _: [], "holds no tasks"),
    ],
    ids=["version", "worlds", "id", "no answer", "extra", "now", "empty"],
)
def test_a_file_that_is_none_of_tasks_is_refused(
    made: Callable[[Line], list[Line]], wanted: str, quick: list[Line]
) -> None:
    write(made(quick[0]))
    done = finbench("tasks", "audit", FILE)
    assert done.returncode == 2, done.stderr
    assert wanted in " ".join(done.stderr.split())


def test_a_line_that_was_cut_off_is_told(quick: list[Line]) -> None:
    write(quick[:3])
    Path(FILE).write_bytes(Path(FILE).read_bytes()[:-100])
    solver = ("run", "generated", "--agent", "solver", "--dataset")
    for command in (("tasks", "audit"), solver):
        done = finbench(*command, FILE)
        assert done.returncode in (1, 2)
        assert f"{FILE}:3: " in done.stderr


def test_the_same_options_make_the_same_file_and_replace_one_only_if_told() -> None:
    make = ("tasks", "make", "--seed", "3", "--n")
    for name in (FILE, "again.jsonl"):
        assert finbench(*make, "12", "--out", name).returncode == 0
    assert Path("again.jsonl").read_bytes() == Path(FILE).read_bytes()
    refused = finbench(*make, "2", "--out", FILE)
    assert refused.returncode == 1
    assert f"{FILE}: it exists already; --force replaces it" in refused.stderr
    assert len(lines_of(Path(FILE))) == 12
    assert finbench(*make, "2", "--out", FILE, "--force").returncode == 0
    assert len(lines_of(Path(FILE))) == 2


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("--difficulty 6", "'6' is none of 1 to 5"),
        ("--difficulty 1..9", "'1..9' is none of 1 to 5"),
        ("--difficulty 3..1", "'3..1' is none of 1 to 5"),
        ("--difficulty 1,x", "'1,x' is none of 1 to 5"),
        ("--difficulty 12", "'12' is none of 1 to 5"),
        ("--difficulty 1..", "'1..' is none of 1 to 5"),
        ("--language fr", "'fr' is not zh, en or zh,en"),
        ("--language zh,zh", "'zh,zh' is not zh, en or zh,en"),
        ("--simulated-now 2019-12-31", "the world's now is a day from 2024-01-02 to 2026-12-31"),
        ("--simulated-now 2027-01-01", "the world's now is a day from 2024-01-02 to 2026-12-31"),
        ("--simulated-now soon", "'soon' does not match"),
        ("--n 0", "0 is not in the range"),
        ("--seed x", "--seed"),
    ],
)
def test_an_option_that_names_no_tasks_is_refused(options: str, wanted: str) -> None:
    done = finbench("tasks", "make", "--n", "2", "--out", FILE, *options.split())
    assert done.returncode == 2
    assert wanted in " ".join(done.stderr.split())
    assert not Path(FILE).exists()


def test_levels_are_chosen_one_by_one_or_from_to() -> None:
    for levels, wanted in (("3", {3}), ("2,4", {2, 4}), ("2..4", {2, 3, 4})):
        make = ("tasks", "make", "--n", "6", "--difficulty", levels, "--out", FILE, "--force")
        assert finbench(*make).returncode == 0
        assert {line["difficulty"] for line in lines_of(Path(FILE))} == wanted


@pytest.mark.parametrize("now", ["2024-01-02", "2024-05-02", "2026-12-31"])
def test_tasks_are_made_about_a_world_of_any_day(now: str) -> None:
    made = finbench("tasks", "make", "--n", "15", "--simulated-now", now, "--out", FILE)
    assert made.returncode == 0, made.stderr
    assert {line["world"]["now"] for line in lines_of(Path(FILE))} == {now}


def test_a_share_of_mistakes_that_is_none_is_refused(quick: list[Line]) -> None:
    write(quick[:1])
    options = ("--agent", "solver", "--agent-option", "mistakes=2")
    refused = finbench("run", "generated", "--dataset", FILE, *options)
    assert refused.returncode == 2
    assert "mistakes is a share from 0 to 1, not 2" in refused.stderr


def test_a_run_over_an_upstream_that_lies_counts_its_lies(quick: list[Line]) -> None:
    write(quick)
    lies = ("--upstream", "simulated", "--simulated-lies", "1")
    done = finbench("run", "generated", "--dataset", FILE, "--agent", "solver", *lies, "--out", "l")
    assert done.returncode == 0, done.stderr
    metrics = json.loads(Path("l/metrics.json").read_text())
    assert sum(metrics["traffic"]["lies"].values()) > 0
    assert metrics["Accuracy"] < 1
