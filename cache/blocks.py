"""The sequence of frames in a file, from which snapshots and journals are built.

A block is a frame with its length before it. The length is written twice (the second time with all
bits inverted), so that a reader can distinguish a changed length from a torn end. A file may end in
the middle of a block, or in zeros, where a kill or a loss of power cut a write off. Anything else
that is not a block is damage.
"""

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

from cache.frame import MAX_FRAME

PREFIX = struct.Struct(">II")
_ALL = 0xFFFFFFFF
_CHUNK = 2**20


class Damage(Exception):
    """Bytes were written at a place, but they are no block; the text says where."""


class Torn(Exception):
    """The blocks end before the file does, because the last write was cut off."""


def block(frame: bytes) -> bytes:
    """A frame as it is written to a file."""
    return PREFIX.pack(len(frame), len(frame) ^ _ALL) + frame


def blocks(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Every frame between two offsets of a file, with its own offset. Does not read the frames.

    Raises `Torn` and `Damage`.
    """
    while start < end:
        prefix = os.pread(file.fileno(), min(PREFIX.size, end - start), start)
        if len(prefix) < PREFIX.size:
            raise Torn
        length, turned = PREFIX.unpack(prefix)
        if length ^ _ALL != turned:
            if _is_zero(file, start, end):
                raise Torn
            raise Damage(f"no row begins at byte {start}")
        start += PREFIX.size
        if start + length > end:
            raise Torn
        if length > MAX_FRAME:
            raise Damage(f"the row at byte {start} is over {MAX_FRAME} bytes")
        yield start, os.pread(file.fileno(), length, start)
        start += length


def _is_zero(file: BinaryIO, start: int, end: int) -> bool:
    places = range(start, end, _CHUNK)
    return not any(any(os.pread(file.fileno(), min(_CHUNK, end - at), at)) for at in places)
