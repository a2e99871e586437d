"""Ten kills at random moments: at the end nothing shows them but the time that the run took."""

import json
import os
import random
import signal
from pathlib import Path

import pytest

from tests.support.clusters import Nodes, counted, episodes, nodes
from tests.support.commands import finbench
from tests.support.runs import SNAPSHOT, about
from tests.support.waiting import block_until

pytestmark = pytest.mark.soak

KILLS = 10
EPISODES = 1_200
OFFLINE = (
    *("run", "starter", "--episodes", str(EPISODES), "--seed", "3"),
    *("--snapshot", str(SNAPSHOT), "--mode", "offline"),
)
ON_RAY = (*OFFLINE, "--engine", "ray", "--concurrency", "20", "--think-s", "0.3", "--json")


def until_recorded(count: int) -> None:
    block_until(lambda: len(episodes("out")) >= count)


def kill_players(cluster: Nodes, luck: random.Random) -> str:
    run = cluster.begun(*ON_RAY, "--out", "out")
    for _ in range(KILLS):
        seen = len(episodes("out")) + luck.randint(1, EPISODES // KILLS // 2)
        until_recorded(seen)
        block_until(cluster.players)
        os.kill(luck.choice(sorted(cluster.players())), signal.SIGKILL)
    out, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    return out


def kill_nodes(cluster: Nodes, luck: random.Random) -> str:
    run = cluster.begun(*ON_RAY, "--out", "out")
    for _ in range(KILLS):
        node = cluster.add()
        seen = len(episodes("out")) + luck.randint(1, EPISODES // KILLS // 2)
        until_recorded(seen)
        cluster.kill(node)
    out, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    return out


def kill_head(cluster: Nodes, luck: random.Random) -> str:
    resume: tuple[str, ...] = ()
    for _ in range(KILLS):
        run = cluster.begun(*ON_RAY, "--out", "out", *resume)
        seen = len(episodes("out")) + luck.randint(1, EPISODES // KILLS // 2)
        until_recorded(seen)
        run.kill()
        run.communicate()
        resume = ("--resume",)
    done = cluster.finbench(*ON_RAY, "--out", "out", "--resume")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kill", [kill_players, kill_nodes, kill_head])
def test_ten_kills_change_nothing(kill: object) -> None:
    whole = finbench(*OFFLINE, "--out", "whole", "--json")
    assert whole.returncode == 0, whole.stderr
    with nodes(1, {}) as cluster:
        assert callable(kill)
        out = kill(cluster, random.Random(KILLS))
    assert counted(json.loads(out)) == counted(json.loads(whole.stdout))
    names = [record["episode"] for record in episodes("out")]
    assert len(names) == len(set(names)) == EPISODES
    assert about("out")["engine"]["given_up"] == 0
    calls = Path("out", "calls.jsonl").read_text().splitlines()
    assert len(calls) == len({json.loads(line)["call_id"] for line in calls})
