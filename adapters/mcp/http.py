"""Sends the requests of the SDK's client to an MCP server over HTTP, with the gateway's bounds.

Each failure of a request becomes an error of that request alone: raised, it would end the client
and all other calls with it. No proxy is taken from the environment, no cookie is kept, and the SDK
follows no redirect to another origin. Answers are not compressed, so that their size is known.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Final

import httpx2
import orjson

from adapters.mcp.errors import INVALID, LATE, STATUS, TOO_LARGE, UNREACHABLE
from adapters.normalise import MAX_BYTES
from manifests.common.addresses import is_public_address, is_public_name
from manifests.common.threads import in_daemon

CONNECT_S: Final = 5.0
MAX_STREAM: Final = 4 * MAX_BYTES
"""The most bytes of one stream of events, in many of which none is an answer."""

_RESUMED: Final = 100
"""How often a connection takes up streams that broke off."""

_ADDRESS_S: Final = 60.0
"""How long the address of a name is used before the name is looked up again."""

_LISTEN: Final = "subscriptions/listen"  # lasts as long as the connection
_PLAIN: Final = {"identity", ""}


class PrivateAddress(Exception):
    """A public name has a private address."""


class Transport(httpx2.AsyncBaseTransport):
    """Requests to one origin. `silence_s` is how long a stream that answers a request may last."""

    def __init__(self, *, allow_private: bool, silence_s: float) -> None:
        context = ssl.create_default_context()
        self._inner = httpx2.AsyncHTTPTransport(verify=context, trust_env=False, retries=0)
        self._allow_private = allow_private
        self._silence_s = silence_s
        self._resumed = 0
        self._looked_up: tuple[str, str, float] | None = None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET" and "last-event-id" in request.headers:
            self._resumed += 1
            if self._resumed > _RESUMED:
                return httpx2.Response(405)
        if request.method == "GET" or request.headers.get("mcp-method") == _LISTEN:
            return _bounded(await self._answered(request, None), None)
        limit_s = self._silence_s if request.method == "POST" else CONNECT_S
        until = time.monotonic() + limit_s
        try:
            async with asyncio.timeout(limit_s):
                response = await self._answered(request, limit_s)
                if request.method != "POST":
                    return response
                return await _taken(response, until)
        except PrivateAddress as error:
            return _error(UNREACHABLE, str(error))
        except (TimeoutError, httpx2.TimeoutException) as error:
            self._looked_up = None
            if isinstance(error, httpx2.ConnectTimeout):
                return _error(UNREACHABLE, "no connection to the server in time")
            return _error(LATE, f"the server did not answer within {limit_s:.3g} s")
        except (httpx2.TransportError, OSError) as error:
            self._looked_up = None
            return _error(UNREACHABLE, _trouble(error))

    async def _answered(self, request: httpx2.Request, limit_s: float | None) -> httpx2.Response:
        address = None if self._allow_private else await self._address(request.url)
        timeout = httpx2.Timeout(limit_s, connect=CONNECT_S).as_dict()
        extensions = {**request.extensions, "timeout": timeout}
        url = request.url
        if address is not None:
            extensions["sni_hostname"] = url.host
            url = url.copy_with(host=address)
        sent = httpx2.Request(
            request.method,
            url,
            headers=request.headers,  # the Host header is among them
            stream=request.stream,
            extensions=extensions,
        )
        return await self._inner.handle_async_request(sent)

    async def _address(self, url: httpx2.URL) -> str | None:
        """The address of a public name, so that the connection goes where the check looked; None
        for an address or a name of this network, which the operator means as it stands.

        Raises `PrivateAddress`.
        """
        host, now = url.host, time.monotonic()
        if not is_public_name(host):
            return None
        if self._looked_up is not None:
            known, address, until = self._looked_up
            if known == host and now < until:
                return address
        look_up = partial(socket.getaddrinfo, host, url.port or 443, type=socket.SOCK_STREAM)
        try:
            async with asyncio.timeout(CONNECT_S):
                found = await in_daemon(look_up)
        except (OSError, UnicodeError):  # TimeoutError is one; a label may be too long
            raise httpx2.ConnectError("its name has no address (DNS)") from None
        addresses = [str(address[0]) for *_, address in found]
        if not all(map(is_public_address, addresses)):
            text = f"{host} is a public name with a private address; allow_private permits that"
            raise PrivateAddress(text)
        self._looked_up = host, addresses[0], now + _ADDRESS_S
        return addresses[0]


async def _taken(response: httpx2.Response, until: float) -> httpx2.Response:
    """The answer to a request, whose body is bounded, or an error in its place."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in _PLAIN:
        await response.aclose()
        return _error(INVALID, "the answer has a content coding that was not asked for")
    if kind == "text/event-stream" and response.status_code < 300:
        return _bounded(response, until)
    body = bytearray()
    async for chunk in _stream_of(response):
        body += chunk
        if len(body) > MAX_BYTES:
            await response.aclose()
            return _error(TOO_LARGE, f"the answer is over {MAX_BYTES} bytes")
    await response.aclose()
    if response.status_code == 200 and body and kind != "application/json":
        return _error(INVALID, "the server answered with something else than JSON")
    has_failed = response.status_code >= 400 and response.status_code not in (400, 404)
    if has_failed and not (kind == "application/json" and _is_message(body)):
        said = {"status": response.status_code, "retry_after": response.headers.get("retry-after")}
        return _error(STATUS, f"the server answered {response.status_code}", said)
    return httpx2.Response(response.status_code, headers=response.headers, content=bytes(body))


def _is_message(body: bytearray) -> bool:
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(said, dict) and "jsonrpc" in said


def _error(code: int, message: str, data: Mapping[str, object] | None = None) -> httpx2.Response:
    """An answer that the SDK reads as an error of the request."""
    error = {"code": code, "message": message, **({"data": data} if data else {})}
    body = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(502, headers={"content-type": "application/json"}, content=body)


def _stream_of(response: httpx2.Response) -> httpx2.AsyncByteStream:
    assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - of this transport
    return response.stream


def _bounded(response: httpx2.Response, until: float | None) -> httpx2.Response:
    stream = _Bounded(_stream_of(response), until)
    return httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=stream,
        extensions=response.extensions,
    )


class _Bounded(httpx2.AsyncByteStream):
    """A stream of events that ends after so many bytes, or at its time."""

    def __init__(self, stream: httpx2.AsyncByteStream, until: float | None) -> None:
        self._stream = stream
        self._until = until

    async def __aiter__(self) -> AsyncIterator[bytes]:
        came, chunks = 0, aiter(self._stream)
        try:
            while True:
                left_s = None if self._until is None else self._until - time.monotonic()
                async with asyncio.timeout(left_s):
                    chunk = await anext(chunks)
                came += len(chunk)
                if came > MAX_STREAM:
                    return
                yield chunk
        except (StopAsyncIteration, TimeoutError, httpx2.TransportError):
            return

    async def aclose(self) -> None:
        await self._stream.aclose()


def _trouble(error: Exception) -> str:
    """Describe a failure, without naming an address."""
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case ConnectionRefusedError():
                return "the server refuses connections"
            case ssl.SSLError():
                return "no TLS connection to the server"
            case socket.gaierror():
                return "its name has no address (DNS)"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.ConnectError):
        text = str(error)
        return text if "DNS" in text else "no connection to the server"
    return "the server broke off before it had answered"
