"""The episodes of a run earn the same by each framework's own scorer, bit by bit."""

import json
import os
from pathlib import Path

import pytest

from bench.cli.env import SCORERS
from tests.support.checkout import ROOT
from tests.support.commands import finbench, finbench_in
from tests.support.installed import ENVIRONMENTS, framework_is_missing, metadata


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 episodes, some of which met an outage."""
    folder = tmp_path_factory.mktemp("parity")
    options = ("--upstream", "simulated", "--simulated-failure-rate", "0.6", "--out", "run")
    done = finbench_in(folder, "run", "fintrace-sample", "--episodes", "60", *options)
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.mark.parametrize("framework", SCORERS)
def test_a_run_earns_the_same_in_a_framework(
    framework: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := framework_is_missing(framework):
        pytest.skip(reason)
    run: Path = request.getfixturevalue("run")
    places = (ROOT, ROOT / "environments", metadata(run.parent))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))
    python = Path(str(ENVIRONMENTS)).resolve() / framework / "bin" / "python"
    done = finbench("env", "parity", str(run), "--python", f"{framework}={python}", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["episodes"], row["equal"], row["lacking"]) == (60, 60, 0)
    assert row["outages"] > 0
