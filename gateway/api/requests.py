"""Reads the bodies of requests, bounded in size and in time."""

import asyncio
import re
import time
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TypeGuard

from aiohttp import StreamReader, hdrs, web

from gateway.access.rejection import BadRequest
from gateway.api.sending import connection_of, holder_of
from gateway.errors import ErrorCode

MAX_BODY = 2**20
"""The largest size, in bytes, of a body that is read whole, or of a line of one read by lines."""

BODY_S = 20.0
"""Seconds within which a whole body, or each line of a body read by lines, must arrive."""

STOOD_S = 0.1
"""Seconds of delay in noticing a deadline that show that the gateway itself was stalled."""

PIECE = 2**18
"""Bytes that are decompressed at once."""

MOST_RATIO = 100
"""A compressed body may become so many times as long as it was sent, and `MAX_BODY` more. JSON
calls become 20 to 40 times as long.
"""

LINES_AT_ONCE = 100
"""Lines of one body that are read before the event loop has its turn."""

CHUNKS_AT_ONCE, LEAST_CHUNK = 64, 64
"""More chunks than this at once that are shorter than this on average, in bytes, are tiny ones."""

_BLANK_LINES = re.compile(rb"[ \t\r\n]*\n")


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
    """Yield the lines of a body as they arrive. `with_empty` yields one empty line for those that
    arrive together. Raises `BadRequest`.
    """
    rest, deadline, read = bytearray(), _Deadline(), 0
    async with aclosing(_pieces(request, deadline)) as pieces:
        async for piece in pieces:
            start, is_empty = 0, False
            while (end := piece.find(b"\n", start)) >= 0:
                if len(rest) + end - start > MAX_BODY:
                    raise _too_large("a line")
                line = bytes(rest) + piece[start:end]
                rest.clear()
                start = end + 1
                if line.strip():
                    deadline.renew()
                    yield line
                    read += 1
                    if read % LINES_AT_ONCE == 0:
                        await asyncio.sleep(0)
                else:
                    is_empty = True
                    if (blanks := _BLANK_LINES.match(piece, start)) is not None:
                        start = blanks.end()
            rest += piece[start:]
            if len(rest) > MAX_BODY:
                raise _too_large("a line")
            if is_empty and with_empty:
                deadline.renew()
                yield b""
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

    def give_back(self, lost_s: float) -> None:
        self._at += lost_s

    async def arrival(self, content: StreamReader) -> None:
        """Wait until there are bytes to read, or the end. Raises `BadRequest`."""
        while not (content.is_eof() or content._buffer or content.exception()):
            try:
                async with asyncio.timeout_at(self._at):
                    await content._wait("arrival")
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
        while chunk := await _chunk(request, deadline):
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


async def _chunk(request: web.BaseRequest, deadline: _Deadline) -> bytes:
    """Return the bytes of a body that have arrived, none at the end. Many tiny chunks, each of
    which costs as much as a long one, are read in a small share of the event loop's time. Raises
    `BadRequest`, and `RequestRejected` if too many wait.
    """
    content = request.content
    await deadline.arrival(content)
    parts = 0 if content.is_eof() else len(content._buffer)
    if parts <= CHUNKS_AT_ONCE or content._size >= parts * LEAST_CHUNK:
        return content.read_nowait()
    connection, began = connection_of(request), time.monotonic()
    async with connection.no_calls.slot(holder_of(connection)):
        chunk = content.read_nowait()  # parses what has arrived behind it
    deadline.give_back(time.monotonic() - began)
    return chunk


class _Gzip:
    """One gzip stream, decompressed in pieces, because a small stream may hold gigabytes."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._room = MAX_BODY

    def unpacked(self, packed: bytes) -> Iterator[bytes]:
        """Yield the content of the next part of the stream. Raises `BadRequest`."""
        self._room += len(packed) * MOST_RATIO
        while packed:
            try:
                piece = self._stream.decompress(packed, PIECE)
            except zlib.error:
                raise _unreadable() from None
            if self._stream.unused_data:
                raise _unreadable()
            self._room -= len(piece)
            if self._room < 0:
                text = f"a compressed body may become {MOST_RATIO} times as long, and no more"
                raise BadRequest(text, ErrorCode.TOO_LARGE)
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


def _too_large(what: str) -> BadRequest:
    return BadRequest(f"{what} is over {MAX_BODY} bytes", ErrorCode.TOO_LARGE)


def _unreadable() -> BadRequest:
    return BadRequest("the body can't be decoded")
