"""A call on its way to an answer, and what came of it."""

from dataclasses import dataclass

from cache import CacheControl, Kept
from gateway.bind import BoundCall
from gateway.errors import CallError
from gateway.result import ProvenanceSource


@dataclass(frozen=True, slots=True)
class Wanted:
    """One call on its way to an answer: `asked` of kept ones, by loop time `deadline`.

    `hurry` is what a caller is told when a limit of its own has passed that no upstream can be
    expected to keep.
    """

    bound: BoundCall
    asked: CacheControl
    client: str
    deadline: float
    hurry: CallError | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the search for an answer ended with: an entry or an error, and where from."""

    kept: Kept | None = None
    error: CallError | None = None
    source: ProvenanceSource | None = None
    attempts: int = 0
    snapshot: str | None = None
