"""One cached answer: the ready JSON of `data`, and where and when it was made."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson

from cache.frame import FrameError, pack, unpack
from cache.order import DateColumn, DateOrder, date_order, record_at
from cache.records import picked

_LINE = orjson.OPT_APPEND_NEWLINE
_STEP = 2**12  # lines are counted in steps of this many bytes, not one by one

PIECE = 2**20
"""Bytes of a table that are parsed at a time."""

MAX_VALUES = 2**22
"""Most values in one document or piece of a table; a parsed value may take a hundred bytes."""

_UPSTREAM = re.compile("[a-z_]{1,32}")
_DIGEST = re.compile("[0-9a-f]{40}")  # both are copied into envelopes unchanged
INVENTED = "simulated_invented"
"""The upstream of an answer that a simulated upstream made from its columns alone."""

LATEST = 1e11
"""The latest Unix time that can be so: in the year 5138."""


@dataclass(slots=True)
class View:
    """The part of an entry that an answer returns.

    `data` holds the rows and `truncated` says whether some were left out. `about` goes beside the
    data into an envelope, as the inside of a JSON object. `offset` is the number of rows before
    those of the data; `shown` says in words which rows these are, if some were left out.
    `is_text` says whether the data is a text into which the answer was shortened.
    """

    data: bytes
    truncated: bool
    about: bytes
    offset: int = 0
    shown: str | None = None
    is_text: bool = False
    _quoted: bytes | None = None

    @property
    def quoted(self) -> bytes:
        """Data and `about`, escaped for a JSON string, on one line; made on first use."""
        if self._quoted is None:
            self._quoted = quoted(b'"data":%b,%b' % (self.data, self.about))
        return self._quoted


def quoted(json: bytes) -> bytes:
    """A piece of JSON, escaped for a JSON string."""
    return json.replace(b"\n", b"").replace(b"\\", rb"\\").replace(b'"', rb"\"")


@dataclass(slots=True, frozen=True)
class Entry:
    """A cached answer.

    `data` of a table is an array with one record a line (`[{..},\\n{..}]`), so that rows can be cut
    without decoding. `recorded_at` is the Unix time at which upstream had answered, `latency_ms`
    the time that this took; `upstream` is `live`, `simulated`, `INVENTED`, or `recorded`. `digest`
    (BLAKE2b-160, 40 hex digits) covers data, columns, rows and upstream. If it is not given, it is
    computed (1 ms a MB). `tool` is the tool that answered, and `lied` what a simulated
    upstream made wrong on purpose, if anything.
    """

    data: bytes
    columns: tuple[str, ...] | None
    rows: int | None
    recorded_at: float
    latency_ms: float
    upstream: str
    digest: str = ""
    tool: str = field(default="", compare=False)
    lied: str | None = field(default=None, compare=False)
    views: dict[int, "View"] = field(default_factory=dict, compare=False, repr=False)
    _order: tuple[DateOrder | None] | None = field(
        default=None, init=False, compare=False, repr=False
    )

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
        """Distinguishes the answers to one call."""
        return self.digest[:16]

    @property
    def size(self) -> int:
        """The most bytes that this entry takes with one view, for the bounds of the tiers."""
        return 3 * len(self.data) + 1_500

    @property
    def order(self) -> DateOrder | None:
        """How a table is ordered by date, or None; found on first use."""
        if self._order is None:
            found = date_order(self.data, self.columns or (), self.rows or 0)
            object.__setattr__(self, "_order", (found,))
            return found
        return self._order[0]

    def view(self, rows: int) -> "View":
        """The entry cut to at most `rows` records: the last ones if dates rise from row to row,
        else the first ones. The entry keeps the view that was made last.
        """
        view = self.views.get(rows)
        if view is None:
            self.views.clear()
            view = self.views[rows] = self._view(rows)
        return view

    def _view(self, limit: int) -> "View":
        about: dict[str, Any] = {"columns": self.columns, "rows": self.rows}
        if self.rows is None or self.rows <= limit:
            data, offset, shown = self.data, 0, None
        else:
            offset = self.rows - limit if self.order is not None and self.order.rises else 0
            start, end = self._place(offset, limit)
            data, shown = b"[%b]" % self.data[start:end], self._said(offset, limit, start, end)
        is_cut = shown is not None
        about |= {"truncated": is_cut, "offset": offset, "shown": shown}
        return View(data, is_cut, orjson.dumps(about)[1:-1], offset, shown)

    def _said(self, offset: int, limit: int, start: int, end: int) -> str:
        """Which rows these are, in words for an envelope."""
        said = f"rows {offset + 1}-{offset + limit} of {self.rows}"
        if self.order is None:
            return said
        column = DateColumn(self.data, self.order.column)
        last = max(self.data.rfind(b"\n", start, end) + 1, start)
        ends = [record_at(self.data, place) for place in (start, last)]
        if None in map(column.date, ends):
            return said
        return "{}, from {} to {}".format(said, *map(column.text, ends))

    def page(self, offset: int, limit: int, columns: Sequence[str] | None = None) -> bytes:
        """Records `offset` to `offset + limit` of a table, as a JSON array, with all columns or
        only `columns`. Takes 0.1 ms a thousand rows, and 10 ms where columns are picked.
        """
        if self.rows is None:
            raise ValueError("only a table has pages")
        start, end = self._place(offset, limit)
        page = b"[%b]" % self.data[start:end]
        return page if columns is None else picked(page, columns)

    def pieces(self) -> Iterator[bytes]:
        """The table as arrays of about `PIECE` bytes, with one record a line."""
        return pieces_of(self.data)

    def _place(self, offset: int, limit: int) -> tuple[int, int]:
        """Where those records begin and end, found from the nearer end of the table."""
        rows, end = self.rows or 0, len(self.data) + 1  # as if a separator followed the table
        stop = min(offset + limit, rows)
        if stop <= offset:
            return 0, 0
        if rows - stop < offset:
            end = self._before(end, rows - stop)
            return self._before(end, stop - offset), end - 2
        start = self._after(1, offset)
        return start, self._after(start, stop - offset) - 2

    def _before(self, place: int, records: int) -> int:
        """The start of the record that is `records` records before `place`."""
        end = place - 1
        while end > 0:
            step = max(end - _STEP, 0)
            ends = self.data.count(b"\n", step, end)
            if ends >= records:
                for _ in range(records):
                    end = self.data.rindex(b"\n", 0, end)
                return end + 1
            records -= ends
            end = step
        return 1

    def _after(self, place: int, records: int) -> int:
        """The start of the record that is `records` records after `place`."""
        while place < len(self.data):
            ends = self.data.count(b"\n", place, place + _STEP)
            if ends >= records:
                for _ in range(records):
                    place = self.data.index(b"\n", place) + 1
                return place
            records -= ends
            place += _STEP
        return len(self.data) + 1  # as if a separator followed the array

    @property
    def head(self) -> dict[str, Any]:
        """The fields of the answer without its data, for the head of a frame."""
        head = {
            "columns": self.columns,
            "rows": self.rows,
            "recorded_at": self.recorded_at,
            "latency_ms": self.latency_ms,
            "upstream": self.upstream,
            "digest": self.digest,
        }
        return head if self.lied is None else {**head, "lied": self.lied}

    def encode(self, key: str) -> bytes:
        """The entry as a frame, which includes its key."""
        return pack({"key": key, "tool": self.tool, **self.head}, self.data)

    @classmethod
    def decode(cls, frame: bytes, key: str) -> "Entry":
        """The inverse of `encode`. Raises `FrameError`, also for a frame of another key."""
        head, data = unpack(frame)
        if head.pop("key", None) != key:
            raise FrameError("a frame of another key")
        return cls.of(head, data)

    @classmethod
    def of(cls, head: dict[str, Any], data: bytes) -> "Entry":
        """The inverse of `head` and `data`. Raises `FrameError` for a missing or invalid field."""
        unfit = [name for name, fits in _FIELDS.items() if not fits(head.get(name, ...))]
        if unfit or head.keys() - _FIELDS.keys():
            raise FrameError(f"not an entry: {', '.join(unfit) or 'its fields'} can't be so")
        if (head["columns"] is None) != (head["rows"] is None):
            raise FrameError("not an entry: a table has columns and rows, a document neither")
        columns = head.pop("columns")
        return cls(data=data, columns=None if columns is None else tuple(columns), **head)

    def check(self, *, lines: bool = True) -> None:
        """Raises `FrameError` if the data is not JSON or has another number of records than `rows`.
        With `lines`, also if a table does not have one record a line, which pages rely on.

        Takes as long as parsing the data. A large table is parsed in pieces.
        """
        if self.rows is None:
            _parsed(self.data)
        elif self.rows or self.data != b"[]":
            found = sum(_records_in(piece, lines) for piece in self.pieces())
            if found != self.rows:
                raise FrameError(f"the table has {found} records, not {self.rows}")


def is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= LATEST  # type: ignore[operator]


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "columns": lambda v: v is None or (type(v) is list and all(type(name) is str for name in v)),
    "rows": lambda v: v is None or (type(v) is int and v >= 0),
    "recorded_at": is_time,
    "latency_ms": is_time,
    "upstream": lambda v: type(v) is str and _UPSTREAM.fullmatch(v) is not None,
    "digest": lambda v: type(v) is str and _DIGEST.fullmatch(v) is not None,
    "tool": lambda v: type(v) is str,
    "lied": lambda v: v in (..., None) or (type(v) is str and _UPSTREAM.fullmatch(v) is not None),
}


def pieces_of(table: bytes, size: int = PIECE) -> Iterator[bytes]:
    """A table with one record a line, as arrays of about `size` bytes. Raises `FrameError`."""
    if len(table) <= size:
        yield table
        return
    start, end = 1, len(table) - 1
    if table[:1] != b"[" or table[end:] != b"]":
        raise FrameError("the table is no JSON array")
    while start <= end:
        cut = table.find(b",\n", start + size)
        stop = end if cut < 0 else cut
        yield b"[%b]" % table[start:stop]
        start = stop + 2


def _records_in(piece: bytes, lines: bool) -> int:
    records = _parsed(piece)
    if type(records) is not list or not records:
        raise FrameError("the table is no JSON array of records")
    if lines and (piece.count(b",\n") != len(records) - 1 or {*map(type, records)} != {dict}):
        raise FrameError("the table does not have one record a line")
    return len(records)


def _parsed(text: bytes) -> Any:
    if len(text) > PIECE and sum(map(text.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise FrameError(f"the data holds over {MAX_VALUES} values")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FrameError(f"the data is not JSON: {error}") from None
