"""One row of a snapshot: a call, and what upstream answered to it, be it data or an error."""

from collections.abc import Mapping
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

    `revision` is that of the tool's manifest, `arguments` the canonical ones; `status` is `ok` or
    the code of an error, whose JSON is then the entry's data.
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
        """BLAKE2b-256 of what was asked and answered; times, machine and order are not in it."""
        said = [self.tool, self.revision, self.arguments, self.status, self.entry.digest]
        return blake2b(orjson.dumps(said), digest_size=32).digest()

    def encode(self) -> bytes:
        """The row as a frame."""
        call = {
            "key": self.key,
            "row": self.digest.hex(),
            "tool": self.tool,
            "revision": self.revision,
            "arguments": self.arguments,
            "status": self.status,
        }
        return pack({**call, **self.entry.head}, self.entry.data)

    @classmethod
    def decode(cls, frame: bytes) -> "Row":
        """Inverse of `encode`. Raises `FrameError`, also where key or digest do not match."""
        head, data = unpack(frame)
        try:
            key, digest = head.pop("key"), head.pop("row")
            call = {name: head.pop(name) for name in ("tool", "revision", "arguments", "status")}
        except KeyError as error:
            raise FrameError(f"not a row: {error}") from None
        row = cls(**call, entry=Entry.of({**head, "tool": call["tool"]}, data))
        if (row.key, row.digest.hex()) != (key, digest):
            raise FrameError("the row's key or digest is not that of its content")
        return row


@dataclass(frozen=True, slots=True)
class RowHead:
    """What a row says of itself before its data is read."""

    key: bytes
    digest: bytes
    tool: str
    status: str
    recorded_at: float
    upstream: str
    arguments: Mapping[str, Any]

    @classmethod
    def of(cls, frame: bytes) -> "RowHead":
        """From a row's frame, checked. Raises `FrameError`."""
        head = read_head(frame)
        try:
            return cls(
                bytes.fromhex(head["key"]),
                bytes.fromhex(head["row"]),
                head["tool"],
                head["status"],
                head["recorded_at"],
                head["upstream"],
                head["arguments"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FrameError(f"not a row: {error}") from None

    @property
    def rank(self) -> tuple[bool, float, bytes]:
        """Of two rows of one call the one of higher rank stands: an answer before an error, then
        the later one. A rule without regard to order, so that merging is commutative.
        """
        return self.status == OK, self.recorded_at, self.digest
