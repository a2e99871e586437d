"""Programs that other projects' environments run as baselines; they import nothing of this one."""

from pathlib import Path

SERVERS = str(Path(__file__).parent / "servers.py")
INSPECT_AI = str(Path(__file__).parent / "inspect_ai.py")
