"""The entry point of all HTTP requests: authorises a request and dispatches it to its handler.

Every request passes the guard here and nowhere else, and every answer carries the request's id.
Errors that no handler answers are JSON too. Requests to the two routes that take single calls and
MCP messages bypass the router, because routing costs as much as a cached answer.
"""

import os
import re
import time
from collections.abc import Iterable, Mapping
from itertools import count

from aiohttp import hdrs, web

from gateway.access.guard import API_KEY, Guard
from gateway.access.loop_share import LoopShare
from gateway.access.rejection import BadRequest, RequestRejected
from gateway.api.mcp_http import METHOD, NAME, REVISION, SESSION, McpHttp, refused
from gateway.api.origin import challenge
from gateway.api.requests import MAX_BODY
from gateway.api.responses import REQUEST_ID, ReadyResponse, own_headers, problem
from gateway.api.rest import Rest
from gateway.api.route import CALLER, Handler, Route
from gateway.api.sending import Connection, connection_of
from gateway.api.table_forms import ENVELOPE
from gateway.context import CLIENT
from gateway.errors import CallError, ErrorCode
from gateway.telemetry.logs import REQUEST_ID as LOGGED_ID

MCP = "/mcp"
FIGURES = ("/metrics", "/healthz", "/readyz")
"""Paths that the holder of the metrics key may request outside the queue of unknown callers, and
anyone on a connection that has no place.
"""
CALL = "/v1/tools/{name}"

READ_ON = 65_536
"""Largest body of a refused request that is still read, so that its connection can be reused."""

_CALL = re.compile(r"/v1/tools/([A-Za-z0-9_-]{1,64})")
_GIVEN_ID = re.compile(r"[A-Za-z0-9._:+/=-]{1,128}")
_CODES = {404: ErrorCode.NOT_FOUND, 405: ErrorCode.METHOD_NOT_ALLOWED, 413: ErrorCode.TOO_LARGE}

_REFUSAL = web.RequestKey("refusal", RequestRejected)
"""Why a request may use open routes only."""


class Front:
    """The handler of all requests. `pages`, like the open routes, need no key."""

    def __init__(
        self,
        guard: Guard,
        without_key: LoopShare,
        rest: Rest,
        mcp: McpHttp,
        routes: Iterable[Route],
        pages: Iterable[web.RouteDef],
    ) -> None:
        self._guard = guard
        self._rest = rest
        self._mcp = mcp
        self._without_key = without_key
        self._id_prefix = f"{os.getpid():x}-{time.time_ns():x}-"
        self._ids = count(1)
        self._open: set[web.AbstractResource | None] = set()
        self.application = web.Application(client_max_size=MAX_BODY, middlewares=[self._admit])
        self.application.on_response_prepare.append(self._finish)
        router = self.application.router
        for page in pages:
            self._open.add(router.add_get(page.path, page.handler).resource)
        for route in routes:
            add = router.add_get if route.method == "GET" else router.add_post
            resource = add(route.path, route.handler).resource
            if route.is_open:
                self._open.add(resource)

    async def handle(self, request: web.Request, routed: Handler) -> web.StreamResponse:
        """Answer a request; `routed` is the application's own handler, which uses the router."""
        headers = request.headers
        given = headers.get(REQUEST_ID)
        if given is None or not _GIVEN_ID.fullmatch(given):
            given = f"{self._id_prefix}{next(self._ids):x}"
        LOGGED_ID.set(given)
        leaves_unread, path = False, request.raw_path.partition("?")[0]
        try:
            try:
                caller = self._guard.caller(headers)
            except RequestRejected as refusal:
                leaves_unread = _leave_unread(request)
                response = await self._answer_unknown(request, routed, refusal)
            else:
                connection: Connection = request.protocol  # type: ignore[assignment] # as always
                connection.client = caller.client
                if not connection.is_known and path not in FIGURES:
                    connection.know()
                request[CALLER] = caller
                call = _CALL.fullmatch(path) if request.method == "POST" else None
                if hdrs.ORIGIN in headers or hdrs.EXPECT in headers or not (call or path == MCP):
                    _check_names_path(path)
                    response = await routed(request)
                elif call is not None:
                    response = await self._rest.call(request, call[1])
                else:
                    response = await self._mcp.handle(request)
        except RequestRejected as refusal:
            response = _turned_away(request, refusal.error)
        except web.HTTPException as error:
            response = _as_json(request, error)
        if leaves_unread:
            response.force_close()
        if not (isinstance(response, ReadyResponse) or response.prepared):
            await self._finish(request, response)
        return response

    def route_of(self, request: web.Request) -> str | None:
        """Return the path template of the route that served a request, None if there is none."""
        path, _, _ = request.raw_path.partition("?")
        if path == MCP:
            return MCP
        if request.method == "POST" and _CALL.fullmatch(path):
            return CALL
        match = request._match_info  # None if the router was not used
        resource = None if match is None else match.route.resource
        return None if resource is None else resource.canonical

    async def _answer_unknown(
        self, request: web.Request, routed: Handler, refusal: RequestRejected
    ) -> web.StreamResponse:
        """Answer a request that asks for figures and may read them. Any other may use open routes
        at most, in the queue of unknown callers.
        """
        path = request.raw_path.partition("?")[0]
        is_unauthorized = refusal.error.code is ErrorCode.UNAUTHORIZED
        if is_unauthorized and path in FIGURES and self._guard.may_read_figures(request.headers):
            return await routed(request)
        async with self._without_key.slot(request.remote or ""):
            if not is_unauthorized:
                raise refusal
            _check_names_path(path)
            request[_REFUSAL] = refusal
            return await routed(request)

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject unknown callers of routes that are not open."""
        if request.method == "OPTIONS" and self._guard.is_allowed_page(request.headers):
            return web.Response(status=204, headers=_PREFLIGHT)
        refusal = request.get(_REFUSAL)
        if refusal is not None and request.match_info.route.resource not in self._open:
            raise refusal
        return await handler(request)

    async def _finish(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Set the headers that every answer carries."""
        headers = response.headers
        headers.update(own_headers())
        if response.status == ErrorCode.UNAUTHORIZED.http_status:
            headers[hdrs.WWW_AUTHENTICATE] = challenge(request)
        if self._guard.is_allowed_page(request.headers):
            headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = request.headers[hdrs.ORIGIN]
            headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = _EXPOSED
            headers.add(hdrs.VARY, hdrs.ORIGIN)


