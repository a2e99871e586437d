"""Runs on Ray. If processes are killed, at the end nothing shows it but the time that it took."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import (
    Nodes,
    counted,
    episodes,
    nodes,
    raylet_of,
)
from tests.support.commands import finbench
from tests.support.played_model import completion
from tests.support.runs import SNAPSHOT, about
from tests.support.servers import json_server
from tests.support.waiting import block_until

SECRETS = {
    "FINPORT_RAPIDAPI_KEYS": "rapid-5e5b1c-key",
    "FINPORT_METRICS_KEY": "metrics-9e1d77-key",
    "FINBENCH_MODEL_KEY": "model-77ab02-key",
}
"""Secrets of the nodes."""

SECRETS_OF_HEAD = {name: value.replace("-", "-head-") for name, value in SECRETS.items()}

EPISODES = 108
OFFLINE = (
    *("run", "starter", "--episodes", str(EPISODES), "--seed", "7"),
    *("--snapshot", str(SNAPSHOT), "--mode", "offline"),
)
ON_RAY = (*OFFLINE, "--engine", "ray", "--concurrency", "12", "--json")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Nodes]:
    with nodes(1, SECRETS) as found:
        yield found


@pytest.fixture
def undisturbed() -> dict[str, Any]:
    """What a run in one process gives."""
    done = finbench(*OFFLINE, "--out", "whole", "--json")
    assert done.returncode == 0, done.stderr
    return counted(json.loads(done.stdout))


def test_a_node_joins_and_is_killed_and_a_player_too_and_nothing_changes(
    cluster: Nodes, undisturbed: dict[str, Any]
) -> None:
    run = cluster.begun(*ON_RAY, "--think-s", "0.2", "--out", "out")
    second = cluster.add()
    block_until(lambda: len(cluster.players()) == 2 and len(episodes("out")) > 5)
    on_first = next(pid for pid, parent in cluster.players().items() if parent != raylet_of(second))
    os.kill(on_first, signal.SIGKILL)
    seen = len(episodes("out"))
    block_until(lambda: len(episodes("out")) > seen + 10)
    cluster.kill(second)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert counted(json.loads(out)) == undisturbed
    names = [record["episode"] for record in episodes("out")]
    assert len(names) == len(set(names)) == EPISODES
    engine = about("out")["engine"]
    assert engine["lost_players"] == 2, err
    assert engine["lost_episodes"] > 0
    assert engine["given_up"] == 0
    assert "finbench-1 was lost (ActorDiedError)" in err or "finbench-2 was lost" in err


def test_a_model_that_is_down_ends_the_run(cluster: Nodes) -> None:
    with json_server(lambda _: (401, {"error": {"message": "not so"}})) as url:
        model = ("--agent", "llm", "--model", "m", "--base-url", f"{url}/v1", "--top-k", "0")
        done = cluster.finbench(*ON_RAY, *model, "--max-model-errors", "4", "--out", "out")
    assert done.returncode == 1
    assert f"the agent's model at {url}/v1 gave the same error 4 times in a row" in done.stderr
    assert done.stderr.count("--resume --failed-too goes on") == 1
    assert 4 <= len(episodes("out")) < EPISODES
    assert about("out")["ended"] == "interrupted"


def test_a_run_whose_head_was_killed_goes_on(cluster: Nodes, undisturbed: dict[str, Any]) -> None:
    thinking = (*ON_RAY, "--think-s", "0.1", "--out", "out")
    run = cluster.begun(*thinking)
    block_until(lambda: len(episodes("out")) > EPISODES // 4)
    run.kill()
    run.communicate()
    assert about("out")["ended"] == "interrupted"
    done = cluster.finbench(*thinking, "--resume")
    assert done.returncode == 0, done.stderr
    assert counted(json.loads(done.stdout)) == undisturbed
    assert about("out")["episodes_before"] > EPISODES // 4
    block_until(lambda: not cluster.players())


def test_the_same_tasks_are_chosen_on_ray(cluster: Nodes) -> None:
    chosen = ("--tasks", "8", "--stratify", "language", "--repeats", "2", "--json")
    run = (*OFFLINE[:2], *OFFLINE[4:], *chosen)
    here = finbench(*run, "--out", "here")
    assert here.returncode == 0, here.stderr
    done = cluster.finbench(*run, "--engine", "ray", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert counted(json.loads(done.stdout)) == counted(json.loads(here.stdout))
    assert about("out")["selection"] == about("here")["selection"]
    assert len({one["id"] for one in episodes("out")}) == 8


POISONED = """
import os
from finport import Turn

