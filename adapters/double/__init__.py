"""The upstream double: one local HTTP server that stands for every upstream. All simulated."""

from adapters.double.akshare import FUNCTIONS
from adapters.double.faults import Fault, Faults
from adapters.double.server import UpstreamDouble

__all__ = ["FUNCTIONS", "Fault", "Faults", "UpstreamDouble"]
