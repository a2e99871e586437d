"""Compresses the bodies of HTTP answers: zstd (RFC 8878), br (RFC 7932), gzip (RFC 1952)."""

import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module

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

ZSTD_LEVEL, BR_QUALITY, GZIP_LEVEL = 3, 4, 1


@lru_cache(256)
def coding_for(accept_encoding: str, *, is_long: bool) -> str | None:
    """The coding of a body for a client that sends this header. Of equal ones the first is taken; a
    short body is compressed only if it is not accepted otherwise. A header that accepts neither a
    coding of ours nor a plain body is disregarded, as RFC 9110 (12.1) permits: then the body is
    sent as it is, for a client may be able to read it all the same.
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
    """A response whose body is compressed while it is prepared, in a thread if it is long."""

    def __init__(
        self,
        parts: Sequence[bytes],
        *,
        status: int,
        headers: Mapping[str, str],
        content_type: str,
        coding: str | None,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.content_type = content_type
        self._parts = parts
        self._coding = coding
        if coding is not None:
            self.headers[hdrs.CONTENT_ENCODING] = coding

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if not self.prepared:
            if self._coding is not None:
                self._parts = (await _compressed(self._coding, b"".join(self._parts)),)
            self.content_length = sum(map(len, self._parts))
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        if self._req is not None and not self._must_be_empty_body:
            if (self.content_length or 0) >= LONG:
                await send(self._req, self._parts)
            else:
                data = b"".join(self._parts)
        await super().write_eof(data)


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


async def _compressed(coding: str, body: bytes) -> bytes:
    def compress() -> bytes:
        feed, end = compressor(coding)
        return feed(body) + end()

    return compress() if len(body) <= COMPRESS_HERE else await to_thread.run_sync(compress)
