"""`finbench drift accuracy`, as a user ends it."""

import signal
import subprocess
from pathlib import Path

from tests.support.commands import FINBENCH
from tests.support.waiting import PATIENCE_S, block_until


def test_what_is_kept_of_an_interrupted_measurement_is_said(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [*FINBENCH, "drift", "accuracy", "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        block_until(lambda: out.exists() and any(out.iterdir()))
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    assert said.splitlines()[-1] == f"finbench: interrupted; {out} has what was made"
    assert "Traceback" not in said
