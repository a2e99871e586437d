"""What Inspect AI finds by the entry point `inspect_ai`."""

from finport_inspect.playing import mcp_tools, native_tools
from finport_inspect.scoring import figures, finport_reward
from finport_inspect.tasks import TASKS

__all__ = ["TASKS", "figures", "finport_reward", "mcp_tools", "native_tools"]
