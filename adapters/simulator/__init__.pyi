from adapters.simulator.akshare import FUNCTIONS as FUNCTIONS
from adapters.simulator.faults import Fault as Fault
from adapters.simulator.faults import Faults as Faults
from adapters.simulator.lies import Lie as Lie
from adapters.simulator.lies import Lies as Lies
from adapters.simulator.server import SimulatedUpstream as SimulatedUpstream
