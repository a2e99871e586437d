"""A run that is submitted to a cluster as a job, as docs/large_runs.md shows it."""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.clusters import nodes

KEYS = {"FINBENCH_MODEL_KEY": "model-5b02e7-key", "FINPORT_API_KEYS": "client-9911ce-key"}

STATE = ("/api/jobs/", *(f"/api/v0/{kind}?detail=1" for kind in ("actors", "tasks", "workers")))


@pytest.mark.soak
def test_the_job_shown_runs_and_nothing_shows_a_secret() -> None:
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    with nodes(2, {"PATH": path, **KEYS}, has_dashboard=True) as cluster:
        text = (ROOT / "docs" / "large_runs.md").read_text()
        (shown,) = re.findall(r"^\$ (ray job submit .*)$", text, re.MULTILINE)
        out = Path("out").absolute()
        words = shlex.split(shown.replace("/runs/job", str(out)))
        words[words.index("--address") + 1] = cluster.dashboard
        done = subprocess.run(
            [programs / "ray", *words[1:]],
            env=cluster.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads((out / "run.json").read_text())["ended"] == "complete"
        token = (cluster.folder / "token").read_text()
        for place in STATE:
            asked = urllib.request.Request(
                cluster.dashboard + place, headers={"Authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(asked, timeout=30) as answer:
                said = answer.read().decode()
            assert not [key for key in KEYS.values() if key in said], place
        for file in cluster.folder.rglob("*"):
            if file.is_file():
                assert not [key for key in KEYS.values() if key.encode() in file.read_bytes()], file
