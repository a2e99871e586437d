"""`finbench` as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

FINBENCH = (sys.executable, "-c", "from bench.cli import main; main()")


def finbench(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "FINPORT_CACHE_DIR": "cache"}
    return subprocess.run(
        [*FINBENCH, *arguments], env=env, capture_output=True, text=True, timeout=120, check=False
    )


def processes() -> set[str]:
    """Command lines of every gateway and worker process on this machine."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "adapters.akshare_worker" in line or "gateway.cli" in line:
            found.add(f"{file.parent.name} {line}")
    return found


def test_run_streams_into_files_that_score_reads(tmp_path: Path) -> None:
    done = finbench(
        *("run", "starter", "--upstream", "simulated", "--out", "out", "--seed", "3"),
        *("--episodes", "100", "--concurrency", "50"),
    )
    assert done.returncode == 0, done.stderr
    assert "episodes 100/100" in done.stdout
    assert "TESR" in done.stdout
    files = {file.name for file in (tmp_path / "out").iterdir()}
    assert files == {"calls.jsonl", "episodes.jsonl", "run.json", "metrics.json"}
    about = json.loads((tmp_path / "out/run.json").read_text())
    assert (about["suite"], about["seed"], about["agent_is_simulated"]) == ("starter", 3, True)
    scored = json.loads(finbench("score", "out", "--json").stdout)
    assert scored == json.loads((tmp_path / "out/metrics.json").read_text())
    assert scored["episodes"] == 100
    again = finbench("run", "starter", "--upstream", "simulated", "--out", "out")
    assert again.returncode == 1
    assert "already holds something" in again.stderr


def test_wrong_usage_exits_2() -> None:
    assert "there are: starter" in finbench("run", "nothing").stderr
    assert finbench("run", "nothing").returncode == 2
    assert finbench("run", "starter", "--no-call-rate", "2").returncode == 2
    assert finbench("speed", "nothing").returncode == 2


def test_score_of_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    done = finbench("score", str(tmp_path))
    assert done.returncode == 1
    assert "calls.jsonl: No such file" in done.stderr


def test_the_demo_shows_its_figures_and_leaves_no_process_behind(tmp_path: Path) -> None:
    before = processes()
    done = finbench("demo", "--episodes", "150", "--concurrency", "100", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("upstreams are simulated")
    for figure in ("cache hit rate", "calls/s", "slowest tools", "most failing tools", "lag p99"):
        assert figure in done.stdout
    assert "run directory: out" in done.stdout
    assert processes() == before
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert metrics["episodes"] == 150
    assert "live" not in metrics["traffic"]["sources"]
