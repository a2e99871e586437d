"""Plays the faults of `adapters/simulator/faults.py` over HTTP."""

import asyncio
import socket
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache

from aiohttp import web
from anyio import to_thread

from adapters.simulator.faults import Fault

DAY_S = 86_400.0
RETRY_AFTER_S = 2
RESET_S = 3_600
HUGE_BYTES, BOMB_BYTES = 200 * 2**20, 64 * 2**20

_BODY = b'{"symbol": "SIM", "prices": [1.5, 2.5, 3.5]}'
_JSON = {"Content-Type": "application/json"}
_ELSEWHERE = "https://elsewhere.invalid/"  # RFC 6761: a name that never has an address


async def play(fault: Fault, request: web.Request) -> web.StreamResponse:
    """Answer `request` with `fault`. Ends at the latest when the client disconnects."""
    if fault in REPLIES:
        return REPLIES[fault](request)
    with suppress(ConnectionError):  # the client has gone, or its connection was reset
        return await _play(fault, request)
    return web.Response(status=500)


async def _play(fault: Fault, request: web.Request) -> web.StreamResponse:
    match fault:
        case Fault.HANG:
            await asyncio.sleep(DAY_S)
        case Fault.RESET:
            _reset(request)
        case Fault.RESET_IN_BODY:
            async with _begun(request, len(_BODY)) as response:
                await response.write(_BODY[:9])
                await asyncio.sleep(0.02)  # a reset would overtake bytes on their way
                _reset(request)
        case Fault.HANG_IN_BODY:
            async with _begun(request, len(_BODY)) as response:
                await response.write(_BODY[:9])
                await asyncio.sleep(DAY_S)
        case Fault.DRIP:
            async with _begun(request, len(_BODY)) as response:
                for byte in _BODY:
                    await response.write(bytes([byte]))
                    await asyncio.sleep(1)
            return response
        case Fault.HUGE:
            return await _huge(request)
        case Fault.GZIP_BOMB:
            packed = await to_thread.run_sync(_bomb)
            return web.Response(body=packed, headers={**_JSON, "Content-Encoding": "gzip"})
    raise ConnectionResetError


def _status(status: int, **headers: str) -> Callable[[web.Request], web.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: web.Response(status=status, text="simulated failure", headers=named)


def _said(status: int, message: str, **headers: object) -> Callable[[web.Request], web.Response]:
    """Return an error in the form of RapidAPI's proxy."""
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return lambda _: web.json_response({"message": message}, status=status, headers=named)


def _body(body: bytes, content_type: str = "application/json") -> Callable[..., web.Response]:
    return lambda _: web.Response(body=body, headers={"Content-Type": content_type})


REPLIES: Mapping[Fault, Callable[[web.Request], web.Response]] = {
    Fault.SERVER_ERROR: _status(500),
    Fault.BAD_GATEWAY: _status(502),
    Fault.UNAVAILABLE: _status(503),
    Fault.BUSY: _status(503, Retry_After=str(RETRY_AFTER_S)),
    Fault.RATE_LIMITED: _said(429, "Too many requests", Retry_After=RETRY_AFTER_S),
    Fault.QUOTA_EXHAUSTED: _said(
        429,
        "You have exceeded the MONTHLY quota for Requests on your current plan, BASIC.",
        x_ratelimit_requests_limit=500,
        x_ratelimit_requests_remaining=0,
        x_ratelimit_requests_reset=RESET_S,
    ),
    Fault.KEY_REFUSED: _said(401, "Invalid API key."),
    Fault.NOT_SUBSCRIBED: _said(403, "You are not subscribed to this API."),
    Fault.NOT_FOUND: _said(404, "Endpoint does not exist"),
    Fault.TRUNCATED: _body(_BODY[: len(_BODY) // 2]),
    Fault.HTML: _body(b"<!doctype html><title>Just a moment...</title><p>Wait</p>", "text/html"),
    Fault.EMPTY: _body(b""),
    Fault.ERROR_OBJECT: _body(b'{"status": "error", "code": 400, "message": "no such symbol"}'),
    Fault.REDIRECT: _status(302, Location=_ELSEWHERE),
    Fault.REDIRECT_LOOP: lambda request: _status(302, Location=request.path_qs)(request),
    Fault.WRONG_CHARSET: _body(
        '{"name": "样本银行"}'.encode("gb18030"), "application/json; charset=utf-8"
    ),
}
"""Faults that consist of one complete answer."""


@asynccontextmanager
async def _begun(
    request: web.Request, length: int | None = None
) -> AsyncIterator[web.StreamResponse]:
    """Send the headers of a response that is `length` bytes long or, without `length`, chunked."""
    response = web.StreamResponse(headers=_JSON)
    response.content_length = length
    await response.prepare(request)
    yield response
    await response.write_eof()


async def _huge(request: web.Request) -> web.StreamResponse:
    """Send one long JSON array in chunks of 1 MiB."""
    part = b"0.25," * (2**20 // 5)
    async with _begun(request) as response:
        await response.write(b"[")
        for _ in range(HUGE_BYTES // len(part)):
            await response.write(part)
        await response.write(b"0]")
    return response


@cache
def _bomb() -> bytes:
    """Return 64 MiB of JSON white space as 64 KiB of gzip."""
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    parts = [packer.compress(b" " * 2**20) for _ in range(BOMB_BYTES // 2**20)]
    return b"".join([*parts, packer.flush()])


def _reset(request: web.Request) -> None:
    """Close the connection with a TCP reset, which discards unsent data."""
    transport = request.transport
    if transport is not None:
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()
