"""The upstream double: one local HTTP server that stands for every upstream. All simulated."""

from adapters.simulator.akshare import FUNCTIONS
from adapters.simulator.faults import Fault, Faults
from adapters.simulator.server import SimulatedUpstream

__all__ = ["FUNCTIONS", "Fault", "Faults", "SimulatedUpstream"]
