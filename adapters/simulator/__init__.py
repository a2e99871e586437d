"""The simulated upstream: one local HTTP server that replaces all upstreams with made-up data."""

from adapters.simulator.akshare import FUNCTIONS
from adapters.simulator.faults import Fault, Faults
from adapters.simulator.lies import Lie, Lies
from adapters.simulator.server import SimulatedUpstream

__all__ = ["FUNCTIONS", "Fault", "Faults", "Lie", "Lies", "SimulatedUpstream"]
