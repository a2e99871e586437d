"""A call that is being answered, and its outcome."""

from dataclasses import dataclass

from cache import CacheControl, Kept
from gateway.errors import CallError
from gateway.pipeline.bind import BoundCall
from gateway.result import ProvenanceSource


@dataclass(slots=True)  # frozen would take three times as long to make
class PendingCall:
    """One call that is being answered. `asked` says which cached answers are acceptable. `limit_s`
    is the time for the whole call; `deadline`, in loop time, is when it ends.
    """

    bound: BoundCall
    asked: CacheControl
    client: str
    limit_s: float
    deadline: float


@dataclass(slots=True)
class Outcome:
    """The outcome of a call: an entry or an error, and where it came from. It is never changed."""

    kept: Kept | None = None
    error: CallError | None = None
    source: ProvenanceSource | None = None
    attempts: int = 0
    snapshot: str | None = None
