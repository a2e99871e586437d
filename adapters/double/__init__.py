"""The upstream double: one local HTTP server that stands for every upstream. All simulated."""

from adapters.double.akshare import FUNCTIONS
from adapters.double.server import Faults, UpstreamDouble

__all__ = ["FUNCTIONS", "Faults", "UpstreamDouble"]
