"""Compresses the bodies of HTTP answers: zstd (RFC 8878), br (RFC 7932), gzip (RFC 1952).

Most of an answer to a call is the same each time that it is given from the cache. For zstd and gzip
this part is compressed once and kept. The few bytes around it differ in each answer: they are put
before and behind it uncompressed, within the same frame or member.
"""

import sys
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from struct import pack

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from anyio import to_thread

from gateway.api.negotiation import qualities
from gateway.api.sending import LONG, send

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CODINGS = ("zstd", "br", "gzip")
"""The codings, the best first: zstd is the fastest by far, and br shorter than gzip."""

COMPRESS_FROM = 8_192
"""Size in bytes from which a body is compressed if the client accepts it."""

COMPRESS_HERE = 65_536
"""Largest body, in bytes, that is compressed on the event loop; a longer one is in a thread."""

KEPT_BYTES = 16 * 2**20
"""Bytes of compressed parts that are kept, and of the parts that they were made of."""

BLOCK = 1_024
"""Bytes of an uncompressed block: the least window that zstd has, which no block may exceed."""

ZSTD_LEVEL, BR_QUALITY, GZIP_LEVEL = 3, 4, 6


@lru_cache(256)
def coding_for(accept_encoding: str, *, is_long: bool) -> str | None:
    """The coding of a body for a client that sends this header. Of equal ones the best of ours is
    taken; a short body is compressed only if it is not accepted otherwise. A header that accepts
    neither a coding of ours nor a plain body is disregarded, as RFC 9110 (12.1) permits: then the
    body is sent as it is, for a client may be able to read it all the same.
    """
    listed = qualities(accept_encoding)
    rest = listed.get("*", 0.0)
    weights = {name: listed.get(name, rest) for name in CODINGS}
    if "x-gzip" in listed:
        weights["gzip"] = max(listed["x-gzip"], listed.get("gzip", 0.0))
    best = max(CODINGS, key=lambda name: weights[name])
    is_plain_refused = listed.get("identity", listed.get("*")) == 0
    if weights[best] <= 0 or weights[best] < listed.get("identity", 0.0):
        return None
    return best if is_long or is_plain_refused else None


