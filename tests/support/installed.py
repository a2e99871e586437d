"""Programs that not every machine has."""

import os
import shutil
import subprocess

from tests.support.checkout import ROOT

NODE = os.environ.get("TEST_NODE") or shutil.which("node")
CHROMIUM = shutil.which("chromium")

NODE_MODULES = ROOT / "tests" / "node" / "node_modules"
PACKAGES = NODE_MODULES / "@modelcontextprotocol"
AXE = NODE_MODULES / "axe-core" / "axe.min.js"


def node_is_missing() -> str | None:
    """Why npm packages can't run here."""
    if NODE is None:
        return "no node on the PATH, and TEST_NODE names none"
    told = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout
    if int(told.lstrip("v").partition(".")[0]) < 22:
        return f"node {told.strip()} is older than 22; TEST_NODE may name another"
    return None
