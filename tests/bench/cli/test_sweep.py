"""`finbench sweep`: models in settings, from one file, with the simulated model."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.suites import load_suite
from tests.support.commands import finbench, finbench_begun
from tests.support.played_model import simulated_model
from tests.support.runs import about
from tests.support.waiting import block_until

TASKS = load_suite("starter").tasks

PRICES = '{"currency": "USD", "models": {"a": {"input": 1, "output": 2}}}'


def write(url: str, **changes: Any) -> None:
    """A sweep of two models in two settings, with `changes` at its top."""
    models = [
        {"name": "one", "model": "a", "base-url": url, "max-tokens": 300},
        {"model": "org/b", "base-url": url, "max-tokens": 400, "body": {"user": "u"}},
    ]
    settings = [{"agent": "llm"}, {"agent": "fatr", "agent-option": {"reduce": True}}]
    said = {
        "suite": "starter",
        "upstream": "simulated",
        "judge": "none",
        "episodes": 12,
        "top-k": 0,
        "prices": "prices.json",
        "models": models,
        "settings": settings,
    }
    Path("prices.json").write_text(PRICES)
    Path("sweep.json").write_text(json.dumps({**said, **changes}))


NAMES = ["one-llm", "one-fatr", "org-b-llm", "org-b-fatr"]


def became(*options: str) -> tuple[int, dict[str, str]]:
    done = finbench("sweep", "sweep.json", "--json", *options)
    cells = json.loads(done.stdout)["cells"]
    return done.returncode, {cell["name"]: cell["became"] for cell in cells}


def test_a_sweep_that_was_killed_goes_on_and_ends_with_a_table() -> None:
    with simulated_model(TASKS, latency_s=0.2) as url:
        write(url, concurrency=1)
        begun = finbench_begun("sweep", "sweep.json")
        second = Path("runs/sweep/one-fatr/episodes.jsonl")
        block_until(lambda: second.exists() and second.stat().st_size > 0)
        begun.kill()
        begun.wait()
        first = Path("runs/sweep/one-llm/run.json").read_bytes()
        write(url, concurrency=12)
        done = finbench("sweep", "sweep.json")
    assert done.returncode == 0, done.stderr
    for text in ("1 of 4: one-llm is complete", "2 of 4: one-fatr goes on", "4 of 4: org-b-fatr"):
        assert text in done.stdout
    assert Path("runs/sweep/one-llm/run.json").read_bytes() == first
    assert {name: about(f"runs/sweep/{name}")["ended"] for name in NAMES} == dict.fromkeys(
        NAMES, "complete"
    )
    assert about("runs/sweep/one-fatr")["parts"] == 2
    assert about("runs/sweep/org-b-fatr")["body"] == {"user": "u", "max_tokens": 400}
    assert about("runs/sweep/org-b-fatr")["reduce"] is True
    for name in NAMES:
        episodes = Path("runs/sweep", name, "episodes.jsonl").read_text().splitlines()
        assert len({json.loads(line)["episode"] for line in episodes}) == len(episodes) == 12
    rows = done.stdout[done.stdout.rindex("rank") :]
    assert [rows.count(label) for label in ("llm with a", "fatr with a", "fatr with org/b")] == [
        1,
        1,
        1,
    ]
    assert "USD" in done.stdout


def test_a_changed_cell_is_refused_and_more_episodes_are_played() -> None:
    with simulated_model(TASKS) as url:
        write(url)
        assert became() == (0, dict.fromkeys(NAMES, "complete"))
        assert became() == (0, dict.fromkeys(NAMES, "complete before"))
        write(url, episodes=14, concurrency=3)
        assert became() == (0, dict.fromkeys(NAMES, "complete"))
        for change, told in (
            ({"max-rounds": 3}, "one-llm was changed: limits.rounds was 5 and is 3"),
            ({"simulated-seed": 3}, "simulated_seed was 0 and is 3"),
            ({}, "episodes was 14 and is 12"),
        ):
            write(url, **change)
            refused = finbench("sweep", "sweep.json")
            assert (refused.returncode, told in refused.stderr) == (1, True), refused.stderr
        assert became("--out", "other")[0] == 0


def test_a_cell_that_fails_ends_no_other_and_is_played_again() -> None:
    with simulated_model(TASKS) as url:
        write(url, concurrency=1)
        said = json.loads(Path("sweep.json").read_text())
        said["models"][0]["base-url"] = f"{url}/no"
        said["models"][0]["max-model-errors"] = 5
        Path("sweep.json").write_text(json.dumps(said))
        failed = {"one-llm": "failed", "one-fatr": "failed"}
        rest = {"org-b-llm": "complete", "org-b-fatr": "complete"}
        assert became() == (1, failed | rest)
        done = finbench("sweep", "sweep.json")
        assert "the same error 5 times in a row" in done.stderr
        assert "failed: one-llm, one-fatr; the same command goes on" in done.stderr
        assert "fatr with org/b" in done.stdout


def test_a_plan_adds_up_the_bounds_of_all_cells() -> None:
    write("http://127.0.0.1:9/v1", models=[{"model": "a", "base-url": "http://127.0.0.1:9/v1"}])
    shown = finbench("sweep", "sweep.json", "--plan")
    assert (shown.returncode, "no bound of tokens without --max-tokens" in shown.stdout) == (
        0,
        True,
    )
    write("http://127.0.0.1:9/v1")
    said = json.loads(finbench("sweep", "sweep.json", "--plan", "--json").stdout)
    bounds = [bound for cell in said["cells"] for bound in cell["models"]]
    assert len(bounds) == 4
    assert said["most"]["requests"] == sum(bound["most"]["requests"] for bound in bounds)
    assert said["most"]["money"] is None, "b has no price"
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tpo-k": 3}, "one-llm: No such option '--tpo-k'. (Did you mean"),
        ({"episodes": "many"}, "one-llm: Invalid value for '--episodes'"),
        ({"out": "x"}, "`out` is not for a cell"),
        ({"suite": None}, "`suite` wants the name of a suite"),
        ({"suite": "--help"}, "one-llm: "),
        ({"models": []}, "`models` is a list of tables"),
        ({"settings": [{"agent": "llm"}] * 2}, "two cells are named one-llm"),
        ({"settings": [{"name": "../x"}]}, "'one-../x' can't name a folder"),
        ({"settings": [{"agent": "fart"}]}, "no agent is named 'fart'"),
        ({"settings": [{"agent": "scripted", "name": "s"}]}, "--max-tokens is for --agent"),
    ],
)
def test_a_file_that_makes_no_sweep_begins_nothing(changes: dict[str, Any], told: str) -> None:
    write("http://127.0.0.1:9/v1", **changes)
    done = finbench("sweep", "sweep.json")
    assert (done.returncode, told in done.stderr.replace("\n", " ")) == (2, True), done.stderr
    assert not Path("runs").exists()


@pytest.mark.parametrize("text", ["[", "a" * 2**21, "[1]"])
def test_a_file_that_can_not_be_read_is_a_usage_error(text: str) -> None:
    Path("sweep.json").write_text(text)
    done = finbench("sweep", "sweep.json")
    assert (done.returncode, "sweep.json: it" in done.stderr) == (2, True)
