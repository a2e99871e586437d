"""One row of a snapshot: a call and its outcome, data or an error."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import orjson

from cache.entry import Entry
from cache.frame import FrameError, pack, read_head, unpack
from cache.key import call_key, key_prefix

OK = "ok"


@dataclass(frozen=True)
class Row:
    """A recorded call.

    `revision` is the revision of the tool's manifest, and `arguments` are the canonical ones.
    `status` is `ok` or the code of an error. The JSON of an error is the entry's data.
    """

    tool: str
    revision: str
    arguments: Mapping[str, Any]
    status: str
    entry: Entry

    @cached_property
    def key(self) -> str:
        """The key of the call, as in the cache."""
        return call_key(key_prefix(self.tool, self.revision), self.arguments)

    @cached_property
    def digest(self) -> bytes:
        """BLAKE2b-256 of the call and its answer; no time, machine or order is in it."""
        said = [self.tool, self.revision, self.arguments, self.status, self.entry.digest]
        return blake2b(orjson.dumps(said), digest_size=32).digest()

    def check(self, *, lines: bool = True) -> None:
        """Raises `FrameError` if the data does not match the status or the entry's head (see
        `Entry.check`).
        """
        self.entry.check(lines=lines)
        if self.status != OK:
            said = orjson.loads(self.entry.data)
            if type(said) is not dict or said.get("code") != self.status:
                raise FrameError(f"the data is no error of code {self.status}")

    @property
    def head(self) -> dict[str, Any]:
        """The fields of the row without its entry, for the head of a frame."""
        return {
            "key": self.key,
            "row": self.digest.hex(),
            "tool": self.tool,
            "revision": self.revision,
            "arguments": self.arguments,
            "status": self.status,
        }

    def encode(self) -> bytes:
        """The row as a frame. Raises `FrameError` if `decode` would."""
        self.check()
        return pack({**self.head, **self.entry.head}, self.entry.data)

    @classmethod
    def decode(cls, frame: bytes, *, lines: bool = True) -> "Row":
        """The inverse of `encode`. Raises `FrameError`, also if key or digest do not match or the
        data does not match the row (`check`).
        """
        head, data = unpack(frame)
        _check_fields(head)
        call = {name: head.pop(name) for name in _FIELDS}
        key, digest = call.pop("key"), call.pop("row")
        row = cls(**call, entry=Entry.of({**head, "tool": call["tool"]}, data))
        if (row.key, row.digest.hex()) != (key, digest):
            raise FrameError("the row's key or digest is not that of its content")
        row.check(lines=lines)
        return row


@dataclass(frozen=True, slots=True)
class RowHead:
    """The fields of a row that can be read without its data. `answer` is the entry's digest: unlike
    `digest`, it does not depend on the call or the manifest.
    """

    key: bytes
    digest: bytes
    tool: str
    status: str
    recorded_at: float
    latency_ms: float
    upstream: str
    arguments: Mapping[str, Any]
    answer: str

    @classmethod
    def of(cls, frame: bytes) -> "RowHead":
        """The head of a row's frame, checked. Raises `FrameError`."""
        head = read_head(frame)
        _check_fields(head)
        call = {name: head.pop(name) for name in _FIELDS}
        try:
            entry = Entry.of({**head, "tool": call["tool"]}, b"")
        except FrameError as error:
            raise FrameError(f"of {call['tool']}: {error}") from None
        return cls(
            bytes.fromhex(call["key"]),
            bytes.fromhex(call["row"]),
            call["tool"],
            call["status"],
            entry.recorded_at,
            entry.latency_ms,
            entry.upstream,
            call["arguments"],
            entry.digest,
        )

    @property
    def rank(self) -> tuple[bool, float, bytes]:
        """Of two rows of one call, a merge keeps the one of higher rank: an answer rather than an
        error, else the later one. The rule ignores the order of rows, so merging is commutative.
        """
        return self.status == OK, self.recorded_at, self.digest


_HEX = re.compile("(?:[0-9a-f]{2})*")

_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "key": lambda v: type(v) is str and len(v) == 32 and _HEX.fullmatch(v) is not None,
    "row": lambda v: type(v) is str and len(v) == 64 and _HEX.fullmatch(v) is not None,
    "tool": lambda v: type(v) is str,
    "revision": lambda v: type(v) is str,
    "arguments": lambda v: type(v) is dict,
    "status": lambda v: type(v) is str,
}


def _check_fields(head: Mapping[str, Any]) -> None:
    unfit = [name for name, fits in _FIELDS.items() if name not in head or not fits(head[name])]
    if unfit:
        raise FrameError(f"not a row: {', '.join(unfit)} can't be so")
