"""Snapshots: immutable files of recorded calls, with an id that is computed from their content.

The id is BLAKE2b-256 over `MAGIC` and the digests of all rows, in the order of their keys. A digest
covers tool, manifest revision, canonical arguments, status and answer, but no time. So the same
answers have the same id, whatever the order and the machine in which they were recorded.

A file is MAGIC, the rows (`cache/blocks.py`; those of a tool together), the index (key, digest,
offset, length of each row, by key), a footer in JSON and a trailer. The trailer holds a hash over
index and footer, each frame holds a hash over itself, and there is no gap between rows: every
changed byte is detected. Opening reads index and footer once and keeps neither; a look-up is a
binary search.
"""

import heapq
import os
import re
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from cache.blocks import PREFIX, Damage, Torn, blocks
from cache.entry import LATEST
from cache.frame import MAX_FRAME, FrameError
from cache.row import Row, RowHead
from manifests.common.problem import first_problem
from manifests.common.regular_file import open_regular

MAGIC = b"finport-snapshot-1\n"
JOURNAL = b"finport-journal-1 "
"""The first bytes of a journal, the file of a recording that has not ended."""

NEVER_CHANGES = "a snapshot never changes, so name a new file"
"""What the user can do where a snapshot exists."""

INDEX = struct.Struct(">16s32sQI")
TRAILER = struct.Struct(">QQ16s8s")
END = b"FINPORT\n"
CHUNK = 2**20
_FORMAT = re.compile(rb"finport-snapshot-(\d+)")

MAX_FOOTER = 16 * 2**20

EXAMINED = 2_000
"""The most rows of a tool that are compared to find the nearest ones."""


class SnapshotError(Exception):
    """A file is no snapshot, or has changed since it was written; the text says which and why."""


_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Time = Annotated[float, Field(ge=0, le=LATEST)]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid", strict=True))
class Summary:
    """What a snapshot holds. `statuses` counts rows by status, and `conflicts` the calls to which
    its sources had different answers. `damaged` counts the rows of its sources that could not be
    read, and `withheld` those that were left out on purpose. Times are Unix seconds.
    """

    id: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    rows: _Count
    statuses: dict[str, _Count]
    upstreams: dict[str, _Count]
    tools: dict[str, _Count]
    recorded_from: _Time
    recorded_to: _Time
    conflicts: _Count
    damaged: _Count
    withheld: _Count

    @property
    def made_by(self) -> list[str]:
        """The kinds of `upstreams`: an invented answer is `simulated` too."""
        return sorted({name.partition("_")[0] for name in self.upstreams})


_STARTS = TypeAdapter(dict[str, _Count], config=ConfigDict(strict=True))


