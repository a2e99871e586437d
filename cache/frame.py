"""The stored form of an answer: a head, the data as a zstd frame, and a hash over both.

A frame is 16 bytes of BLAKE2b (RFC 7693) over all that follows, one line of JSON, and a zstd frame
(RFC 8878). Bytes that differ from this form, even in a single bit, are refused with
`FrameError`. The hash is checked before anything is decoded, and nothing is guessed. A frame states
the length of its data, and a reader takes no more memory than that.
"""

import sys
import threading
from hashlib import blake2b
from typing import Any

import orjson

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FORMAT = 2
LEVEL = 3
HASH_BYTES = 16

MAX_DATA = 32 * 2**20
"""The most bytes of data in one frame: twice what an adapter accepts."""

MAX_FRAME = MAX_DATA + 4 * 2**20
"""The most bytes of a frame, with its head."""

_WITHIN: dict[int, int] = {zstd.DecompressionParameter.window_log_max: MAX_DATA.bit_length() - 1}


class FrameError(ValueError):
    """Bytes that are no frame, or no longer the frame that was written."""


class TornFrameError(FrameError):
    """Bytes whose hash is not theirs, because a write was cut off or a bit has changed."""


class _OfThread(threading.local):
    """One compressor for each thread: a new one takes longer than it takes to compress 2 KB."""

    def __init__(self) -> None:
        self.compressor = zstd.ZstdCompressor(LEVEL)


_OF_THREAD = _OfThread()


def pack(head: dict[str, Any], data: bytes) -> bytes:
    """The frame of a head and its data. Raises `FrameError` if the data is too long."""
    if len(data) > MAX_DATA:
        raise FrameError(f"the data is over {MAX_DATA} bytes")
    line = orjson.dumps({"v": FORMAT, **head}, option=orjson.OPT_APPEND_NEWLINE)
    rest = line + _OF_THREAD.compressor.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)
    return blake2b(rest, digest_size=HASH_BYTES).digest() + rest


def read_head(frame: bytes) -> dict[str, Any]:
    """The head of a frame, checked; the data is not decoded. Raises `FrameError`."""
    return _opened(frame)[0]


def unpack(frame: bytes) -> tuple[dict[str, Any], bytes]:
    """The inverse of `pack`. Raises `FrameError`."""
    head, compressed = _opened(frame)
    decompressor = zstd.ZstdDecompressor(options=_WITHIN)
    try:
        length = zstd.get_frame_info(compressed).decompressed_size
        if length is None or length > MAX_DATA:
            raise FrameError(f"the data is over {MAX_DATA} bytes, or does not say its length")
        data = decompressor.decompress(compressed, length + 1)  # room to see that it ends there
    except zstd.ZstdError as error:
        raise FrameError(f"no zstd frame: {error}") from None
    if not decompressor.eof or decompressor.unused_data:
        raise FrameError("the data is longer than it says, or not one zstd frame")
    return head, data


def _opened(frame: bytes) -> tuple[dict[str, Any], bytes]:
    if blake2b(frame[HASH_BYTES:], digest_size=HASH_BYTES).digest() != frame[:HASH_BYTES]:
        raise TornFrameError("the hash does not match: a torn or changed frame")
    end = frame.find(b"\n", HASH_BYTES)
    try:
        head = orjson.loads(frame[HASH_BYTES:end])
    except orjson.JSONDecodeError:
        raise FrameError("the head is no JSON") from None
    if end < 0 or not isinstance(head, dict) or head.pop("v", None) != FORMAT:
        raise FrameError(f"not a frame of format {FORMAT}")
    return head, frame[end + 1 :]
