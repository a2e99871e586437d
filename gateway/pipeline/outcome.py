"""A call that is being answered, and its outcome."""

from dataclasses import dataclass

from cache import CacheControl, Kept
from gateway.errors import CallError
from gateway.pipeline.bind import BoundCall
from gateway.result import ProvenanceSource


@dataclass(frozen=True, slots=True)
class Wanted:
    """One call that is being answered. `asked` says which cached answers are acceptable, and
    `deadline` is in loop time.

    `hurry` is the error if the caller's own limit passes and was too short for any upstream.
    """

    bound: BoundCall
    asked: CacheControl
    client: str
    deadline: float
    hurry: CallError | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call: an entry or an error, and where it came from."""

    kept: Kept | None = None
    error: CallError | None = None
    source: ProvenanceSource | None = None
    attempts: int = 0
    snapshot: str | None = None
