"""Sends one HTTP request to an upstream; every failure becomes an `UpstreamFault`.

A persistent connection may end just when a request is sent on it (RFC 9112, section 9.5). The fault
is then `dropped`, and for a while each request to that upstream gets a new connection.

No redirect is followed, no cookie stored, no proxy taken from the environment. A body is read and
decompressed up to a bound, in steps that block the event loop for less than 5 ms. A connection
whose body was not read to its end is closed.
"""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

from adapters.connector import IS_KEPT, Connector, PrivateAddressError
from adapters.fault import Kind, UpstreamFault
from adapters.normalise import MAX_BYTES

CONNECT_S = 5.0
UNKEPT_S = 300.0
"""Seconds without persistent connections to an upstream that ended one when a request was sent."""

CHUNK = 2**16
STEP = 2**18  # bytes decompressed before yielding to the event loop: about 0.5 ms
REFUSAL_BYTES, REFUSAL_S = 2**16, 2.0  # bounds on reading the body of a refusal

_TIMEOUT = aiohttp.ClientTimeout(sock_connect=CONNECT_S)
_ACCEPTED = {"Accept-Encoding": "gzip, deflate"}
IDENTITY = {"Accept-Encoding": "identity"}
_ENCODINGS = {"": "", "identity": "", "gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}
_ENDED = (
    *(aiohttp.ClientOSError, aiohttp.ServerDisconnectedError),
    aiohttp.ClientConnectionResetError,
)
_BROKE_OFF = "the upstream broke off in the middle of its answer"
_PRIVATE = (
    "the upstream's public name has an address of a private network, which is not called unless "
    "its provider says allow_private"
)
_NONE = "the upstream closed the connection before it answered"


@dataclass(frozen=True, slots=True)
class Reply:
    """An upstream's reply. Over status 299 the body is empty unless it came whole and soon."""

    status: int
    headers: Mapping[str, str]
    charset: str | None
    body: bytes | bytearray

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Session:
    """Connections to upstreams, as `send` needs them. Made by `open_session`."""

    _kept: aiohttp.ClientSession
    _single: aiohttp.ClientSession
    _unkept_until: dict[URL, float] = field(default_factory=dict)

    def connections(self, url: URL, *, fresh: bool) -> aiohttp.ClientSession:
        """Return the connections that a request may use: persistent ones unless it is `fresh`."""
        if self._unkept_until:
            fresh = fresh or time.monotonic() < self._unkept_until.get(url.origin(), 0.0)
        return self._single if fresh else self._kept

    def dropped(self, url: URL) -> None:
        """Note that a persistent connection had ended."""
        self._unkept_until[url.origin()] = time.monotonic() + UNKEPT_S


@asynccontextmanager
async def open_session(*, guarded: bool = False) -> AsyncIterator[Session]:
    """Open a session; leaving the context closes its connections. A `guarded` one connects to no
    private address on behalf of a public name.
    """
    async with (
        _connections(force_close=False, guarded=guarded) as kept,
        _connections(force_close=True, guarded=guarded) as single,
    ):
        yield Session(kept, single)


def _connections(*, force_close: bool, guarded: bool) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=Connector(force_close=force_close, guarded=guarded),  # the gateway has limits
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,  # aiohttp would decompress without a bound and without yielding
        trust_env=False,
        middlewares=(_once,),
        headers=_ACCEPTED,
        skip_auto_headers=("Content-Type",),  # aiohttp would send one without a body
        timeout=_TIMEOUT,
    )


class _NoAnswer(Exception):
    """The connection ended before there was an answer; the text says how."""


