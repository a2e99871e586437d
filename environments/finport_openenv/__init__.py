"""Finport's suites as an OpenEnv environment: the client's side."""

from finport_openenv.client import FinportEnv
from finport_openenv.models import FinportAction, FinportCall, FinportObservation, FinportState

__all__ = ["FinportAction", "FinportCall", "FinportEnv", "FinportObservation", "FinportState"]
