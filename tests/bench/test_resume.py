"""Runs that are killed and go on: at the end nothing shows it but the time that it took."""

import json
import os
import random
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.resume import settle
from bench.run_dir import RunDirectory, RunDirectoryError
from tests.bench.test_cli import FINBENCH, finbench
from tests.bench.test_metrics import episode as recorded

SNAPSHOT = ("--snapshot", "s.snap")


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def counted(out: str) -> dict[str, Any]:
    """Its metrics, but for times."""
    metrics: dict[str, Any] = json.loads(Path(out, "metrics.json").read_text())
    for timed in ("latency_ms", "slowest", "most_failing"):
        del metrics["traffic"][timed]
    return metrics


def recorded_bytes(out: str) -> int:
    return sum(file.stat().st_size for file in Path(out).glob("[ce]*s.jsonl"))


def kill_when_grown(out: str, by: float, *command: str) -> None:
    """Kill a run once its records are so many bytes more than they were, wherever it then is."""
    before = recorded_bytes(out)
    process = subprocess.Popen(
        [*FINBENCH, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "FINPORT_CACHE_DIR": "cache"},
    )
    while process.poll() is None and recorded_bytes(out) <= before + by:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize(
    ("episodes", "kills"), [(288, 2), pytest.param(5_000, 30, marks=pytest.mark.soak)]
)
def test_a_run_that_is_killed_again_and_again_ends_as_if_it_never_was(
    episodes: int, kills: int
) -> None:
    common = ("run", "starter", "--episodes", str(episodes), "--seed", "7", *SNAPSHOT)
    recorded = finbench(*common, "--mode", "record", "--upstream", "simulated", "--out", "r")
    assert recorded.returncode == 0, recorded.stderr
    offline = (*common, "--mode", "offline")
    assert finbench(*offline, "--out", "whole").returncode == 0

    slow = (
        *offline,
        "--think-s",
        "0.05",
        "--concurrency",
        str(max(episodes // 100, 14)),
        "--out",
        "cut",
    )
    luck, most = random.Random(episodes), recorded_bytes("whole") / kills
    for number in range(kills):
        again = ("--resume",) if number else ()
        kill_when_grown("cut", luck.uniform(0, 0.9 * most), *slow, *again)
    done = finbench(*slow, "--resume")
    assert done.returncode == 0, done.stderr

    names = [record["episode"] for record in lines("cut/episodes.jsonl")]
    assert len(names) == len(set(names)) == episodes
    about, whole = (json.loads(Path(out, "run.json").read_text()) for out in ("cut", "whole"))
    assert about["digest"] == whole["digest"]
    assert kills // 2 < about["parts"] <= kills + 1, "a part that was killed as it began is none"
    assert counted("cut") == counted("whole")
    if Path("cut/abandoned.jsonl").exists():
        print(f"{kills} kills, {len(lines('cut/abandoned.jsonl'))} records abandoned")  # noqa: T201


def test_settings_that_would_not_compare_are_named(tmp_path: Path) -> None:
    run = ("run", "starter", "--upstream", "simulated", "--out", "out", "--episodes", "8")
    assert finbench(*run).returncode == 0
    before = (tmp_path / "out/run.json").read_bytes()
    refused = finbench(*run, "--resume", "--seed", "3", "--think-s", "0.1")
    assert refused.returncode == 1
    assert "seed was 0 and is 3; think_s was 0.0 and is 0.1" in refused.stderr
    assert json.loads(before)["seed"] == json.loads(Path("out/run.json").read_text())["seed"]
    limited = finbench(*run, "--resume", "--max-rounds", "2")
    assert "would not compare: limits.rounds was 5 and is 2\n" in limited.stderr
    more = finbench("run", "starter", *run[2:6], "--episodes", "12", "--resume")
    assert more.returncode == 0, more.stderr
    assert "12 episodes, 8 of them before, " in more.stdout
    fewer = finbench("run", "starter", *run[2:6], "--episodes", "3", "--resume")
    assert "12 episodes, 12 of them before" in fewer.stdout
    assert len(lines("out/episodes.jsonl")) == 12


@pytest.mark.anyio
async def test_a_part_that_ends_before_it_knows_forgets_nothing(tmp_path: Path) -> None:
    async with RunDirectory.open(tmp_path / "run", {"agent": "a", "upstream": "simulated"}) as run:
        run.episodes.put(recorded())
    for _ in range(2):
        with pytest.raises(OSError, match="no gateway"):
            async with RunDirectory.open(tmp_path / "run", {"agent": "a"}, resume=True):
                raise OSError("no gateway")
    async with RunDirectory.open(tmp_path / "run", {"agent": "a"}, resume=True) as run:
        run.about["upstream"] = "live"
        with pytest.raises(RunDirectoryError, match="upstream was 'simulated' and is 'live'"):
            run.check_comparable()
    assert json.loads((tmp_path / "run/run.json").read_text())["parts"] == 3


@pytest.mark.anyio
async def test_a_run_whose_every_episode_is_owed_again_is_still_a_run(tmp_path: Path) -> None:
    failed = replace(recorded(), error="model: gone", ending="model_error")
    async with RunDirectory.open(tmp_path / "run", {}) as run:
        run.episodes.put(failed)
    for _ in range(2):
        with pytest.raises(OSError, match="stopped at once"):
            async with RunDirectory.open(tmp_path / "run", {}, resume=True, failed_too=True):
                raise OSError("stopped at once")


def test_a_directory_has_one_owner_and_resume_wants_one() -> None:
    run = ("run", "starter", "--upstream", "simulated", "--think-s", "0.5", "--out", "out")
    process = subprocess.Popen(
        [*FINBENCH, *run],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "FINPORT_CACHE_DIR": "cache"},
    )
    try:
        while not Path("out/run.json").exists():
            time.sleep(0.02)
        refused = finbench(*run, "--resume")
        assert (refused.returncode, refused.stderr) == (
            1,
            "finbench: another process writes to out\n",
        )
    finally:
        process.kill()
        process.wait()
    for options in (("--resume",), ("--failed-too", "--out", "x")):
        assert finbench("run", "starter", *options).returncode == 2
    gone = finbench("run", "starter", "--resume", "--out", "nowhere")
    assert gone.returncode == 1
    assert "nowhere" in gone.stderr


def call(episode: str, call_id: str) -> str:
    return json.dumps({"episode": episode, "call_id": call_id})


def episode(name: str, *calls: tuple[str, bool, str | None], torn: bool = False) -> str:
    made = [{"call_id": id_, "step": 1, "ok": ok, "fault": fault} for id_, ok, fault in calls]
    text = json.dumps({"episode": name, "tool_calls": made})
    return text[: len(text) // 2] if torn else text + "\n"


@pytest.mark.parametrize(("failed_too", "finished"), [(False, ["a", "b", "f"]), (True, ["a", "f"])])
def test_what_is_not_finished_is_moved_away(
    tmp_path: Path, failed_too: bool, finished: list[str]
) -> None:
    (tmp_path / "calls.jsonl").write_text(
        "".join(f"{call(*c)}\n" for c in (("a", "1"), ("b", "2"), ("d", "3"), ("f", "4")))
        + call("e", "5")[:9]
    )
    (tmp_path / "episodes.jsonl").write_text(
        episode("a", ("1", True, None), ("", False, "agent"))  # a call that never came
        + episode("b", ("2", False, "quota"))
        + episode("c", ("9", True, None))  # the record of its call is not on disk
        + episode("f", ("4", False, "tool"))
        + episode("d", ("3", True, None), torn=True)
    )
    settled = settle(tmp_path, failed_too=failed_too)
    assert settled.finished == set(finished)
    for name in ("calls", "episodes"):
        left = lines(str(tmp_path / f"{name}.jsonl"))
        assert [record["episode"] for record in left] == finished
    assert len(lines(str(tmp_path / "abandoned.jsonl"))) == settled.abandoned
    again = settle(tmp_path, failed_too=failed_too)
    assert (again.finished, again.abandoned) == (set(finished), 0)
