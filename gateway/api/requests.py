"""Bodies of requests: bounded in size, and in how long they may take to come."""

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
"""Bytes of a body that is read as one, and of a line of one that is not."""

BODY_S = 20.0
"""Seconds that a body may take, and within which a line of one that is read by lines must come."""

STOOD_S = 0.1
"""A deadline that is noticed so late was noticed by a gateway that had stood still."""

PIECE = 2**18
"""Bytes that are unpacked at once."""


async def read_body(request: web.BaseRequest) -> bytes:
    """The whole body. Raises `BadRequest`."""
    if request.content.is_eof() and hdrs.CONTENT_ENCODING not in request.headers:
        return request.content.read_nowait()  # as it mostly is: a deadline costs 3 us
    whole = bytearray()
    async with aclosing(_pieces(request, _Deadline())) as pieces:
        async for piece in pieces:
            whole += piece
            if len(whole) > MAX_BODY:
                raise _too_large("the body")
    return bytes(whole)


async def read_lines(request: web.BaseRequest) -> AsyncGenerator[bytes]:
    """The lines of a body as they come, without those that are empty. Raises `BadRequest`."""
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
                rest = bytearray(others[-1])
                deadline.renew()
    if rest.strip():
        yield bytes(rest)


class _Deadline:
    """By when a body, or its next line, must have come.

    Timers run before sockets are read. So when the gateway itself stood still, what came meanwhile
    is read first, and its client gets the lost time back.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.renew()

    def renew(self) -> None:
        self._at = self._loop.time() + BODY_S

    async def chunk(self, content: StreamReader) -> bytes:
        """What came next; nothing at the end. Raises `BadRequest`."""
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
    """What a body holds, as it comes. Raises `BadRequest`."""
    gzip = _gzip_of(request)
    try:
        while chunk := await deadline.chunk(request.content):
            if gzip is None:
                yield chunk
                continue
            for piece in gzip.unpacked(chunk):
                yield piece
                await asyncio.sleep(0)  # one chunk may hold very many
    except web.RequestPayloadError:
        raise _unreadable() from None
    if gzip is not None:
        gzip.check_end()


class _Gzip:
    """One gzip stream, unpacked in pieces: a small one may hold gigabytes."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def unpacked(self, packed: bytes) -> Iterator[bytes]:
        """What more of the stream holds. Raises `BadRequest`."""
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
        """Raises `BadRequest` where something is missing."""
        if not self._stream.eof:
            raise _unreadable()


def _gzip_of(request: web.BaseRequest) -> _Gzip | None:
    """How the body is to be unpacked, if at all. Raises `BadRequest`."""
    coding = request.headers.get(hdrs.CONTENT_ENCODING)
    if coding is None:
        return None
    if coding.lower() != "gzip":
        raise BadRequest("a body is sent as it is, or with Content-Encoding: gzip")
    return _Gzip()


def is_id(value: object) -> TypeGuard[str | int | float]:
    """Whether a request in a body may be known by this: a text or a whole number, also 1.0."""
    if isinstance(value, float):
        return value.is_integer() and -(2**63) < value < 2**64
    return isinstance(value, str | int) and not isinstance(value, bool)


def arguments_text(arguments: object) -> bytes | Mapping[str, Any]:
    """Arguments as text, since what a text means is remembered; what is nested too deeply to be
    written, or has a name twice, stays as it is: it will be refused in the same words as any other
    wrong value.
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
