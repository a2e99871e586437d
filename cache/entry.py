"""One kept answer: the ready JSON of `data` and what is known about where it came from."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from cache.frame import FrameError, pack, unpack


@dataclass(slots=True, frozen=True)
class View:
    """What of an entry is given back: its data, whether that left rows out, and `columns`, `rows`
    and `truncated` as the inside of a JSON object.
    """

    data: bytes
    truncated: bool
    about: bytes


@dataclass(slots=True, frozen=True)
class Entry:
    """A kept answer.

    `data` of a table is an array with one record a line (`[{..},\\n{..}]`), so that rows can be cut
    without decoding. `recorded_at` is the Unix time at which upstream had answered, `latency_ms`
    what that took; `upstream` is `live` or `simulated`.
    """

    data: bytes
    columns: tuple[str, ...] | None
    rows: int | None
    recorded_at: float
    latency_ms: float
    upstream: str
    views: dict[int, "View"] = field(default_factory=dict, compare=False, repr=False)

    @property
    def size(self) -> int:
        """Bytes that this entry may hold with one view, for the bounds of the tiers."""
        return 2 * len(self.data) + 600

    def view(self, rows: int) -> "View":
        """The entry cut to at most `rows` records. The last view asked for is kept."""
        view = self.views.get(rows)
        if view is None:
            self.views.clear()
            whole = self.rows is None or self.rows <= rows
            data = self.data if whole else self.page(0, rows)
            about = {"columns": self.columns, "rows": self.rows, "truncated": not whole}
            view = self.views[rows] = View(data, not whole, orjson.dumps(about)[1:-1])
        return view

    def page(self, offset: int, limit: int) -> bytes:
        """Records `offset` to `offset + limit` of a table, as a JSON array."""
        if self.rows is None:
            raise ValueError("only a table has pages")
        end = min(offset + limit, self.rows)
        records = self.data[1:-1].split(b",\n", end)  # what stands behind the page is left whole
        return b"[" + b",\n".join(records[offset:end]) + b"]"

    @property
    def head(self) -> dict[str, Any]:
        """Everything but the data, for the head of a frame."""
        return {
            "columns": self.columns,
            "rows": self.rows,
            "recorded_at": self.recorded_at,
            "latency_ms": self.latency_ms,
            "upstream": self.upstream,
        }

    def encode(self, key: str) -> bytes:
        """The entry as a frame that says which key it stands under."""
        return pack({"key": key, **self.head}, self.data)

    @classmethod
    def decode(cls, frame: bytes, key: str) -> "Entry":
        """Inverse of `encode`. Raises `FrameError`, also for a frame of another key."""
        head, data = unpack(frame)
        if head.pop("key", None) != key:
            raise FrameError("a frame of another key")
        return cls.of(head, data)

    @classmethod
    def of(cls, head: dict[str, Any], data: bytes) -> "Entry":
        """Inverse of `head` and `data`. Raises `FrameError`."""
        try:
            columns = head.pop("columns")
            return cls(data=data, columns=None if columns is None else tuple(columns), **head)
        except (KeyError, TypeError) as error:
            raise FrameError(f"not an entry: {error}") from None