async def _once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send a request only once. aiohttp would repeat a GET after a reset, and the key's quota would
    not count the repetition.
    """
    try:
        return await send(request)
    except _ENDED as error:
        if isinstance(getattr(error, "os_error", None), PrivateAddressError):
            raise UpstreamFault("invalid", _PRIVATE) from None
        raise _NoAnswer(_trouble(error, _NONE)) from None


async def send(
    session: Session,
    url: URL,
    headers: Mapping[str, str],
    timeout_s: float,
    learn: Callable[[int, Mapping[str, str]], None] = lambda _status, _headers: None,
    *,
    fresh: bool = False,
    method: str = "GET",
    body: bytes | None = None,
    most: int = MAX_BYTES,
) -> Reply:
    """Send a request and return the reply, whose body has at most `most` bytes. `learn` gets status
    and headers as soon as they arrive.

    A `fresh` request has a connection of its own. Raises `UpstreamFault` (`timeout`, `unreachable`,
    `dropped`, `too_large`, `invalid`).
    """
    connections = session.connections(url, fresh=fresh)
    try:
        async with (
            asyncio.timeout(timeout_s),
            connections.request(
                method, url, headers=headers, data=body, allow_redirects=False
            ) as response,
        ):
            learn(response.status, response.headers)
            is_ok = 200 <= response.status < 300
            content = await (read_body(response, most) if is_ok else _words(response))
            return Reply(response.status, response.headers, response.charset, content)
    except _NoAnswer as trouble:
        if IS_KEPT.get():
            session.dropped(url)
            raise UpstreamFault("dropped", str(trouble), retryable=True) from None
        raise UpstreamFault("unreachable", str(trouble), retryable=True) from None
    except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
        kind: Kind = "timeout" if isinstance(error, TimeoutError) else "unreachable"
        raise UpstreamFault(kind, _trouble(error), retryable=True) from None


async def read_body(response: aiohttp.ClientResponse, most: int) -> bytes | bytearray:
    """Read the body of a session without `auto_decompress`, and decompress it. Raises
    `UpstreamFault` and closes the connection if it is over `most` bytes or can't be decompressed.
    """
    try:
        if (response.content_length or 0) > most:
            raise UpstreamFault("too_large", f"the answer is over {most} bytes")
        said = response.headers.get("Content-Encoding", "").strip().lower()
        encoding = _ENCODINGS.get(said)
        if encoding is None:
            raise UpstreamFault("invalid", "the answer has a content coding that was not asked for")
        if not encoding and _is_short(response):
            return await response.content.read()
        inflater = _Inflater(encoding) if encoding else None
        body = bytearray()
        async for chunk in response.content.iter_chunked(CHUNK):
            for piece in inflater.pieces(chunk) if inflater else (chunk,):
                body += piece
                if len(body) > most:
                    raise UpstreamFault("too_large", f"the answer is over {most} bytes")
                if inflater:
                    await asyncio.sleep(0)
        if inflater and not inflater.is_complete:
            raise UpstreamFault("unreachable", _BROKE_OFF, retryable=True)
        return body
    except UpstreamFault:
        response.close()
        raise


def _is_short(response: aiohttp.ClientResponse) -> bool:
    """Whether the framing of the response bounds its body to `CHUNK` bytes."""
    return (
        0 <= (response.content_length or -1) <= CHUNK
        and "Transfer-Encoding" not in response.headers
    )


async def _words(response: aiohttp.ClientResponse) -> bytes | bytearray:
    """Read the body of a client error. Failures to read it are ignored, since the status counts."""
    if 400 <= response.status < 500:
        with suppress(UpstreamFault, aiohttp.ClientError, OSError):  # TimeoutError is an OSError
            async with asyncio.timeout(REFUSAL_S):
                return await read_body(response, REFUSAL_BYTES)
    return b""


class _Inflater:
    """Decompresses gzip (RFC 1952) or deflate, in zlib's frame (RFC 1950) or without a frame."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._stream: zlib._Decompress | None = None

    @property
    def is_complete(self) -> bool:
        return self._stream is None or self._stream.eof

    def pieces(self, packed: bytes) -> Iterator[bytes]:
        """Yield the content of `packed`, at most `STEP` bytes at a time. Raises `UpstreamFault`."""
        full = False
        while packed or full:
            if self._stream is None or (self._stream.eof and packed):
                self._stream = zlib.decompressobj(self._window_bits(packed[0]))
            try:
                piece = self._stream.decompress(packed, STEP)
            except zlib.error:
                text = f"the answer is not the {self._encoding} that it says it is"
                raise UpstreamFault("invalid", text) from None
            full = len(piece) == STEP
            packed = self._stream.unconsumed_tail or self._stream.unused_data
            yield piece

    def _window_bits(self, first: int) -> int:
        if self._encoding == "gzip":
            return 16 + zlib.MAX_WBITS
        return zlib.MAX_WBITS if first & 0xF == zlib.DEFLATED else -zlib.MAX_WBITS


def _trouble(error: Exception, otherwise: str = _BROKE_OFF) -> str:
    """Describe a failure, without naming an address."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "the upstream's name has no address (DNS)"
        case aiohttp.ClientConnectorCertificateError():
            return "the upstream's TLS certificate is not valid"
        case aiohttp.ClientSSLError():
            return "no TLS connection to the upstream"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return "the upstream refuses connections"
        case aiohttp.ClientConnectorError():
            return "no connection to the upstream"
        case aiohttp.ConnectionTimeoutError():
            return "no connection to the upstream in time"
        case TimeoutError():
            return "the upstream did not answer in time"
        case aiohttp.ClientResponseError():
            return "the upstream does not answer in HTTP"
    return otherwise