class Snapshot:
    """An open snapshot, which any thread may read."""

    def __init__(self, path: Path) -> None:
        """Raises `SnapshotError`."""
        self.path = path
        self._arguments = lru_cache(64)(self._arguments_of)
        try:
            self._file = open_regular(path)
        except OSError as error:
            raise SnapshotError(f"{path}: {error.strerror}") from error
        with ExitStack() as opened:
            opened.callback(self.close)
            try:
                self._open()
            except ValueError as error:
                raise SnapshotError(f"{path} is no snapshot, or a damaged one: {error}") from None
            opened.pop_all()

    def _open(self) -> None:
        self.bytes = os.fstat(self._file.fileno()).st_size
        end = self.bytes - TRAILER.size
        start = os.pread(self._file.fileno(), len(MAGIC), 0)
        if start.startswith(JOURNAL):
            raise ValueError("a recording that has not ended; `finport snapshot merge` reads it")
        if (found := _FORMAT.match(start)) and found[1] != b"1":
            text = f"a snapshot of format {found[1].decode()}; this version reads format 1"
            raise SnapshotError(f"{self.path}: {text}")
        if start != MAGIC or end < len(MAGIC):
            raise ValueError("it does not begin as one, or is too short")
        self.rows_end, footer_at, digest, mark = TRAILER.unpack(self._read(end, TRAILER.size))
        if not len(MAGIC) <= self.rows_end <= footer_at <= end:
            raise ValueError("its end names places that are not in it")
        hashed = blake2b(digest_size=16)
        for at in range(self.rows_end, end, CHUNK):
            hashed.update(self._read(at, min(CHUNK, end - at)))
        if mark != END or hashed.digest() != digest:
            raise ValueError("its index or footer has changed, or its end is missing")
        if end - footer_at > MAX_FOOTER:
            raise ValueError(f"its footer is over {MAX_FOOTER} bytes")
        self.summary, self._starts = _read_footer(self._read(footer_at, end - footer_at))
        if footer_at - self.rows_end != self.summary.rows * INDEX.size:
            raise ValueError("its index has another length than its rows")

    @property
    def id(self) -> str:
        return self.summary.id

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: str) -> Row | None:
        """The row of a call, or None. Raises `SnapshotError` for a row that has changed."""
        wanted, rows = bytes.fromhex(key), range(self.summary.rows)
        place = bisect_left(rows, wanted, key=lambda n: self._entry(n)[0])
        if place == len(rows):
            return None
        found, digest, offset, length = self._entry(place)
        if found != wanted:
            return None
        with self._telling(offset):
            if length > MAX_FRAME or offset + length > self.rows_end:
                raise FrameError("the index names a place where no row can be")
            row = Row.decode(self._read(offset, length), lines=False)  # it costs half as much
            if (row.key, row.digest) != (key, digest):
                raise FrameError("another row than the index says")
        return row

    def rows(self, tool: str | None = None) -> Iterator[Row]:
        """All rows, or those of one tool. Raises `SnapshotError`."""
        for offset, frame in self._frames(tool):
            with self._telling(offset):
                row = Row.decode(frame)
            yield row

    def heads(self, tool: str) -> Iterator[RowHead]:
        """What can be said of the rows of one tool without their data. Raises `SnapshotError`."""
        for offset, frame in self._frames(tool):
            with self._telling(offset):
                head = RowHead.of(frame)
            yield head

    def nearest(
        self, tool: str, arguments: Mapping[str, Any], limit: int = 3
    ) -> list[Mapping[str, Any]]:
        """The recorded arguments of `tool` that are most like `arguments`: they differ in the
        fewest names, then in the fewest letters.
        """
        from rapidfuzz.fuzz import ratio

        wanted = str(arguments)

        def distance(recorded: Mapping[str, Any]) -> tuple[int, float]:
            names = arguments.keys() | recorded.keys()
            differing = sum(arguments.get(name) != recorded.get(name) for name in names)
            return differing, -ratio(wanted, str(recorded))

        return heapq.nsmallest(limit, self._arguments(tool), key=distance)

    def verify(self) -> list[str]:
        """Check every byte, the data of every row, the id and the footer. Returns texts
        that say what is wrong.
        """
        problems: list[str] = []
        heads: list[RowHead] = []
        places: dict[bytes, tuple[bytes, int, int]] = {}
        starts: dict[str, int] = {}
        end = len(MAGIC)
        try:
            for offset, frame in self._frames(None):
                end = offset + len(frame)
                try:
                    entry = Row.decode(frame).entry
                    if entry.digest != entry.digest_of_content():
                        raise FrameError("the digest is not that of the data")
                except FrameError as error:
                    problems.append(f"the row at byte {offset}: {error}")
                    continue
                heads.append(head := RowHead.of(frame))
                places[head.key] = (head.digest, offset, len(frame))
                starts.setdefault(head.tool, offset - PREFIX.size)
        except SnapshotError as error:
            return [*problems, str(error)]
        if end != self.rows_end:
            problems.append(f"{self.rows_end - end} bytes stand between rows and index")
        if problems:
            return problems
        for number in range(self.summary.rows):
            key, *place = self._entry(number)
            if places.get(key) != tuple(place):
                return [f"the index names a row {key.hex()} that is not there"]
        said = self.summary
        actual = summary_of(heads, said.conflicts, said.damaged, said.withheld)
        if said.id != actual.id:
            return ["the id is not that of the rows"]
        wrong = [name for name, value in asdict(actual).items() if getattr(said, name) != value]
        if wrong or starts != self._starts:
            return [f"the footer is wrong about {', '.join(wrong) or 'where tools begin'}"]
        return []

    def _entry(self, number: int) -> tuple[bytes, bytes, int, int]:
        return INDEX.unpack(self._read(self.rows_end + number * INDEX.size, INDEX.size))

    def _frames(self, tool: str | None) -> Iterator[tuple[int, bytes]]:
        start, rows = len(MAGIC), self.summary.rows
        if tool is not None:
            start, rows = self._starts.get(tool, self.rows_end), self.summary.tools.get(tool, 0)
        try:
            yield from islice(blocks(self._file, start, self.rows_end), rows)
        except (Torn, Damage) as error:
            raise SnapshotError(f"{self.path}: {error or 'a row is torn'}") from None

    def _arguments_of(self, tool: str) -> list[Mapping[str, Any]]:
        return [head.arguments for head in islice(self.heads(tool), EXAMINED)]

    @contextmanager
    def _telling(self, offset: int) -> Iterator[None]:
        try:
            yield
        except FrameError as error:
            raise SnapshotError(f"{self.path}: the row at byte {offset}: {error}") from None

    def _read(self, offset: int, length: int) -> bytes:
        read = os.pread(self._file.fileno(), length, offset)
        if len(read) < length:
            raise SnapshotError(f"{self.path} ends before byte {offset + length}")
        return read


def _read_footer(text: bytes) -> tuple[Summary, dict[str, int]]:
    """Raises `ValueError` if the text is no footer."""
    footer = orjson.loads(text)
    if type(footer) is not dict or "starts" not in footer:
        raise ValueError("its footer is none")
    try:
        starts = _STARTS.validate_python(footer.pop("starts"))
        return Summary(**footer), starts
    except ValidationError as error:
        raise ValueError(f"its footer is none: {first_problem(error)}") from None


def summary_of(heads: Sequence[RowHead], conflicts: int, damaged: int, withheld: int) -> Summary:
    """The summary of a snapshot with these rows."""
    hashed = blake2b(MAGIC, digest_size=32)
    for head in sorted(heads, key=lambda head: head.key):
        hashed.update(head.digest)
    times = [head.recorded_at for head in heads]
    return Summary(
        id=hashed.hexdigest(),
        rows=len(heads),
        statuses=dict(sorted(Counter(head.status for head in heads).items())),
        upstreams=dict(sorted(Counter(head.upstream for head in heads).items())),
        tools=dict(sorted(Counter(head.tool for head in heads).items())),
        recorded_from=min(times, default=0.0),
        recorded_to=max(times, default=0.0),
        conflicts=conflicts,
        damaged=damaged,
        withheld=withheld,
    )
