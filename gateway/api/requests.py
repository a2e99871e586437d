"""Reads the bodies of requests, bounded in size and in time."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, TypeGuard, cast

import orjson
from aiohttp import StreamReader, hdrs, web

from gateway.access.rejection import BadRequest
from gateway.errors import ErrorCode
from gateway.json_text import Repeating

MAX_BODY = 2**20
"""The largest size, in bytes, of a body that is read whole, or of a line of one read by lines."""

BODY_S = 20.0
"""Seconds within which a whole body, or each line of a body read by lines, must arrive."""

STOOD_S = 0.1
"""Seconds of delay in noticing a deadline that show that the gateway itself was stalled."""

PIECE = 2**18
"""Bytes that are decompressed at once."""


async def read_body(request: web.BaseRequest) -> bytes:
    """Return the whole body. Raises `BadRequest`."""
    if request.content.is_eof() and hdrs.CONTENT_ENCODING not in request.headers:
        return request.content.read_nowait()  # the usual case; a deadline costs 3 us
    whole = bytearray()
    async with aclosing(_pieces(request, _Deadline())) as pieces:
        async for piece in pieces:
            whole += piece
            if len(whole) > MAX_BODY:
                raise _too_large("the body")
    return bytes(whole)


async def read_lines(
    request: web.BaseRequest, *, with_empty: bool = False
) -> AsyncGenerator[bytes]:
    """Yield the lines of a body as they arrive; `with_empty` also empty ones. Raises
    `BadRequest`.
    """
    rest, deadline = bytearray(), _Deadline()
    async with aclosing(_pieces(request, deadline)) as pieces:
        async for piece in pieces:
            first, *others = piece.split(b"\n")
            rest += first
            if len(rest) > MAX_BODY:
                raise _too_large("a line")
            if others:
                for line in (bytes(rest), *others[:-1]):
                    if line.strip():
                        yield line
                    elif with_empty:
                        yield b""
                rest = bytearray(others[-1])
                deadline.renew()
    if rest.strip():
        yield bytes(rest)


class _Deadline:
    """The time by which a body, or its next line, must have arrived.

    Timers run before sockets are read. So if the gateway itself was stalled, the data that arrived
    meanwhile is read first, and the client gets the lost time back.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.renew()

    def renew(self) -> None:
        self._at = self._loop.time() + BODY_S

    async def chunk(self, content: StreamReader) -> bytes:
        """Return the next bytes, none at the end. Raises `BadRequest`."""
        while True:
            try:
                async with asyncio.timeout_at(self._at):
                    return await content.readany()
            except TimeoutError:
                late_s = self._loop.time() - self._at
                if late_s < STOOD_S:
                    text = f"nothing more of the body came within {BODY_S:g} s"
                    raise BadRequest(text) from None
                self._at += late_s + STOOD_S


async def _pieces(request: web.BaseRequest, deadline: _Deadline) -> AsyncGenerator[bytes]:
    """Yield the decompressed pieces of a body as they arrive. Raises `BadRequest`."""
    gzip = _gzip_of(request)
    try:
        while chunk := await deadline.chunk(request.content):
            if gzip is None:
                yield chunk
                continue
            for piece in gzip.unpacked(chunk):
                yield piece
                await asyncio.sleep(0)  # one chunk may unpack to very many pieces
    except web.RequestPayloadError:
        raise _unreadable() from None
    if gzip is not None:
        gzip.check_end()


class _Gzip:
    """One gzip stream, decompressed in pieces, because a small stream may hold gigabytes."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def unpacked(self, packed: bytes) -> Iterator[bytes]:
        """Yield the content of the next part of the stream. Raises `BadRequest`."""
        while packed:
            try:
                piece = self._stream.decompress(packed, PIECE)
            except zlib.error:
                raise _unreadable() from None
            if self._stream.unused_data:
                raise _unreadable()
            if piece:
                yield piece
            packed = self._stream.unconsumed_tail

    def check_end(self) -> None:
        """Raises `BadRequest` if the stream is not complete."""
        if not self._stream.eof:
            raise _unreadable()


def _gzip_of(request: web.BaseRequest) -> _Gzip | None:
    """Return the decompressor for a body, if it needs one. Raises `BadRequest`."""
    coding = request.headers.get(hdrs.CONTENT_ENCODING)
    if coding is None:
        return None
    if coding.lower() != "gzip":
        raise BadRequest("a body is sent as it is, or with Content-Encoding: gzip")
    return _Gzip()


def is_id(value: object) -> TypeGuard[str | int | float]:
    """Whether a value is a valid id of a request: a text or a whole number, also 1.0."""
    if isinstance(value, float):
        return value.is_integer() and -(2**63) < value < 2**64
    return isinstance(value, str | int) and not isinstance(value, bool)


def arguments_text(arguments: object) -> bytes | Mapping[str, Any]:
    """Return arguments as JSON text, because the meaning of recent texts is cached. Arguments that
    are nested too deeply to be written, or that repeat a name, are returned unchanged. The pipeline
    refuses them in the same words as any other wrong value.
    """
    if isinstance(arguments, Repeating):
        return arguments
    try:
        return orjson.dumps(arguments)
    except orjson.JSONEncodeError:
        return cast(Mapping[str, Any], arguments)


def _too_large(what: str) -> BadRequest:
    return BadRequest(f"{what} is over {MAX_BODY} bytes", ErrorCode.TOO_LARGE)


def _unreadable() -> BadRequest:
    return BadRequest("the body can't be decoded")
