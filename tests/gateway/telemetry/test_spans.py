"""Spans by OpenTelemetry's conventions: one for each call, and never an argument in it."""

import asyncio
import importlib.util
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from adapters.simulator import Fault, SimulatedUpstream
from gateway import CallContext, Gateway, GatewaySettings
from gateway.settings import SettingsError
from gateway.telemetry.spans import ToolSpans
from manifests import Catalog
from tests.support.gateways import PLANTED_KEY, open_local_gateway
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

COIN = ("get_coin", {"uuid": "Qwsogvtv82FCd"})
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@asynccontextmanager
async def open_gateway(
    catalog: Catalog, folder: Path, processor: SpanProcessor
) -> AsyncIterator[tuple[Gateway, SimulatedUpstream]]:
    async with (
        open_local_gateway(catalog, folder, retries=1) as local,
        ToolSpans.open(local.settings, processor) as spans,
    ):
        with local.gateway.observed(spans):
            yield local.gateway, local.simulator


@pytest.fixture
async def gateway(
    catalog: Catalog, tmp_path: Path, exporter: InMemorySpanExporter
) -> AsyncIterator[Gateway]:
    async with open_gateway(catalog, tmp_path, SimpleSpanProcessor(exporter)) as (gateway, _):
        yield gateway


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


async def test_a_call_is_one_span_with_the_names_of_the_conventions(
    gateway: Gateway, exporter: InMemorySpanExporter
) -> None:
    before = time.time_ns()
    result = await gateway.call(*COIN)
    span = only(exporter)
    assert (span.name, span.kind) == ("execute_tool get_coin", SpanKind.INTERNAL)
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_coin",
        "gen_ai.tool.call.id": result.call_id,
        "gen_ai.tool.type": "function",
        "finport.provenance": "live",
        "finport.attempts": 1,
        "server.address": "coinranking1.p.rapidapi.com",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time == int(result.elapsed_ms * 1e6)
    assert before - 1e6 <= span.start_time < span.end_time <= time.time_ns()
    assert span.resource.attributes["service.name"] == "finport"


@pytest.mark.parametrize(
    ("faults", "error", "attempts"),
    [([Fault.SERVER_ERROR] * 2, "upstream_error", 2), ([Fault.HANG], "cancelled", 0)],
)
async def test_an_error_is_the_type_and_the_status_of_its_span(
    catalog: Catalog,
    tmp_path: Path,
    exporter: InMemorySpanExporter,
    faults: list[Fault],
    error: str,
    attempts: int,
) -> None:
    opened = open_gateway(catalog, tmp_path, SimpleSpanProcessor(exporter))
    async with opened as (gateway, simulator):
        simulator.play("*", *faults)
        call = asyncio.create_task(gateway.call(*COIN))
        await until(simulator.requests.total)
        if error == "cancelled":
            call.cancel()
        await asyncio.wait([call])
        span = only(exporter)
    assert span.attributes is not None
    assert span.attributes["error.type"] == error
    assert span.attributes["finport.attempts"] == attempts
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)


async def test_a_name_that_nobody_knows_is_cut_and_made_printable(
    gateway: Gateway, exporter: InMemorySpanExporter
) -> None:
    await gateway.call("\ud800" + "x" * 1000, {"key": PLANTED_KEY})
    span = only(exporter)
    assert span.name == "execute_tool ?" + "x" * 63
    assert span.attributes is not None
    assert span.attributes["error.type"] == "unknown_tool"
    assert "server.address" not in span.attributes
    assert "finport.provenance" not in span.attributes


async def test_no_argument_no_answer_and_no_key_is_in_a_span(
    gateway: Gateway, exporter: InMemorySpanExporter
) -> None:
    await gateway.call("get_coin", {"uuid": "planted-uuid"})
    await gateway.call("get_coin", {"planted-name": "planted-value"})
    for span in exporter.get_finished_spans():
        text = span.to_json()
        assert "planted" not in text
        assert PLANTED_KEY not in text


async def test_the_callers_span_is_the_parent(
    gateway: Gateway, exporter: InMemorySpanExporter
) -> None:
    await gateway.call(*COIN, CallContext(traceparent=f"00-{TRACE}-{PARENT}-01"))
    span = only(exporter)
    assert span.parent is not None
    assert span.parent.is_remote
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE


