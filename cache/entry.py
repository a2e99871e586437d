"""One kept answer: the ready JSON of `data` and what is known about where it came from."""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson

from cache.frame import FrameError, pack, unpack

_LINE = orjson.OPT_APPEND_NEWLINE
_STEP = 2**12  # bytes in which lines are counted, instead of being gone through one by one


@dataclass(slots=True)
class View:
    """What of an entry is given back: its data, whether that left rows out, and `columns`, `rows`
    and `truncated` as the inside of a JSON object.
    """

    data: bytes
    truncated: bool
    about: bytes
    _quoted: bytes | None = None

    @property
    def quoted(self) -> bytes:
        """Data and `about` as they stand within a JSON text, on one line; made on first use."""
        if self._quoted is None:
            self._quoted = quoted(b'"data":%b,%b' % (self.data, self.about))
        return self._quoted


def quoted(json: bytes) -> bytes:
    """A piece of JSON as it stands within a JSON text."""
    return json.replace(b"\n", b"").replace(b"\\", rb"\\").replace(b'"', rb"\"")


@dataclass(slots=True, frozen=True)
class Entry:
    """A kept answer.

    `data` of a table is an array with one record a line (`[{..},\\n{..}]`), so that rows can be cut
    without decoding. `recorded_at` is the Unix time at which upstream had answered, `latency_ms`
    what that took; `upstream` is `live` or `simulated`. `digest` (BLAKE2b-160, 40 hex digits) is
    over data, columns, rows and upstream, and is computed where it is not given: 1 ms a MB. `tool`
    is the one that answered; it is empty where an earlier version kept the entry.
    """

    data: bytes
    columns: tuple[str, ...] | None
    rows: int | None
    recorded_at: float
    latency_ms: float
    upstream: str
    digest: str = ""
    tool: str = field(default="", compare=False)
    views: dict[int, "View"] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", self.digest_of_content())

    def digest_of_content(self) -> str:
        about = orjson.dumps([self.columns, self.rows, self.upstream], option=_LINE)
        hashed = blake2b(about, digest_size=20)
        hashed.update(self.data)
        return hashed.hexdigest()

    @property
    def version(self) -> str:
        """Tells the answers to one call apart."""
        return self.digest[:16]

    @property
    def size(self) -> int:
        """Bytes that this entry may hold with one view, for the bounds of the tiers."""
        return 3 * len(self.data) + 1_500

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
        start = self._after(1, offset)
        end = self._after(start, min(limit, self.rows - offset))
        return b"[" + self.data[start : end - 2] + b"]" if end > start else b"[]"

    def _after(self, place: int, records: int) -> int:
        """Where the record begins that comes so many records after `place`."""
        while place < len(self.data):
            ends = self.data.count(b"\n", place, place + _STEP)
            if ends >= records:
                for _ in range(records):
                    place = self.data.index(b"\n", place) + 1
                return place
            records -= ends
            place += _STEP
        return len(self.data) + 1  # as if a separator stood where the array ends

    @property
    def head(self) -> dict[str, Any]:
        """What is known about the answer itself, for the head of a frame."""
        return {
            "columns": self.columns,
            "rows": self.rows,
            "recorded_at": self.recorded_at,
            "latency_ms": self.latency_ms,
            "upstream": self.upstream,
            "digest": self.digest,
        }

    def encode(self, key: str) -> bytes:
        """The entry as a frame that says which key it stands under."""
        return pack({"key": key, "tool": self.tool, **self.head}, self.data)

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
