"""The environment of verifiers, by verifiers' own commands.

They run in an environment of their own, which TEST_ENVIRONMENTS names and `.ci/run` makes.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkout import ROOT
from tests.support.commands import serving
from tests.support.installed import ENVIRONMENTS, framework_is_missing
from tests.support.markets import write_market

EXAMPLES = ROOT / "environments" / "finport_tasks" / "examples"
LONG_S = 180.0
KEY = "fp_0451"


if reason := framework_is_missing("verifiers"):
    pytest.skip(reason, allow_module_level=True)

BIN = Path(str(ENVIRONMENTS)) / "verifiers" / "bin"


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """No settings, keys or configuration from outside."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(folder), "PATH": path, **variables}


def told(folder: Path, *words: str | Path, **variables: str) -> str:
    """What a command of the framework wrote."""
    command = [str(BIN / words[0]), *map(str, words[1:])]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def traces(folder: Path) -> list[dict[str, Any]]:
    """The traces of the only run in a folder."""
    (file,) = folder.rglob("traces.jsonl")
    episodes = [json.loads(line) for line in file.read_text().splitlines()]
    found = [trace for episode in episodes for trace in episode["traces"]]
    return sorted(found, key=lambda trace: str(trace["task"]["key"]))


@contextmanager
def model(folder: Path, *command: str) -> Iterator[str]:
    """The URL of a model that a command serves."""
    process = subprocess.Popen(
        [str(BIN / command[0]), *command[1:]],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield next(word for word in process.stdout.readline().split() if word.startswith("http"))
    finally:
        process.kill()
        process.communicate()


def evaluated(
    folder: Path, url: str, *options: str | Path, **variables: str
) -> list[dict[str, Any]]:
    run = ("--model", "m", "--client.base-url", url, "--no-push", "--no-rich")
    told(folder, "vf-eval", "finport-tasks", *run, "-o", "evaluated", *options, **variables)
    return traces(folder / "evaluated")


def test_labelled_calls_and_right_answers_validate(tmp_path: Path) -> None:
    runtime = ("--runtime.type", "subprocess", "--no-rich")
    told(tmp_path, "vf-validate", "finport-tasks", "-n", "3", *runtime)
    (summary,) = tmp_path.rglob("summary.json")
    assert json.loads(summary.read_text())["outcomes"]["valid"] == 3


def test_a_right_answer_earns_the_reward_and_a_replay_finds_the_same(tmp_path: Path) -> None:
    with model(tmp_path, "python", str(EXAMPLES / "oracle.py"), "--tasks", "3") as url:
        found = evaluated(tmp_path, url, "-n", "3")
    assert [trace["rewards"]["reward"]["score"] for trace in found] == [1.0] * 3
    assert all(trace["metrics"]["Accuracy"] == 1.0 for trace in found)
    (run,) = (tmp_path / "evaluated").iterdir()
    told(tmp_path, "vf-replay", run, "--no-rich", "-o", tmp_path / "replayed")
    again = traces(tmp_path / "replayed")
    assert [trace["metrics"] for trace in again] == [trace["metrics"] for trace in found]
    assert [trace["rewards"] for trace in again] == [trace["rewards"] for trace in found]


@pytest.mark.soak
def test_a_gateway_elsewhere_is_sent_its_key_and_refuses_others(tmp_path: Path) -> None:
    world = {"FINPORT_SIMULATED_SEED": "0", "FINPORT_SIMULATED_NOW": "2026-06-30"}
    chosen = ("--env.taskset.task.key-variable", "MY_KEY", "-n", "1")
    (tmp_path / "wrong").mkdir()
    with serving(tmp_path, FINPORT_API_KEYS=f"mine={KEY}", **world) as (_, gateway):
        there = ("--env.taskset.task.gateway", gateway, *chosen)
        with model(tmp_path, "python", str(EXAMPLES / "oracle.py"), "--tasks", "1") as url:
            (trace,) = evaluated(tmp_path, url, *there, MY_KEY=KEY)
        never = ("--env.agent.retries.rules", "[]")
        (refused,) = evaluated(tmp_path / "wrong", url, *there, *never, MY_KEY="fp_other")
    assert trace["rewards"]["reward"]["score"] == 1.0
    assert (refused["ok"], refused["errors"][0]["type"]) == (False, "ToolsetError")
    assert "not known" in refused["errors"][0]["message"]
    assert KEY not in json.dumps(trace)
    assert "fp_other" not in json.dumps(refused)


@pytest.mark.soak
def test_each_rollout_has_a_session_of_its_own(tmp_path: Path) -> None:
    market = write_market(tmp_path / "market")
    suite = ("investorbench", "--dataset", str(market))
    with model(tmp_path, "finbench", "simulated-model", *suite) as url:
        chosen = ("--env.taskset.suite", "investorbench", "--env.taskset.dataset", market)
        (trace,) = evaluated(tmp_path, url, *chosen, "-n", "1")
    assert trace["ok"], trace["errors"]
    calls = trace["info"]["finport_record"]["tool_calls"]
    assert [call["tool_name"] for call in calls][:2] == ["market_open", "market_observe"]
    assert all(call["ok"] for call in calls)
    assert "reached_the_end" in trace["metrics"]
    assert all("session" not in tool["parameters"]["properties"] for tool in trace["tools"])


@pytest.mark.soak
def test_a_killed_gateway_takes_no_reward(tmp_path: Path) -> None:
    asked = ("--rollouts", "24", "--at-once", "24", "--kills", "1", "--away", "0")
    found = json.loads(told(tmp_path, "python", EXAMPLES / "outage.py", *asked))
    assert found["reward_0"] == 0
    assert found["reward_1"] + found["left_out"] == 24
