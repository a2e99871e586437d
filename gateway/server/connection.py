"""One connection of the HTTP server, with timeouts that aiohttp lacks.

They bound the wait for a request, the time between two requests, and the time in which a client
must read its answer. A request that is not valid HTTP is answered in JSON. Its text is never
logged, because it may hold a key.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

import orjson
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import _ErrInfo

from gateway.access.rejection import RequestRejected
from gateway.access.strangers import Strangers
from gateway.api.responses import problem
from gateway.errors import CallError, ErrorCode
from gateway.server.access_log import AccessLog

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

REQUEST_S = 15.0
"""Seconds within which a new connection must have sent the head of a request."""

IDLE_S = 75.0
"""Seconds for which a connection is kept open between two requests."""

SEND_S = 30.0
"""Seconds within which a client must read the data that waits to be sent to it."""

REST_S = 2.0
"""Seconds for which the unread rest of a body is read and dropped before the connection closes."""


class Connections(Protocol):
    """The owner of connections: counts them, holds the queue for clients that send invalid HTTP,
    and may log requests.
    """

    connections: int
    strangers: Strangers
    access: AccessLog | None


class Connection(web.RequestHandler):
    """aiohttp's connection, with timeouts. It counts itself while it is open."""

    __slots__ = ("_leaving", "_owner", "_stalled", "_stopped", "_unused", "_wire")

    def __init__(self, owner: Connections, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type] # what aiohttp's own runner passes
            keepalive_timeout=IDLE_S,
            lingering_time=REST_S,
            auto_decompress=False,  # `gateway.api.requests` does it within bounds
        )
        self._owner = owner
        self._wire: asyncio.Transport | None = None
        self._unused: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)  # uvloop's has the same methods
        self._owner.connections += 1
        self._unused = self._loop.call_later(REQUEST_S, self._close_unused)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._wire = None
        self._owner.connections -= 1
        for timer in (self._unused, self._stalled, self._leaving):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    async def start(self) -> None:
        try:
            await super().start()
        finally:
            if self._wire is not None:  # closing waits until buffered data has been sent
                self._leaving = self._loop.call_later(SEND_S, self._wire.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._wire is not None:
            self._stalled = self._loop.call_later(SEND_S, self._wire.abort)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        super().resume_writing()

    def stop_reading(self) -> None:
        """Stop reading the body of this request; the connection closes after its answer.

        Closing still waits `REST_S` for a client that reads the answer only once it can't send any
        more.
        """
        self._stopped = True
        self.pause_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        if not self._stopped:
            super().resume_reading(resume_parser)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if is_lost(exc):
            raise ConnectionResetError("the client went away") from exc
        if isinstance(exc, HttpProcessingError):
            text = (
                "this is no proper HTTP/1.1 request, or its head is too long; in a query, "
                "characters outside ASCII are written as %XX"
            )
            error = CallError(ErrorCode.INVALID_REQUEST, text)
        else:
            super().handle_error(request, status, exc, message)  # logs the error
            error = CallError(ErrorCode.INTERNAL, "the gateway failed; its log has the details")
        response = problem(request, error, {hdrs.SERVER: "finport"})
        response.force_close()
        return response

    def log_access(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        time: float | None,  # noqa: ARG002 - aiohttp's figure, in whole milliseconds
    ) -> None:
        if self._owner.access is not None:
            self._owner.access.answered(request, response.status, response.body_length)

    def _make_error_handler(self, err_info: _ErrInfo) -> Handler:
        answer = super()._make_error_handler(err_info)

        async def answer_in_slot(request: web.BaseRequest) -> web.StreamResponse:
            try:
                async with self._owner.strangers.slot(request.remote or ""):
                    return await answer(request)
            except RequestRejected as refusal:
                response = problem(request, refusal.error, {hdrs.SERVER: "finport"})
                response.force_close()
                return response

        return answer_in_slot

    def _close_unused(self) -> None:
        if not self._request_count:
            self.force_close()


class TurnedAway(asyncio.Protocol):
    """A connection over the limit, which is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast(asyncio.Transport, transport)
        error = CallError(ErrorCode.OVERLOADED, "too many connections", retry_after_s=1.0)
        body = orjson.dumps({"ok": False, "error": error.to_dict()})
        wire.write(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%b"
            % (len(body), body)
        )
        wire.close()


def is_lost(exc: BaseException | None) -> bool:
    """Whether an error means a lost connection; in a group of errors, whether all of them do."""
    if isinstance(exc, BaseExceptionGroup):
        return all(map(is_lost, exc.exceptions))
    return isinstance(exc, ConnectionError)
