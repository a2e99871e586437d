"""Frames over a pipe, each of two big-endian 32-bit lengths, a JSON head, and a body."""

import os
import resource
import struct
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

import orjson

LENGTHS = struct.Struct(">II")


def frame(head: Mapping[str, Any], body: bytes | bytearray = b"") -> bytes:
    """Return one frame, ready to write."""
    return opening(head, len(body)) + body


def opening(head: Mapping[str, Any], body_bytes: int) -> bytes:
    """Return the part of a frame before its body."""
    text = orjson.dumps(head)
    return LENGTHS.pack(len(text), body_bytes) + text


def read_frame(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read the next frame; None if the stream has ended."""
    lengths = stream.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    head, body = LENGTHS.unpack(lengths)
    text, data = stream.read(head), stream.read(body)
    return None if len(data) < body else (orjson.loads(text), data)


def own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the pipes for frames in and out, and point the standard streams of all other code to
    the null device.
    """
    out, frames = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    return frames, out


def resident_bytes() -> int:
    """Return the resident memory of this process, 0 if unknown."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except FileNotFoundError:
        return 0
    except OSError:  # no file descriptors are left: treated as a lack of memory
        return sys.maxsize


def bound_memory(most_bytes: int) -> None:
    """Bound the memory. Code that takes more gets a `MemoryError`, or ends the process if it knows
    of none.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
