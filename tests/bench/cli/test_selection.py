"""Which tasks `finbench run` plays, and its figures by group, as a user asks for them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.commands import finbench
from tests.support.runs import about, episode, lines_of, write_run

RUN = ("run", "starter", "--upstream", "simulated", "--json")
SAMPLE = ("--tasks", "6", "--stratify", "language", "--seed", "3")


def listed(*options: str, suite: str = "starter") -> list[str]:
    done = finbench("tasks", "list", suite, *options, "--json")
    assert done.returncode == 0, done.stderr
    return [row["id"] for row in json.loads(done.stdout)]


def played(out: str) -> list[str]:
    return sorted(record["id"] for record in lines_of(Path(out, "episodes.jsonl")))


def test_a_run_plays_what_it_chose_and_goes_on_with_nothing_else() -> None:
    done = finbench(*RUN, *SAMPLE, "--repeats", "2", "--by", "language", "--out", "out")
    assert done.returncode == 0, done.stderr
    chosen = listed(*SAMPLE)
    assert played("out") == sorted(chosen * 2)
    run = about("out")
    whole = run["selection"]["of_digest"]
    strata = {"en": 4, "zh": 2}
    assert run["selection"] == {
        "tasks": 6,
        "of": 72,
        "of_digest": whole,
        "seed": 3,
        "stratify": ["language"],
        "strata": strata,
    }
    assert (run["tasks"], run["episodes"]) == (6, 12)
    assert run["suite_digest"] != whole
    by_language = json.loads(done.stdout)["breakdown"]["language"]
    assert {row: of["episodes"] for row, of in by_language.items()} == {"en": 8, "zh": 4}

    again = finbench(*RUN, *SAMPLE, "--repeats", "3", "--resume", "--out", "out")
    assert again.returncode == 0, again.stderr
    assert played("out") == sorted(chosen * 3)
    for other in (("--seed", "3"), ("--tasks", "7", "--seed", "3"), (*SAMPLE[:-1], "4")):
        refused = finbench(*RUN, *other, "--repeats", "2", "--resume", "--out", "out")
        assert refused.returncode == 1
        assert "its parts would not compare: suite_digest was" in refused.stderr

    all_of_them = finbench(*RUN, "--seed", "3", "--out", "all")
    assert all_of_them.returncode == 0, all_of_them.stderr
    assert "selection" not in about("all")
    compared = json.loads(finbench("compare", "out", "all", "--json").stdout)
    assert (compared["tasks"]["common"], compared["tasks"]["only_a"]) == (6, [])
    differing = {one["name"]: one["unfair"] for one in compared["settings"]}
    assert differing["suite_digest"] is None, "other tasks of the same were chosen"


def test_tasks_are_named_on_the_command_line_or_in_a_file() -> None:
    plan = ("run", "starter", "--plan", "--json", "--tasks")
    assert listed("--tasks", "starter_9,starter_2") == ["starter_2", "starter_9"]
    Path("ids.txt").write_bytes(b"\xef\xbb\xbfstarter_9\r\n\n  starter_2\nstarter_2\n")
    assert listed("--tasks", "ids.txt") == ["starter_2", "starter_9"]
    Path("ids.jsonl").write_text('{"task": "starter_9"}\n{"id": "starter_2", "right": true}\n')
    assert listed("--tasks", "ids.jsonl") == ["starter_2", "starter_9"]
    assert finbench(*plan, "ids.jsonl").returncode == 0
    Path("pipe").mkdir()
    Path("bad.jsonl").write_text('{"id": 7}\n')
    Path("torn.jsonl").write_text('{"id": "starter_2"\n')
    Path("no.txt").write_text("\n")
    Path("many.txt").write_text("".join(f"{n}\n" for n in range(20_000)))
    for given, said in (
        ("starter_99", "starter has 72 tasks: no task has the id 'starter_99'; did you mean"),
        ("starter_1,x y", "no task has the id 'x y'"),
        ("gone.txt", "gone.txt: No such file or directory"),
        ("pipe", "pipe: it is not a regular file"),
        ("bad.jsonl", 'bad.jsonl:1: it has no text "id" or "task"'),
        ("torn.jsonl", "torn.jsonl:1: unexpected end of data"),
        ("no.txt", "0 tasks are named: name 1 to 10000"),
        ("many.txt", "many.txt:10001: there are over 10000 ids"),
        ("73", "73 tasks can't be chosen: starter has 72 tasks"),
        ("9" * 5_000, "no task has the id '999"),
    ):
        done = finbench(*plan, given)
        assert (done.returncode, done.stdout) == (2, ""), given
        assert said in done.stderr, given


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--stratify", "language"), "--stratify wants --tasks N, a number of tasks to draw"),
        (("--tasks", "starter_1", "--stratify", "language"), "--stratify wants --tasks N"),
        (("--tasks", "5", "--stratify", "source"), "no field 'source'; it takes language, categ"),
        (("--by", "lang"), "--by: there is no group 'lang'; it takes category, language, source"),
    ],
)
def test_options_that_do_not_fit_are_usage_errors(options: tuple[str, ...], said: str) -> None:
    done = finbench("run", "starter", "--plan", *options)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_task_without_an_id_gets_one_of_its_question() -> None:
    lines = [{"category": "c", "question": f"Which is {n}?", "tools": []} for n in range(3)]
    for file, order in (("mine.jsonl", lines), ("turned.jsonl", lines[::-1])):
        Path(file).write_text("".join(f"{json.dumps(line)}\n" for line in order))
    first = listed("--dataset", "mine.jsonl", suite="mine")
    assert len({*first}) == 3
    assert first == listed("--dataset", "turned.jsonl", suite="mine")[::-1]
    Path("twice.jsonl").write_text(2 * f"{json.dumps(lines[0])}\n")
    done = finbench("tasks", "list", "mine", "--dataset", "twice.jsonl")
    assert done.returncode == 2
    assert "twice.jsonl:2: question: line 1 asks it too; give the two an id each" in done.stderr


def test_figures_by_group_have_intervals_and_old_runs_have_them_too() -> None:
    """Those of a run are made of its records, whatever its `metrics.json` holds."""
    asked = [
        replace(episode(n, repeat=k), question=f"{'问' if n % 3 else 'q'} {n}")
        for n in range(6)
        for k in (0, 1)
    ]
    write_run(Path("old"), asked, suite="starter")
    done = finbench("score", "old", "--by", "language,labelled_tools,difficulty", "--json")
    assert done.returncode == 0, done.stderr
    breakdown = json.loads(done.stdout)["breakdown"]
    rows = breakdown["language"]
    assert {row: (of["episodes"], of["TIR"]) for row, of in rows.items()} == {
        "en": (4, 0.0),
        "zh": (8, 0.0),
    }
    assert rows["zh"]["intervals"]["TIR"] == [0.0, pytest.approx(0.49, abs=0.01)], "of four tasks"
    assert [*breakdown["labelled_tools"]] == ["single"]
    shown = finbench("score", "old", "--by", "language,source,difficulty").stdout
    assert "0 to 49%" in shown
    assert "Source" in shown
    assert "no episode says its difficulty" in shown
    assert "Language" in finbench("score", "old").stdout, "there are two"
    assert finbench("score", "old", "--by", "kind").returncode == 2
