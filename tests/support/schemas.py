"""Schemas of other projects, in the environment that TEST_SCHEMAS names."""

import os
import subprocess
from pathlib import Path

import pytest


def schemas(program: str, given: str) -> str:
    """What a Python program prints there that reads `given`; it skips without the environment."""
    folder = os.environ.get("TEST_SCHEMAS")
    if folder is None or not (Path(folder) / "schemas.lock").exists():
        pytest.skip("TEST_SCHEMAS names no folder with schemas; .ci/run makes one")
    done = subprocess.run(
        [Path(folder) / "bin" / "python", "-c", program],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
