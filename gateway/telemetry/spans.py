"""A span for each call, by OpenTelemetry's conventions for generative AI: `execute_tool NAME`.

A span is made when its call has ended, and holds no argument and no result. Its parent is the span
of the request that made the call, if there is one (`gateway/telemetry/server_spans.py`), else the
caller's `traceparent`. The sampled flag of a `traceparent` is honoured; a malformed one is ignored.
If a caller names another trace than its request's, the span goes there, with a link. No error here
reaches a call. OpenTelemetry is the extra `otel`, imported only where it is used.
"""

import logging
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import anyio

from gateway.context import CallContext
from gateway.pipeline.bind import BoundCall, printable
from gateway.result import Result
from gateway.settings import GatewaySettings, SettingsError
from manifests.common.threads import in_daemon

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Link, Span

log = logging.getLogger("finport")

FLUSH_S = 5.0
"""How long the last spans may delay the end of the gateway."""

MAX_TRACEPARENT = 128

REQUEST_SPAN: ContextVar["Span | None"] = ContextVar("REQUEST_SPAN", default=None)
"""The span of the request that is being served, if there is one."""

_OTLP = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


class ToolSpans:
    """Makes the spans (`gateway.call.Observer`). Made by `ToolSpans.open`."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace import Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.tracer = provider.get_tracer("finport", version("finport"))
        self._propagator = TraceContextTextMapPropagator()
        self._error = Status(StatusCode.ERROR)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: GatewaySettings, processor: "SpanProcessor | None" = None
    ) -> AsyncIterator["ToolSpans"]:
        """Spans go to `processor`, which is shut down at the end, or by OTLP over HTTP to where the
        OTEL_* variables say. Raises `SettingsError` if the extra is missing or a variable is wrong.
        """
        try:
            from opentelemetry.sdk.trace import TracerProvider

            chosen = processor or _otlp()
            provider = TracerProvider(resource=_resource(settings), shutdown_on_exit=False)
        except ImportError as error:
            text = f"setting otel: {error.name} is missing: pip install 'finport[otel]'"
            raise SettingsError(text) from None
        except ValueError as error:
            raise SettingsError(f"setting otel: a variable OTEL_* is wrong: {error}") from None
        provider.add_span_processor(chosen)
        try:
            yield cls(provider)
        finally:
            await _shut_down(provider)

    def ended(self, result: Result, bound: BoundCall | None, context: CallContext) -> None:
        with logged("the span of call %s could not be made", result.call_id):
            self._make(result, bound, context)

    def _make(self, result: Result, bound: BoundCall | None, context: CallContext) -> None:
        end = time.time_ns()
        name = result.tool if bound is not None else printable(result.tool)
        attributes: dict[str, str | int] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": result.call_id,
            "gen_ai.tool.type": "function",
            "finport.attempts": result.attempts,
        }
        if result.source is not None:
            attributes["finport.provenance"] = result.source
        if result.stood is not None:
            attributes["finport.answered_by"] = result.stood.answered_by
        if bound is not None and bound.plan.manifest.binding.hosts:
            attributes["server.address"] = bound.plan.host
        if result.error is not None:
            attributes["error.type"] = result.error.code.value
        parent, links = self._place(context.traceparent)
        span = self.tracer.start_span(
            f"execute_tool {name}",
            parent,
            attributes=attributes,
            links=links,
            start_time=end - int(result.elapsed_ms * 1e6),
        )
        if result.error is not None:
            span.set_status(self._error)
        span.end(end)

    def _place(self, traceparent: str | None) -> "tuple[Context | None, Sequence[Link]]":
        """The context that a call's span belongs to, and the links of the span."""
        from opentelemetry.trace import Link, get_current_span, set_span_in_context

        theirs, request = self.caller_context(traceparent), REQUEST_SPAN.get()
        if request is None:
            return theirs, ()
        within = request.get_span_context()
        if (
            theirs is None
            or get_current_span(theirs).get_span_context().trace_id == within.trace_id
        ):
            return set_span_in_context(request), ()
        return theirs, (Link(within),)

    def caller_context(self, traceparent: str | None) -> "Context | None":
        """The context that a caller's `traceparent` gives; None if it can't be read or is not
        given.
        """
        from opentelemetry.context import Context
        from opentelemetry.trace import get_current_span

        if traceparent is None or len(traceparent) > MAX_TRACEPARENT:
            return None
        theirs = self._propagator.extract({"traceparent": traceparent}, Context())
        return theirs if get_current_span(theirs).get_span_context().is_valid else None


@contextmanager
def logged(text: str, *words: str) -> Iterator[None]:
    """Context whose errors are logged and go no further."""
    try:
        yield
    except Exception:
        log.exception(text, *words)


def _otlp() -> "SpanProcessor":
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    exporter: Any = import_module(_OTLP)  # by name: without the extra there are no types of it
    return BatchSpanProcessor(exporter.OTLPSpanExporter())


def _resource(settings: GatewaySettings) -> "Resource":
    """What describes this gateway; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override it."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    own = Resource(
        {
            "service.name": "finport",
            "service.version": version("finport"),
            "finport.mode": settings.mode,
            "finport.upstream": settings.upstream,
        }
    )
    return Resource.create().merge(own).merge(OTELResourceDetector().detect())


async def _shut_down(provider: "TracerProvider") -> None:
    """Export the last spans, for as long as that may take."""
    with anyio.move_on_after(FLUSH_S, shield=True) as limit:
        with logged("the last spans could not be exported"):
            await in_daemon(provider.shutdown)
    if limit.cancelled_caught:
        log.warning("the last spans could not be exported within %g s", FLUSH_S)
