"""A span for each request over HTTP, and those of its calls within it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pydantic import SecretStr

from gateway.server import http
from gateway.telemetry.spans import ToolSpans
from manifests import Catalog
from tests.support.gateways import ServedGateway, open_local_gateway, play
from tests.support.mcp_messages import request
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

KEY = "planted-client-key-0815"
CALLER = {"Authorization": f"Bearer {KEY}"}
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
OTHER_TRACE = "0af7651916cd43dd8448eb211c80319c"
COIN = b'{"uuid":"x"}'


async def opened(
    catalog: Catalog, folder: Path, processor: SpanProcessor
) -> AsyncIterator[ServedGateway]:
    async with (
        open_local_gateway(catalog, folder, api_keys=(SecretStr(KEY),)) as local,
        ToolSpans.open(local.settings, processor) as spans,
        aiohttp.ClientSession() as client,
    ):
        with local.gateway.observed(spans):
            async with http.serve(local.gateway, spans=spans) as url:
                yield ServedGateway(url, local, client)


@pytest.fixture
async def served(
    catalog: Catalog, tmp_path: Path, exporter: InMemorySpanExporter
) -> AsyncIterator[ServedGateway]:
    async for served in opened(catalog, tmp_path, SimpleSpanProcessor(exporter)):
        yield served


async def send(
    served: ServedGateway, method: str, path: str, body: bytes | None = None, **headers: str
) -> int:
    sent = CALLER | headers
    async with served.client.request(method, served.url + path, data=body, headers=sent) as got:
        await got.read()
        return got.status


def spans_of(exporter: InMemorySpanExporter) -> tuple[list[ReadableSpan], list[ReadableSpan]]:
    """Those of requests, and those of calls."""
    every = exporter.get_finished_spans()
    return (
        [span for span in every if span.kind is SpanKind.SERVER],
        [span for span in every if span.kind is SpanKind.INTERNAL],
    )


def ids(span: ReadableSpan) -> tuple[str, str]:
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


def parent_of(span: ReadableSpan) -> tuple[str, str] | None:
    return span.parent and (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}")


async def test_a_request_is_one_span_with_the_names_of_the_conventions(
    served: ServedGateway, exporter: InMemorySpanExporter
) -> None:
    path = f"/v1/tools/get_coin?max_rows=5&key={KEY}"
    assert await send(served, "POST", path, COIN, **{"User-Agent": KEY}) == 400
    assert await send(served, "POST", "/v1/tools/get_coin?max_rows=5", COIN) == 200
    (_, span), _ = spans_of(exporter)
    host, port = served.url[7:].split(":")
    assert span.name == "POST /v1/tools/{name}"
    assert dict(span.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/tools/{name}",
        "http.response.status_code": 200,
        "url.scheme": "http",
        "url.path": "/v1/tools/get_coin",
        "server.address": host,
        "server.port": int(port),
        "network.protocol.version": "1.1",
        "client.address": "127.0.0.1",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.parent is None
    assert not any(KEY in span.to_json() for span in exporter.get_finished_spans())


async def test_calls_are_children_of_their_request(
    served: ServedGateway, exporter: InMemorySpanExporter
) -> None:
    parent = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    line = b'{"tool":"get_coin","arguments":{"uuid":"x"}}\n'
    call = request("tools/call", {"name": "get_coin", "arguments": {"uuid": "x"}})
    for path, body, calls in (
        ("/v1/tools/get_coin", COIN, 1),
        ("/v1/calls", line * 3, 3),
        ("/mcp?tools=all", json.dumps(call).encode(), 1),
    ):
        for headers in ({}, parent):
            exporter.clear()
            assert await send(served, "POST", path, body, **headers) == 200
            (parent_span,), made = spans_of(exporter)
            assert parent_span.name == f"POST {path.partition('?')[0]}".replace(
                "get_coin", "{name}"
            )
            assert parent_of(parent_span) == ((TRACE, PARENT) if headers else None)
            assert [parent_of(span) for span in made] == [ids(parent_span)] * calls
            assert [span.name for span in made] == ["execute_tool get_coin"] * calls


async def test_a_message_that_names_another_trace_is_answered_there_with_a_link(
    served: ServedGateway, exporter: InMemorySpanExporter
) -> None:
    meta = {"traceparent": f"00-{OTHER_TRACE}-{PARENT}-01"}
    params = {"name": "get_coin", "arguments": {"uuid": "x"}, "_meta": meta}
    body = json.dumps(request("tools/call", params)).encode()
    await send(served, "POST", "/mcp?tools=all", body, traceparent=f"00-{TRACE}-{PARENT}-01")
    (parent_span,), (made,) = spans_of(exporter)
    assert parent_of(made) == (OTHER_TRACE, PARENT)
    assert [f"{link.context.span_id:016x}" for link in made.links] == [ids(parent_span)[1]]


async def test_a_request_that_is_not_sampled_leaves_no_span(
    served: ServedGateway, exporter: InMemorySpanExporter
) -> None:
    unsampled = f"00-{TRACE}-{PARENT}-00"
    assert await send(served, "POST", "/v1/tools/get_coin", COIN, traceparent=unsampled) == 200
    assert exporter.get_finished_spans() == ()


async def test_a_span_is_named_by_its_route_and_not_by_what_was_asked(
    served: ServedGateway, exporter: InMemorySpanExporter
) -> None:
    for method, path, status, name in (
        ("GET", "/v1/tools", 200, "GET /v1/tools"),
        ("GET", "/v1/tools/get_coin", 200, "GET /v1/tools/{name}"),
        ("GET", f"/v1/results/{KEY}", 404, "GET /v1/results/{handle}"),
        ("GET", f"/{KEY}", 404, "GET"),
        ("DELETE", "/v1/tools", 405, "DELETE"),
        ("PROPFIND", "/v1/tools", 405, "HTTP"),
    ):
        exporter.clear()
        assert await send(served, method, path) == status
        (span,), _ = spans_of(exporter)
        assert span.name == name
        assert span.attributes is not None
        assert span.attributes["http.response.status_code"] == status
        assert ("http.route" in span.attributes) == (" " in name)
        assert "error.type" not in span.attributes, "a client's mistake is no error of the server"
        assert KEY not in span.to_json()


async def test_a_failure_is_the_type_and_the_status_of_its_span(
    served: ServedGateway, exporter: InMemorySpanExporter
) -> None:
    play(served.local, failure_rate=1.0)
    assert await send(served, "POST", "/v1/tools/get_coin", COIN) == 502
    (span,), _ = spans_of(exporter)
    assert span.attributes is not None
    assert span.attributes["error.type"] == "502"
    assert span.status.status_code is StatusCode.ERROR


async def test_a_client_that_goes_away_leaves_a_span_that_failed(
    served: ServedGateway, exporter: InMemorySpanExporter
) -> None:
    play(served.local, hang_rate=1.0)
    call = asyncio.create_task(send(served, "POST", "/v1/tools/get_coin", COIN))
    await until(served.local.simulator.requests.total)
    call.cancel()
    await until(lambda: len(exporter.get_finished_spans()) == 2)
    (span,), (made,) = spans_of(exporter)
    assert span.attributes is not None
    assert span.attributes["error.type"] == "CancelledError"
    assert "http.response.status_code" not in span.attributes
    assert parent_of(made) == ids(span)


async def test_who_may_not_call_and_who_asks_for_figures_leaves_no_span(
    served: ServedGateway, exporter: InMemorySpanExporter
) -> None:
    cases: tuple[tuple[str, dict[str, str], int], ...] = (
        ("/v1/tools", {"Authorization": "Bearer wrong"}, 401),
        ("/docs", {"Origin": "https://elsewhere.example"}, 403),
        *((path, {}, 200) for path in ("/healthz", "/readyz?x=1", "/metrics")),
    )
    for path, headers, status in cases:
        assert await send(served, "GET", path, None, **headers) == status
        assert exporter.get_finished_spans() == ()


class Broken(SpanProcessor):
    def on_start(self, span: Span, parent_context: Any = None) -> None:  # noqa: ARG002 - its shape
        raise RuntimeError("no span")

    def on_end(self, span: ReadableSpan) -> None:  # noqa: ARG002 - its shape
        raise RuntimeError("no span")


async def test_nothing_that_goes_wrong_reaches_the_request(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async for served in opened(catalog, tmp_path, Broken()):
        assert await send(served, "POST", "/v1/tools/get_coin", COIN) == 200
    assert "the span of a request could not be made" in caplog.text
