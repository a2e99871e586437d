"""Finport's tasks as an environment of verifiers."""

from finport_tasks.env import FinportEnv
from finport_tasks.harness import FinportHarness
from finport_tasks.taskset import FinportTaskset

__all__ = ["FinportEnv", "FinportHarness", "FinportTaskset"]