class Poisoned:
    name = "poisoned"

    async def act(self, episode):
        if episode.task.id == "starter_5" and episode.repeat == 0:
            os._exit(1)
        return Turn(answer="42")
"""


@pytest.mark.soak
def test_an_episode_that_ends_its_process_is_given_up_and_no_other(cluster: Nodes) -> None:
    Path("mine.py").write_text(POISONED)
    run = ("run", "starter", "--upstream", "simulated", "--agent", "mine:Poisoned", "--episodes")
    done = cluster.finbench(
        *(*run, "30", "--top-k", "0", "--engine", "ray", "--concurrency", "2", "--out", "out")
    )
    assert done.returncode == 0, done.stderr
    endings = {record["episode"]: record["ending"] for record in episodes("out")}
    assert len(endings) == 30
    assert [name for name, ending in endings.items() if ending != "answer"] == ["starter_5.0"]
    lost = next(record for record in episodes("out") if record["ending"] == "lost")
    assert lost["error"].startswith("engine: the process that played it ended 3 times")
    assert about("out")["first_errors"] == {"lost": lost["error"]}
    assert about("out")["engine"]["given_up"] == 1


@pytest.mark.soak
def test_a_run_that_is_told_to_end_ends_in_order(
    cluster: Nodes, undisturbed: dict[str, Any]
) -> None:
    thinking = (*ON_RAY, "--think-s", "0.1", "--out", "out")
    run = cluster.begun(*thinking)
    block_until(lambda: len(episodes("out")) > 5)
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 143, err
    assert "interrupted; what was finished is in out, --resume goes on" in err
    assert about("out")["ended"] == "interrupted"
    assert 5 < len(episodes("out")) < EPISODES
    done = cluster.finbench(*thinking, "--resume")
    assert done.returncode == 0, done.stderr
    assert counted(json.loads(done.stdout)) == undisturbed


HANGING = """
import asyncio
from finport import Turn

class Hanging:
    name = "hanging"

    async def act(self, episode):
        while episode.task.id == "starter_5" and episode.repeat == 0:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass
        return Turn(answer="42")
"""

SOON = """
import bench.engines.head, bench.engines.leases
bench.engines.leases.GRACE_S = 2.0
bench.engines.head.CLOSING_S = 0.0
from bench.cli.main import main
main()
"""


@pytest.mark.soak
def test_an_episode_that_never_ends_is_given_up_and_no_other(cluster: Nodes) -> None:
    Path("mine.py").write_text(HANGING)
    run = ("run", "starter", "--upstream", "simulated", "--agent", "mine:Hanging", "--top-k", "0")
    given = ("--episodes", "60", "--engine", "ray", "--concurrency", "4", "--max-wall-s", "1")
    process = cluster.begun(
        *(*run, *given, "--judge", "none", "--out", "out"), command=(sys.executable, "-c", SOON)
    )
    _, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    endings = {record["episode"]: record["ending"] for record in episodes("out")}
    assert len(endings) == 60
    assert {name: end for name, end in endings.items() if end != "answer"} == {
        "starter_5.0": "lost"
    }
    assert "was lost (LeaseError)" in err


def test_secrets_are_those_of_the_node_and_in_no_file_of_ray(cluster: Nodes) -> None:
    keys: set[str | None] = set()

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, object]:
        keys.add(request.headers["Authorization"])
        return 200, json.loads(completion("42"))

    with json_server(answer) as url:
        asked = ("--agent", "llm", "--model", "m", "--base-url", f"{url}/v1")
        run = ("run", "starter", "--engine", "ray", "--episodes", "4", "--out", "out", *asked)
        done = cluster.finbench(*run, "--upstream", "simulated", "--json", **SECRETS_OF_HEAD)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["episodes"] == 4
    assert keys == {f"Bearer {SECRETS['FINBENCH_MODEL_KEY']}"}
    logs = [file for file in cluster.folder.rglob("*") if file.is_file()]
    assert any(b"finbench-1 plays" in file.read_bytes() for file in logs), "these are the logs"
    for file in (*logs, *Path("out").iterdir()):
        found = file.read_bytes()
        for secret in (*SECRETS.values(), *SECRETS_OF_HEAD.values()):
            assert secret.encode() not in found, file
