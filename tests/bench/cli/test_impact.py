"""`finbench drift impact`: what a run's scores owe to the answers of tools, over real snapshots."""

import json
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.analysis.significance import mcnemar
from cache import Row, Snapshot
from cache.snapshot import JOURNAL
from tests.support.commands import FINBENCH, finbench, finbench_in
from tests.support.rows import answering, refusing, rewritten

EPISODES = 216


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of three repeats, and its snapshot."""
    folder = tmp_path_factory.mktemp("impact")
    recorded = finbench_in(
        folder,
        *("run", "starter", "--mode", "record", "--snapshot", "a.snap", "--upstream", "simulated"),
        *("--episodes", str(EPISODES), "--seed", "4", "--out", "run", "--json"),
        *("--max-output-tokens", "100"),
    )
    assert recorded.returncode == 0, recorded.stderr
    return folder


@pytest.fixture(scope="module")
def calls(folder: Path) -> list[dict[str, Any]]:
    """The calls that tools answered."""
    return [call for call in records(folder / "run" / "calls.jsonl") if call["ok"]]


@pytest.fixture(scope="module")
def tools(calls: list[dict[str, Any]]) -> list[str]:
    """30 of the tools that answered, drawn once."""
    return random.Random(2).sample(sorted({call["tool"] for call in calls}), 30)


@pytest.fixture(scope="module")
def broken(folder: Path, tools: list[str]) -> Path:
    """The snapshot in which these tools fail."""

    def change(row: Row) -> Row:
        return refusing(row) if row.tool in tools else row

    return rewritten(folder / "a.snap", folder / "broken.snap", change)


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def impact(run: Path, a: Path, b: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return finbench("drift", "impact", str(run), "--snapshots", str(a), str(b), *words)


def found(folder: Path, a: str, b: Path | str, *words: str) -> dict[str, Any]:
    done = impact(folder / "run", folder / a, folder / b, *words, "--json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_exactly_the_episodes_whose_calls_changed_are_named(
    folder: Path, calls: list[dict[str, Any]], tools: list[str]
) -> None:
    """Some calls of the 30 tools keep their answers."""
    kept: set[tuple[str, str]] = set()

    def change(row: Row) -> Row:
        if row.tool not in tools:
            return row
        if len(kept) < 8 and row.arguments:
            kept.add((row.tool, json.dumps(dict(row.arguments), sort_keys=True)))
            return row
        return answering(row, "another answer")

    b = rewritten(folder / "a.snap", folder / "other.snap", change)
    expected: dict[str, Counter[str]] = {}
    for call in calls:
        arguments = json.dumps(call["arguments"], sort_keys=True)
        if call["tool"] in tools and (call["tool"], arguments) not in kept:
            expected.setdefault(call["episode"], Counter())[call["tool"]] += 1
    assert len(kept) == 8
    assert len(expected) > 20
    ways = [found(folder, "a.snap", b), found(folder, b.name, folder / "a.snap")]
    for way in ways:
        assert {c["episode"]: c["tools"] for c in way["episodes"]["changes"]} == expected
        assert not any(change["outcome"] for change in way["episodes"]["changes"])
        changed = sum(counter.total() for counter in expected.values())
        assert (way["calls"]["changed"], way["calls"]["other_answer"]) == (changed, changed)
        assert way["calls"]["same"] == len(calls) - changed
        same = EPISODES - len(expected)
        shares = way["reproducibility"]
        assert (shares["episodes"]["same"], shares["episodes"]["of"]) == (same, EPISODES)
        low, high = shares["episodes"]["interval"]
        assert low < same / EPISODES < high
        assert shares["calls"]["share"] == round((len(calls) - changed) / len(calls), 6)
        assert shares["outcomes"]["share"] == 1
        assert {m["difference"] for m in way["metrics"].values() if m["tasks"]} == {0}
    rows = [(row["tool"], row["changed"]) for row in ways[0]["calls"]["tools"]]
    counted = sum(expected.values(), Counter[str]())
    assert {tool: n for tool, n in rows if n} == counted
    assert [n for _, n in rows] == sorted((n for _, n in rows), reverse=True)


def test_errors_change_outcomes_as_a_comparison_of_the_runs_says(
    folder: Path, tools: list[str], broken: Path
) -> None:
    failing = {}
    for record in records(folder / "run" / "episodes.jsonl"):
        last = max((call["step"] for call in record["tool_calls"]), default=0)
        final = [call for call in record["tool_calls"] if call["step"] == last]
        if final and not record["error"] and all(call["ok"] for call in final):
            failing[record["episode"]] = any(call["tool_name"] in tools for call in final)
    expected = {episode for episode, fails in failing.items() if fails}
    result = found(folder, "a.snap", broken, "--out", "kept")
    changes = result["episodes"]["changes"]
    outcomes = {c["episode"]: c["outcome"] for c in changes if "TESR" in c["outcome"]}
    assert outcomes.keys() == expected
    assert {tuple(outcome["TESR"]) for outcome in outcomes.values()} == {(1.0, 0.0)}
    assert result["episodes"]["changed_outcomes_without_a_changed_call"] == 0
    assert result["calls"]["now_fails"] == result["calls"]["changed"] > 0
    compared = json.loads(finbench("compare", "kept/a", "kept/b", "--json").stdout)
    for name, metric in result["metrics"].items():
        assert metric == compared["metrics"][name]
    assert result["flips"] == compared["flips"]
    tesr = result["metrics"]["TESR"]
    assert tesr["only_a"] == sum(flip["flip"] == "pass to fail" for flip in result["flips"]) > 0
    assert (tesr["only_b"], tesr["p"]) == (0, mcnemar(tesr["only_a"], 0))
    back = found(folder, broken.name, "a.snap")
    assert back["calls"]["now_answers"] == result["calls"]["now_fails"]
    assert back["metrics"]["TESR"]["only_b"] == tesr["only_a"]
    assert {c["episode"] for c in back["episodes"]["changes"]} == {c["episode"] for c in changes}
    abouts = [json.loads(Path("kept", side, "run.json").read_text()) for side in "ab"]
    assert [about["limits"]["output_tokens"] for about in abouts] == [100, 100]
    with Snapshot(folder / "a.snap") as a, Snapshot(broken) as b:
        ids = [result[side]["id"] for side in "ab"]
        assert [about["snapshot"] for about in abouts] == [a.id, b.id] == ids


def test_calls_that_a_snapshot_lacks_are_no_drift(
    folder: Path, calls: list[dict[str, Any]], tools: list[str], tmp_path: Path
) -> None:
    def change(row: Row) -> Row | None:
        return None if row.tool in tools[:5] else row

    b = rewritten(folder / "a.snap", tmp_path / "b.snap", change)
    done = impact(folder / "run", folder / "a.snap", b, "--json", "--fail-under", "1")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    missing = [call for call in calls if call["tool"] in tools[:5]]
    left_out = {call["episode"] for call in missing}
    assert (result["calls"]["missing_a"], result["calls"]["missing_b"]) == (0, len(missing))
    assert result["episodes"]["compared"] == EPISODES - len(left_out)
    assert (result["calls"]["changed"], result["episodes"]["changes"]) == (0, [])
    assert result["reproducibility"]["outcomes"]["of"] == EPISODES - len(left_out)
    assert f"{len(missing)} calls are not in {b}, which is no drift" in done.stderr
    assert f"--calls {folder / 'run'}/calls.jsonl --out NEW" in done.stderr


def test_nothing_in_common_is_a_failure(folder: Path, tmp_path: Path) -> None:
    def change(row: Row) -> Row:
        return Row("get_coin", "0" * 16, {"n": row.tool}, row.status, row.entry)

    b = rewritten(folder / "a.snap", tmp_path / "b.snap", change)
    done = impact(folder / "run", folder / "a.snap", b)
    assert done.returncode == 1
    assert "no call of the run is in both snapshots, so the figures say nothing" in done.stderr


def test_the_same_snapshot_twice_changes_nothing(folder: Path) -> None:
    done = impact(folder / "run", folder / "a.snap", folder / "a.snap", "--fail-under", "1")
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("replay on ")]
    assert said == [], "but for the progress, where that takes long"
    row = next(line for line in done.stdout.splitlines() if "with the same outcome" in line)
    assert row.split()[-5:] == ["216", "100.0%", "98.3%", "to", "100.0%"]


def test_the_table_and_the_limit(folder: Path, tools: list[str], broken: Path) -> None:
    done = impact(folder / "run", folder / "a.snap", broken, "--fail-under", "0.999")
    assert done.returncode == 1
    assert "of the episodes are the same, fewer than 99.9%" in done.stderr
    said = done.stdout
    assert "now fails" in said
    assert "other answer" not in said  # a column without a figure is left out
    assert "and 10 more tools; --json has them all" in said
    assert sum(line.split()[:1] == [tool] for line in said.splitlines() for tool in tools) == 20
    assert "TESR_net" in said
    assert "wall_s" not in said


def test_a_run_whose_files_changed_or_that_was_interrupted_is_told(
    folder: Path, calls: list[dict[str, Any]], tmp_path: Path
) -> None:
    run = shutil.copytree(folder / "run", tmp_path / "run")
    lines = (run / "episodes.jsonl").read_text().splitlines(keepends=True)
    (run / "episodes.jsonl").write_text("".join(lines[:100]))
    done = impact(run, folder / "a.snap", folder / "a.snap", "--json")
    assert done.returncode == 0
    assert "the files are not those that the run left" in done.stderr
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "ended": "interrupted"}))
    done = impact(run, folder / "a.snap", folder / "a.snap", "--json")
    assert done.returncode == 0
    assert "the run was interrupted: only the episodes that it finished count" in done.stderr
    result = json.loads(done.stdout)
    assert result["episodes"]["compared"] == result["episodes"]["episodes"] == 100
    there = {json.loads(line)["episode"] for line in lines[:100]}
    assert result["calls"]["same"] == sum(call["episode"] in there for call in calls)


def test_metrics_that_want_a_judge_are_left_out_and_named(folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(folder / "run", tmp_path / "run")
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "judge": "llm:some-model"}))
    done = impact(run, folder / "a.snap", folder / "a.snap", "--json")
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert result["notes"] == [
        "no judge, so SoftScore, CSS, TMR, IMR, DMR are left out; the run's was llm:some-model: "
        "name it with --judge"
    ]
    assert result["metrics"]["DMR"]["tasks"] == 0 < result["metrics"]["TESR"]["tasks"]
    judged = impact(run, folder / "a.snap", folder / "a.snap", "--json", "--judge", "rules")
    assert json.loads(judged.stdout)["metrics"]["DMR"]["tasks"] > 0


def test_what_can_not_be_compared_is_said(folder: Path, tmp_path: Path) -> None:
    run, a = folder / "run", folder / "a.snap"
    journal = tmp_path / "b.snap.journal"
    journal.write_bytes(JOURNAL + b"simulated\n")
    done = impact(run, a, journal)
    assert done.returncode == 1
    assert "a recording that has not ended; `finport snapshot merge` reads it" in done.stderr
    assert impact(run, a, run / "run.json").returncode == 1
    assert impact(run, a, tmp_path / "none.snap").returncode == 2
    none = impact(tmp_path, a, a)
    assert none.returncode == 1
    assert "holds no run" in none.stderr
    for words, why in (
        (("--resume",), "--resume wants --out DIR"),
        (("--judge-model", "m"), "--judge-model wants --judge"),
        (("--fail-under", "2"), "2.0 is not in the range"),
    ):
        wrong = impact(run, a, a, *words)
        assert wrong.returncode == 2
        assert why in wrong.stderr
    Path("kept/b").mkdir(parents=True)
    taken = impact(run, a, a, "--out", "kept")
    assert taken.returncode == 2
    assert "kept/b: it exists already; --resume goes on with it" in taken.stderr


def test_a_damaged_row_ends_the_comparison(folder: Path, tmp_path: Path) -> None:
    b = Path(shutil.copy(folder / "a.snap", tmp_path / "b.snap"))
    b.chmod(0o644)
    data = bytearray(b.read_bytes())
    for place in range(200, len(data) // 2, 400):
        data[place] ^= 1
    b.write_bytes(data)
    done = impact(folder / "run", folder / "a.snap", b)
    assert done.returncode == 1
    assert f"{b}: the row at byte" in done.stderr


def test_other_tasks_than_the_runs_are_refused(folder: Path, tmp_path: Path) -> None:
    tasks = Path("bench/suites/starter.jsonl")
    own = tmp_path / "tasks.jsonl"
    source = next(p for p in Path(__file__).parents if (p / tasks).exists()) / tasks
    own.write_text("\n".join(source.read_text().splitlines()[:4]) + "\n")
    done = impact(folder / "run", folder / "a.snap", folder / "a.snap", "--dataset", str(own))
    assert done.returncode == 2
    assert "name the file of the run's tasks with --dataset" in " ".join(done.stderr.split())
    offline = ("--mode", "offline", "--snapshot", str(folder / "a.snap"))
    run = finbench(
        "run", "mine", "--dataset", str(own), *offline, "--tasks", "2", "--out", "mine", "--json"
    )
    assert run.returncode == 0, run.stderr
    missing = impact(Path("mine"), folder / "a.snap", folder / "a.snap")
    assert missing.returncode == 2
    given = impact(Path("mine"), folder / "a.snap", folder / "a.snap", "--dataset", str(own))
    assert given.returncode == 0, given.stderr


def test_ctrl_c_removes_the_replayed_runs_or_says_how_to_go_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(folder / "run", tmp_path / "run")
    lines = records(run / "episodes.jsonl")
    with (run / "episodes.jsonl").open("w") as file:
        for repeat in range(60):
            for line in lines:
                again = line["repeat"] + 3 * repeat
                played = {**line, "episode": f"{line['id']}.{again}", "repeat": again}
                file.write(json.dumps(played) + "\n")
    about = json.loads((run / "run.json").read_text())
    changed = {**about, "episodes": 60 * EPISODES, "ended": "interrupted"}
    (run / "run.json").write_text(json.dumps(changed))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    words = ("drift", "impact", "run", "--snapshots", *2 * (str(folder / "a.snap"),))
    for out, said in (((), "nothing of it is kept"), (("--out", "kept"), "--resume goes on")):
        process = subprocess.Popen(
            [*FINBENCH, *words, *out], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        while process.poll() is None and not any(
            file.stat().st_size for file in tmp_path.glob("*/**/a/episodes.jsonl")
        ):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert said in errors
        assert "Traceback" not in errors
        assert [*(tmp_path / "tmp").iterdir()] == []
    kept = json.loads(Path("kept/a/run.json").read_text())
    assert kept["ended"] == "interrupted"
    assert Path("kept/b").exists() is False
