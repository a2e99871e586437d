"""The connections of the HTTP server: how many there are, and timeouts that aiohttp lacks.

A connection is unknown until a request on it was allowed to call. Unknown ones take at most a part
of all places, and when there are too many, the oldest of the address with the most of them goes.
The timeouts bound the wait for a request, the time between two requests, and the time in which a
client must read its answer. A request that is not valid HTTP is answered in JSON. Its text is never
logged, because it may hold a key.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import orjson
from aiohttp import HttpVersion11, hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import _ErrInfo

from gateway.access.clients import Client
from gateway.access.loop_share import WITHOUT_CALL, WITHOUT_KEY, LoopShare
from gateway.access.rejection import RequestRejected
from gateway.api.responses import problem
from gateway.api.sending import Outbox, holder_of
from gateway.errors import CallError, ErrorCode
from gateway.server.access_log import AccessLog, is_lost

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

REQUEST_S = 15.0
"""Seconds within which a new connection must have sent the head of a request."""

IDLE_S = 75.0
"""Seconds for which a connection is kept open between two requests."""

SEND_S = 30.0
"""Seconds within which a client must read the data that waits to be sent to it."""

REST_S = 2.0
"""Seconds for which the unread rest of a body is read and dropped before the connection closes."""


PARSED_AT_ONCE = 2**14
"""Bytes of a body that aiohttp parses ahead of its reader: so many, or a sixteenth as many chunks,
before it pauses. The least chunks take 2 ms.
"""

UNKNOWN_PART, ADDRESS_PART, KEPT_PART = 2, 4, 16
"""Unknown connections take at most the 2nd part of all places, those of one address the 4th. The
16th part is kept for them: for callers that have not shown their key yet, and for health.
"""

NEW_S = 1.0
"""Seconds for which an unknown connection keeps its place unless there is no other: its request may
have arrived unread.
"""

PROBE_S, LONGEST_PROBE_S = 0.05, 2.0
"""Seconds until a client that has closed its side is probed, and then twice as long each time."""

OLD_S = 1.0
"""Seconds, or a little more, for which a client of HTTP/1.0 that has closed its side is served."""

OVERHEAD = 2**18
"""Bytes of a body that may be no content, such as extensions of chunks, beside `LEAST_CONTENT`."""

LEAST_CONTENT = 16
"""One byte in so many of a body must be content. Of chunks of one byte, every sixth one is."""


class Connections:
    """The open connections of one process, at most `most`, and what they share."""

    def __init__(self, most: int, access: AccessLog | None = None) -> None:
        self.access = access
        self.open = 0
        self.without_key = LoopShare(WITHOUT_KEY, "requests without a key")
        self.no_calls = LoopShare(WITHOUT_CALL, "lines and chunks that make no calls")
        self.outbox = Outbox()
        self._most = most
        self._kept = min(most - 1, max(1, most // KEPT_PART))
        self._unknown: _Groups = {}
        self._known: _Groups = {}
        self._unknown_in_all = 0

    def add(self, connection: "Connection", now: float) -> bool:
        """Count a new connection. Returns whether there is a place for it."""
        address = connection.address
        mine = self._unknown.get(address, {})
        is_full = self.open >= self._most
        if len(mine) * ADDRESS_PART >= self._most and not is_full:
            self._close_oldest(mine, now - NEW_S)
        elif is_full or self._unknown_in_all * UNKNOWN_PART >= self._most:
            heaviest = max(self._unknown.values(), key=len, default=mine)
            self._close_oldest(heaviest, now if is_full else now - NEW_S)
        if self.open >= self._most:
            return False
        self.open += 1
        self._unknown.setdefault(address, {})[connection] = now
        self._unknown_in_all += 1
        return True

    def know(self, connection: "Connection") -> None:
        """Note that a request on it may call. If no place is left, the oldest idle connection of
        whoever has most goes. Raises `RequestRejected` if it has none.
        """
        if self.open - self._unknown_in_all >= self._most - self._kept:
            heaviest = max(self._known.values(), key=len, default={})
            idle = next((one for one in heaviest if one.is_idle), None)
            if idle is None or connection.holder == idle.holder:
                raise RequestRejected(TOO_MANY)
            idle.abort()
        self._forget(connection)
        self._known.setdefault(connection.holder, {})[connection] = 0.0

    def remove(self, connection: "Connection") -> None:
        self._forget(connection)
        self.open -= 1

    def _forget(self, connection: "Connection") -> None:
        if _removed(self._unknown, connection.address, connection):
            self._unknown_in_all -= 1
        else:
            _removed(self._known, connection.holder, connection)

    def _close_oldest(self, connections: "dict[Connection, float]", before: float) -> None:
        oldest, since = next(iter(connections.items()), (None, before))
        if oldest is not None and since <= before:
            oldest.abort()


_Groups = dict[str, dict["Connection", float]]
"""Connections by their address or holder, and since when they have been open."""


def _removed(groups: _Groups, name: str, connection: "Connection") -> bool:
    group = groups.get(name, {})
    if group.pop(connection, None) is None:
        return False
    if not group:
        del groups[name]
    return True


class Connection(web.RequestHandler):
    """aiohttp's connection, with timeouts. It counts itself while it is open."""

    __slots__ = (
        *("_held", "_is_half_closed", "_leaving", "_owner", "_probe", "_stalled", "_stopped"),
        *("_received", "_unused", "_wire", "address", "client", "holder", "is_known", "no_calls"),
        *("outbox", "ping"),
    )

    def __init__(self, owner: Connections, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type] # what aiohttp's own runner passes
            keepalive_timeout=IDLE_S,
            lingering_time=REST_S,
            read_bufsize=PARSED_AT_ONCE,
            auto_decompress=False,  # `gateway.api.requests` does it within bounds
        )
        self.address = self.holder = ""
        self.client: Client | None = None
        self.is_known = False
        self.outbox, self.no_calls = owner.outbox, owner.no_calls
        self.ping: Callable[[], None] | None = None
        self._received = 0
        self._owner = owner
        self._wire: asyncio.Transport | None = None
        self._held: Client | None = None
        self._unused: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._probe: asyncio.TimerHandle | None = None
        self._stopped = self._is_half_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast(asyncio.Transport, transport)  # uvloop's has the same methods
        self.address = str((wire.get_extra_info("peername") or ("",))[0])
        super().connection_made(transport)
        if not self._owner.add(self, self._loop.time()):
            turn_away(wire)
            self.force_close()
            return
        self._wire = wire
        assert self._task_handler is not None  # noqa: S101 - it serves the requests from now on
        self._task_handler.add_done_callback(self._limit_closing)
        self._unused = self._loop.call_later(REQUEST_S, self._close_unused)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._wire is not None:
            self._wire = None
            self._owner.remove(self)
        self._let_go()
        for timer in (self._unused, self._stalled, self._leaving, self._probe):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close at once; what waits to be sent is lost."""
        if self._wire is not None:
            wire, self._wire = self._wire, None
            self._owner.remove(self)
            wire.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        request = self._current_request
        if request is not None and not request.content.is_eof():
            self._received += len(data)
            if self._received > OVERHEAD + LEAST_CONTENT * request.content.total_bytes:
                self.force_close()

    def _limit_closing(self, _: asyncio.Task[None]) -> None:
        """Bound the closing of a connection that takes no more requests: it waits until buffered
        data has been sent.
        """
        if self._wire is not None:
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
        if self._reading_paused and not self._stopped:
            super().resume_reading(resume_parser)

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self._waiter is not None and not self._messages

    def know(self) -> None:
        """Note that a request may call. Raises `RequestRejected` if no place is left."""
        self.holder = holder_of(self)
        self._owner.know(self)
        self.is_known = True

    def hold(self) -> None:
        """Keep a slot of this request's client taken until the answer has been sent."""
        if self.client is not None and self._held is None and self._wire is not None:
            self.client.in_flight += 1
            self._held = self.client

    def _let_go(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            held.end()

    def eof_received(self) -> bool:  # type: ignore[override] # asyncio's may keep it open
        """Stay open for the answer to a client that has closed its side behind a whole request.

        A client that is gone looks the same. Interim answers (RFC 9110, 15.2), or a `ping` in an
        answer that has begun, tell: the system of such a client answers the first with a reset, on
        which the next one fails. Where neither may be sent, the client counts as gone: at once, or
        over HTTP/1.0 after `OLD_S`.
        """
        request = self._current_request
        if self._messages:
            is_whole = self._messages[-1][1].is_eof()
        elif request is None:
            is_whole = self._waiter is None and self._request_count > 0
        else:
            has_begun = request._payload_writer.output_size and self.ping is None
            is_whole = request.content.is_eof() and not has_begun
        self._is_half_closed = is_whole
        if is_whole:
            self._probe = self._loop.call_later(PROBE_S, self._send_probe, PROBE_S)
        return is_whole

    def _send_probe(self, waited_s: float) -> None:
        request = self._current_request
        if request is None or self._wire is None:
            return
        if request.version < HttpVersion11:
            if waited_s > OLD_S:
                self.abort()
                return
        elif not request._payload_writer.output_size:
            self._wire.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif self.ping is not None:
            self.ping()
        self._probe = self._loop.call_later(
            waited_s, self._send_probe, min(2 * waited_s, LONGEST_PROBE_S)
        )

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
        if self._held is not None:
            self._let_go()
        if self._is_half_closed and not self._messages:
            self.close()
        self._received, self.ping = 0, None
        if self._owner.access is not None:
            self._owner.access.answered(request, response.status, response.body_length)

    def _make_error_handler(self, err_info: _ErrInfo) -> Handler:
        answer = super()._make_error_handler(err_info)

        async def answer_in_slot(request: web.BaseRequest) -> web.StreamResponse:
            try:
                async with self._owner.without_key.slot(request.remote or ""):
                    return await answer(request)
            except RequestRejected as refusal:
                response = problem(request, refusal.error, {hdrs.SERVER: "finport"})
                response.force_close()
                return response

        return answer_in_slot

    def _close_unused(self) -> None:
        if not self._request_count:
            self.force_close()


TOO_MANY = CallError(ErrorCode.OVERLOADED, "too many connections", retry_after_s=1.0)


def turn_away(wire: asyncio.Transport) -> None:
    """Tell a client that there is no place for its connection."""
    body = orjson.dumps({"ok": False, "error": TOO_MANY.to_dict()})
    wire.write(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%b" % (len(body), body)
    )