class CodedResponse(web.StreamResponse):
    """A response whose body is compressed while it is prepared, in a thread if it is long. With
    `kept`, the middle one of three `parts` is compressed once for all answers that have it.
    """

    def __init__(
        self,
        parts: Sequence[bytes],
        *,
        status: int,
        headers: Mapping[str, str],
        content_type: str,
        coding: str | None,
        kept: "KeptMiddles | None" = None,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.content_type = content_type
        self._parts = parts
        self._coding = coding
        self._kept = kept
        if coding is not None:
            self.headers[hdrs.CONTENT_ENCODING] = coding

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if not self.prepared:
            if self._coding is not None:
                self._parts = (await self._coded(self._coding),)
            self.content_length = sum(map(len, self._parts))
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        if self._req is not None and not self._must_be_empty_body:
            if (self.content_length or 0) >= LONG:
                await send(self._req, self._parts)
            else:
                data = b"".join(self._parts)
        await super().write_eof(data)

    async def _coded(self, coding: str) -> bytes:
        if self._kept is not None and coding in _JOINED:
            before, middle, behind = self._parts
            return _JOINED[coding](before, await self._kept.get(coding, middle), middle, behind)
        body = b"".join(self._parts)
        return await _aside(_COMPRESS[coding], body)


class KeptMiddles:
    """The compressed middles of recent answers, for one event loop."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], tuple[bytes, bytes]] = OrderedDict()
        self.size = 0

    async def get(self, coding: str, middle: bytes) -> bytes:
        """The middle, compressed. A cached answer gives the same object each time."""
        key = coding, id(middle)
        if (found := self._kept.get(key)) is not None and found[0] is middle:
            self._kept.move_to_end(key)
            return found[1]
        made = await _aside(_MIDDLE[coding], middle)
        size = len(middle) + len(made)
        if key not in self._kept and size <= KEPT_BYTES // 4:
            self._kept[key] = middle, made
            self.size += size
            while self.size > KEPT_BYTES:
                _, gone = self._kept.popitem(last=False)
                self.size -= len(gone[0]) + len(gone[1])
        return made


async def _aside(compress: Callable[[bytes], bytes], body: bytes) -> bytes:
    if len(body) <= COMPRESS_HERE:
        return compress(body)
    return await to_thread.run_sync(compress, body)


def compressor(coding: str) -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    """Return two functions for a body that is made in pieces: one compresses a piece, the other
    ends the body.
    """
    if coding == "zstd":
        frame = zstd.ZstdCompressor(ZSTD_LEVEL)
        return frame.compress, frame.flush
    if coding == "gzip":
        member = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
        return member.compress, member.flush
    stream = import_module("brotli").Compressor(quality=BR_QUALITY)
    return stream.process, stream.finish


def _zstd(body: bytes) -> bytes:
    return zstd.compress(body, ZSTD_LEVEL)


def _br(body: bytes) -> bytes:
    compressed: bytes = import_module("brotli").compress(body, quality=BR_QUALITY)  # has no types
    return compressed


def _gzip(body: bytes) -> bytes:
    return zlib.compress(body, GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)


def _gzip_middle(middle: bytes) -> bytes:
    """Blocks of a deflate stream (RFC 1951) that end at a whole byte, without the last block."""
    stream = zlib.compressobj(GZIP_LEVEL, wbits=-zlib.MAX_WBITS)
    return stream.compress(middle) + stream.flush(zlib.Z_FULL_FLUSH)


def _gzip_joined(before: bytes, coded: bytes, middle: bytes, behind: bytes) -> bytes:
    """One gzip member: the parts around the middle are stored blocks."""
    crc = zlib.crc32(behind, zlib.crc32(middle, zlib.crc32(before)))
    size = len(before) + len(middle) + len(behind)
    stored = [
        pack("<BHH", is_last, len(piece), len(piece) ^ 0xFFFF) + piece
        for text, is_end in ((before, False), (behind, True))
        for piece, is_last in _blocks(text, is_end=is_end)
    ]
    first = -(-len(before) // BLOCK)
    trailer = pack("<II", crc, size & 0xFFFFFFFF)
    return b"".join((_GZIP_HEAD, *stored[:first], coded, *stored[first:], trailer))


def _zstd_middle(middle: bytes) -> bytes:
    """The window descriptor of a zstd frame and its blocks, none of which is marked as the last."""
    options: dict[int, int] = {
        zstd.CompressionParameter.compression_level: ZSTD_LEVEL,
        zstd.CompressionParameter.content_size_flag: 0,
        zstd.CompressionParameter.checksum_flag: 0,
    }
    frame = bytearray(zstd.compress(middle, options=options))
    place = _ZSTD_HEAD
    while True:
        header = int.from_bytes(frame[place : place + 3], "little")
        if header & 1:
            frame[place] &= 0xFE
            return bytes(frame[_ZSTD_HEAD - 1 :])
        place += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)


def _zstd_joined(before: bytes, coded: bytes, _: bytes, behind: bytes) -> bytes:
    """One zstd frame: the parts around the middle are raw blocks."""
    raw = [
        (len(piece) << 3 | is_last).to_bytes(3, "little") + piece
        for text, is_end in ((before, False), (behind, True))
        for piece, is_last in _blocks(text, is_end=is_end)
    ]
    first = -(-len(before) // BLOCK)
    return b"".join((_ZSTD_MAGIC, coded[:1], *raw[:first], coded[1:], *raw[first:]))


def _blocks(text: bytes, *, is_end: bool) -> Iterator[tuple[bytes, bool]]:
    """Pieces of at most `BLOCK` bytes, each with whether it is the last of all."""
    for place in range(0, len(text), BLOCK):
        yield text[place : place + BLOCK], is_end and place + BLOCK >= len(text)


_GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd\0"
"""The magic number, and a descriptor: no content size, no checksum, no dictionary."""

_ZSTD_HEAD = 6
"""Bytes before the first block: the magic number, the descriptor and the window descriptor."""

_Compress = Callable[[bytes], bytes]
_Join = Callable[[bytes, bytes, bytes, bytes], bytes]
_COMPRESS: Mapping[str, _Compress] = {"zstd": _zstd, "br": _br, "gzip": _gzip}
_MIDDLE: Mapping[str, _Compress] = {"zstd": _zstd_middle, "gzip": _gzip_middle}
_JOINED: Mapping[str, _Join] = {"zstd": _zstd_joined, "gzip": _gzip_joined}
