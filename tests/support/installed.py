"""Programs that not every machine has."""

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from finport import __version__
from tests.support.checkout import ROOT

NEEDS_AKSHARE = pytest.mark.skipif(
    find_spec("akshare") is None, reason="the akshare extra is not installed"
)
"""For tests of worker processes, in which it is imported; here that would take 1 s."""

NODE = os.environ.get("TEST_NODE") or shutil.which("node")
CHROMIUM = shutil.which("chromium")

NODE_MODULES = ROOT / "tests" / "node" / "node_modules"
PACKAGES = NODE_MODULES / "@modelcontextprotocol"
AXE = NODE_MODULES / "axe-core" / "axe.min.js"


def skip_without_a_browser() -> None:
    """Skip the test, with the reason, where Chromium or axe-core is missing."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    if not AXE.is_file():
        pytest.skip(f"axe-core is not installed: npm ci in {AXE.parents[2]}")


def node_is_missing() -> str | None:
    """Why npm packages can't run here."""
    if NODE is None:
        return "no node on the PATH, and TEST_NODE names none"
    told = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout
    if int(told.lstrip("v").partition(".")[0]) < 22:
        return f"node {told.strip()} is older than 22; TEST_NODE may name another"
    return None


ENVIRONMENTS = os.environ.get("TEST_ENVIRONMENTS")


def metadata(folder: Path) -> Path:
    """A folder that says that Finport is installed, for a Python that only has it on its path."""
    about = folder / "metadata" / f"finport-{__version__}.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: finport\nVersion: {__version__}\n"
    (about / "METADATA").write_text(text)
    return about.parent


def framework_is_missing(name: str) -> str | None:
    """Why a framework that has an environment of its own can't run here."""
    if ENVIRONMENTS is None:
        return "TEST_ENVIRONMENTS names no folder with frameworks; .ci/run makes one"
    if not (Path(ENVIRONMENTS) / name / f"{name}.lock").is_file():
        return f"tests/environments/{name}.lock could not be installed in {ENVIRONMENTS}"
    return None
