"""Finport's suites as tasks of Inspect AI."""

from finport_inspect.scoring import OutageError, finport_reward
from finport_inspect.tasks import TASKS

__all__ = ["TASKS", "OutageError", "finport_reward"]