_EXPOSED = ", ".join(
    (
        *(REQUEST_ID, hdrs.RETRY_AFTER, hdrs.ETAG, hdrs.AGE, hdrs.WWW_AUTHENTICATE),
        *(ENVELOPE, hdrs.LINK),
        *(SESSION, REVISION),
    )
)

_PREFLIGHT = {
    # MCP clients end a session with DELETE, and they must be able to read the 405 they get.
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, POST, DELETE",
    # Some browsers read the star literally, and in no browser does it cover Authorization.
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: ", ".join(
        (
            *(hdrs.AUTHORIZATION, API_KEY, hdrs.CONTENT_TYPE, hdrs.CONTENT_ENCODING),
            *(hdrs.CACHE_CONTROL, hdrs.IF_NONE_MATCH, REQUEST_ID, CLIENT, "traceparent"),
            *(SESSION, REVISION, METHOD, NAME, "Last-Event-ID", "*"),
        )
    ),
    hdrs.ACCESS_CONTROL_MAX_AGE: "600",
}


def _check_names_path(path: str) -> None:
    """Raises `BadRequest` for a whole address."""
    if not path.startswith("/"):
        raise BadRequest("a request names a path: this is no proxy")


def _leave_unread(request: web.Request) -> bool:
    """Stop reading a long body, because reading it costs more than refusing the request."""
    length = request.content_length
    is_long = not request.content.is_eof() and (length is None or length > READ_ON)
    if is_long:
        connection_of(request).stop_reading()
    return is_long


def _turned_away(
    request: web.Request, error: CallError, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """Return an error that no handler answers, in the form of the interface it was sent to."""
    say = refused if request.path == MCP else problem
    return say(request, error, headers)


def _as_json(request: web.Request, error: web.HTTPException) -> web.StreamResponse:
    """Return an error of aiohttp itself as JSON."""
    code = _CODES.get(error.status, ErrorCode.INVALID_REQUEST)
    asked = f"{request.method} {request.path[:200]}"
    if code is ErrorCode.NOT_FOUND:
        return problem(request, CallError(code, f"{asked} is not served; see /docs"))
    if code is ErrorCode.METHOD_NOT_ALLOWED:
        allowed = error.headers[hdrs.ALLOW].replace(",", ", ")
        text = f"{request.method} is not served here; {allowed} is"
        return _turned_away(request, CallError(code, text), {hdrs.ALLOW: allowed})
    return _turned_away(request, CallError(code, error.reason))