async def test_a_malformed_traceparent_is_ignored(
    gateway: Gateway, exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    for malformed in (
        *("", "x", "\ud800", "0" * 100_000, f"00-{'0' * 32}-{PARENT}-01"),
        *(f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01-more"),
        f"00-{TRACE.upper()}-{PARENT}-01",
    ):
        exporter.clear()
        assert (await gateway.call(*COIN, CallContext(traceparent=malformed))).ok
        assert only(exporter).parent is None, malformed[:60]
    assert not caplog.records, "whoever sends such headers must not fill the log"


class Broken(SpanProcessor):
    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError(f"no span of {span.name}")


async def test_nothing_that_goes_wrong_reaches_the_call(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_gateway(catalog, tmp_path, Broken()) as (gateway, _):
        result = await gateway.call(*COIN)
    assert result.ok
    assert f"the span of call {result.call_id} could not be made" in caplog.text


async def test_the_last_spans_are_exported_at_the_end(
    catalog: Catalog, tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    processor = BatchSpanProcessor(exporter, schedule_delay_millis=60_000)
    async with open_gateway(catalog, tmp_path, processor) as (gateway, _):
        await gateway.call(*COIN)
        assert exporter.get_finished_spans() == ()
    assert only(exporter).name == "execute_tool get_coin"


class Hanging(SpanExporter):
    def __init__(self) -> None:
        self.entered = threading.Event()
        self.released = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - of SpanExporter
        self.entered.set()
        self.released.wait(3 * PATIENCE_S)
        return SpanExportResult.SUCCESS


@pytest.mark.parametrize("patience_s", [0.3, 2 * PATIENCE_S])
async def test_an_exporter_that_hangs_holds_up_neither_loop_nor_end(
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    patience_s: float,
) -> None:
    monkeypatch.setattr("gateway.telemetry.spans.FLUSH_S", patience_s)
    exporter = Hanging()
    processor = BatchSpanProcessor(exporter, schedule_delay_millis=60_000)
    settings = GatewaySettings(cache_dir=tmp_path)
    try:
        async with AsyncExitStack() as parts:
            spans = await parts.enter_async_context(ToolSpans.open(settings, processor))
            opened = Gateway.open(settings, catalog=catalog, observers=(spans,))
            async with opened as gateway:
                await gateway.call("no_such_tool", {})
            closing = asyncio.create_task(parts.aclose())
            await until(exporter.entered.is_set)
            if patience_s > PATIENCE_S:
                assert not closing.done(), "the loop goes on while the end waits"
                exporter.released.set()
            await asyncio.wait_for(closing, PATIENCE_S)
        assert ("could not be exported within 0.3 s" in caplog.text) == (patience_s == 0.3)
    finally:
        exporter.released.set()


async def test_the_environment_names_the_service(
    monkeypatch: pytest.MonkeyPatch, exporter: InMemorySpanExporter, gateway: Gateway
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "desk-7")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    named = InMemorySpanExporter()
    async with ToolSpans.open(gateway.settings, SimpleSpanProcessor(named)) as spans:
        result = await gateway.call(*COIN)
        spans.ended(result, None, CallContext())
    attributes = only(named).resource.attributes
    assert attributes["service.name"] == "desk-7"
    assert attributes["deployment.environment.name"] == "test"
    assert attributes["finport.upstream"] == "live"
    assert only(exporter).resource.attributes["service.name"] == "finport"


@pytest.mark.parametrize(
    "module", ["opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"]
)
async def test_without_the_extra_the_error_names_it(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingsError, match=r"pip install 'finport\[otel\]'"):
        async with ToolSpans.open(GatewaySettings()):
            pass


@pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry.exporter") is None
    or importlib.util.find_spec("opentelemetry.exporter.otlp") is None,
    reason="extra otel not installed",
)
async def test_with_the_extra_spans_go_out_by_otlp(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bodies: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bodies.append(await reader.readuntil(b"\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        port: Any = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        settings = GatewaySettings(cache_dir=tmp_path)
        async with (
            ToolSpans.open(settings) as spans,
            Gateway.open(settings, observers=(spans,)) as gateway,
        ):
            await gateway.call("no_such_tool", {})
    assert bodies == [b"POST /v1/traces HTTP/1.1\r\n"]


def test_opentelemetry_is_not_imported_with_the_gateway() -> None:
    code = (
        "import gateway.telemetry.spans, sys; print(any('opentelemetry' in m for m in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
