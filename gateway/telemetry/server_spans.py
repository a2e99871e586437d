"""A span of kind SERVER for each request, by OpenTelemetry's HTTP conventions: `METHOD ROUTE`.

Calls that the request makes are its children. A span says what was requested and how it ended. It
holds no header, no query and no body, and of the path only what the access log shows. Requests for
health and metrics have no span, since there are many and they say nothing. Requests of callers that
may not call have none, since a flood of them would leave no room for others. No error here reaches
a request.
"""

from collections.abc import Awaitable, Callable
from socket import socket
from typing import TYPE_CHECKING

from aiohttp import web

from gateway.access.guard import Guard
from gateway.telemetry.logs import shown_path
from gateway.telemetry.spans import REQUEST_SPAN, ToolSpans, logged
from manifests import Catalog

if TYPE_CHECKING:
    from opentelemetry.trace import Span

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

WITHOUT = ("/healthz", "/readyz", "/metrics")
"""Paths whose requests have no span."""

_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}


class ServerSpans:
    """Makes the spans of requests that arrive at one socket."""

    def __init__(
        self,
        spans: ToolSpans,
        guard: Guard,
        catalog: Catalog,
        route_of: Callable[[web.Request], str | None],
        listening: socket,
    ) -> None:
        self._spans = spans
        self._guard = guard
        self._catalog = catalog
        self._route_of = route_of
        self._address, self._port = listening.getsockname()[:2]

    def around(self, handler: Handler) -> Handler:
        """The same handler, with spans."""

        async def spanned(request: web.Request) -> web.StreamResponse:
            is_of_calls = request.raw_path.partition("?")[0] not in WITHOUT
            if not is_of_calls or not self._guard.admits(request.headers):
                return await handler(request)
            span, status, error = None, None, None
            with logged("the span of a request could not be made"):
                span = self._begun(request)
            token = REQUEST_SPAN.set(span)
            try:
                response = await handler(request)
                status = response.status
                error = str(status) if status >= 500 else None
                return response
            except BaseException as raised:
                error = type(raised).__name__
                raise
            finally:
                REQUEST_SPAN.reset(token)
                if span is not None:
                    with logged("the span of a request could not be made"):
                        self._end(span, request, status, error)

        return spanned

    def _begun(self, request: web.Request) -> "Span":
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind

        method, version = _method(request), request.version
        attributes: dict[str, str | int] = {
            "http.request.method": method,
            "url.scheme": "http",
            "url.path": shown_path(request.raw_path, self._catalog),
            "server.address": self._address,
            "server.port": self._port,
            "network.protocol.version": f"{version.major}.{version.minor}",
        }
        if request.remote:
            attributes["client.address"] = request.remote
        parent = self._spans.caller_context(request.headers.get("traceparent"))
        return self._spans.tracer.start_span(
            _name(method, None), parent or Context(), SpanKind.SERVER, attributes
        )

    def _end(
        self, span: "Span", request: web.Request, status: int | None, error: str | None
    ) -> None:
        from opentelemetry.trace import Status, StatusCode

        route = self._route_of(request)
        span.update_name(_name(_method(request), route))
        if route is not None:
            span.set_attribute("http.route", route)
        if status is not None:
            span.set_attribute("http.response.status_code", status)
        if error is not None:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def _method(request: web.BaseRequest) -> str:
    return request.method if request.method in _METHODS else "_OTHER"


def _name(method: str, route: str | None) -> str:
    verb = "HTTP" if method == "_OTHER" else method
    return verb if route is None else f"{verb} {route}"
