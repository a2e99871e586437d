"""What a call gives back: an answer with its provenance, or an error. Both are one envelope."""

from dataclasses import dataclass
from typing import Any, Literal

import orjson

from cache import Entry
from gateway.errors import CallError

ProvenanceSource = Literal["live", "cached", "simulated"]


@dataclass(slots=True)
class Result:
    """Outcome of one call.

    `source` says where the answer came from this time and `upstream` (`live` or `simulated`) where
    it was made; `age_s` is its age in seconds, `attempts` how often the upstream was asked for it
    now, `elapsed_ms` what the call took. `data` is the JSON of the answer, cut to the caller's
    rows; the whole stays reachable by `handle`.
    """

    tool: str
    call_id: str
    elapsed_ms: float = 0.0
    attempts: int = 0
    error: CallError | None = None
    entry: Entry | None = None
    data: bytes = b"null"
    truncated: bool = False
    handle: str | None = None
    source: ProvenanceSource = "live"
    age_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def value(self) -> Any:
        """The decoded answer: a list of records for a table, any JSON value for a document."""
        return orjson.loads(self.data)

    def provenance(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "upstream": self.entry.upstream if self.entry else None,
            "age_s": self.age_s,
            "snapshot": None,
            "attempts": self.attempts,
            "elapsed_ms": self.elapsed_ms,
            "call_id": self.call_id,
        }

    def to_json(self) -> bytes:
        """The envelope. Kept answers are joined from bytes, never decoded and encoded again."""
        tool = orjson.dumps(self.tool)
        if self.error is not None or self.entry is None:
            error = self.error.to_dict() if self.error else None
            return b'{"ok":false,"tool":%b,%b' % (
                tool,
                orjson.dumps({"error": error, "call_id": self.call_id})[1:],
            )
        rest = orjson.dumps(
            {
                "columns": self.entry.columns,
                "rows": self.entry.rows,
                "truncated": self.truncated,
                "handle": self.handle,
                "provenance": self.provenance(),
            }
        )
        return b'{"ok":true,"tool":%b,"data":%b,%b' % (tool, self.data, rest[1:])
