"""`finbench drift accuracy`, as a user ends it."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import FINBENCH
from tests.support.waiting import PATIENCE_S, block_until


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_what_is_kept_of_an_interrupted_measurement_is_said(
    tmp_path: Path, how: signal.Signals
) -> None:
    out = tmp_path / "out"
    command = [*FINBENCH, "drift", "accuracy", "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        block_until(lambda: out.exists() and any(out.iterdir()))
        process.send_signal(how)
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 128 + how
    assert said.splitlines()[-1] == f"finbench: interrupted; {out} has what was made"
    assert "Traceback" not in said
