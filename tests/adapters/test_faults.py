"""The faults of the simulated upstream, as the RapidAPI adapter reports them, and lookalikes."""

import asyncio
import gzip
import json
import logging
import time
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.akshare.adapter import AkShareAdapter
from adapters.conventions import RULES, UpstreamErrorBody, error_body_in
from adapters.fault import Kind, UpstreamFault
from adapters.http import STEP
from adapters.normalise import MAX_BYTES, Answer
from adapters.rapidapi.adapter import RapidApiAdapter
from adapters.simulator import Fault, Faults, SimulatedUpstream
from manifests import AkShareBinding, Catalog, RapidApiBinding, Signature
from tests.support.tools import tool
from tests.support.upstreams import COINS, SECRET, Closing, adapter_for, upstream
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

Expected = tuple[Kind, bool, float | None, str]  # kind, retryable, retry_after_s, words in the text

ROWS: Mapping[Fault, Expected] = {
    Fault.SERVER_ERROR: ("status", True, None, "answered 500"),
    Fault.BAD_GATEWAY: ("status", True, None, "answered 502"),
    Fault.UNAVAILABLE: ("status", True, None, "answered 503"),
    Fault.BUSY: ("status", True, 2, "answered 503"),
    Fault.RATE_LIMITED: ("rate_limited", True, 2, "answered 429: Too many requests"),
    Fault.QUOTA_EXHAUSTED: ("quota_exhausted", True, 3600, "MONTHLY quota"),
    Fault.KEY_REFUSED: ("not_configured", False, None, "does not accept the key"),
    Fault.NOT_SUBSCRIBED: ("not_subscribed", False, None, "not subscribed"),
    Fault.NOT_FOUND: ("status", False, None, "answered 404: Endpoint does not exist"),
    Fault.RESET: ("unreachable", True, None, "closed the connection before it answered"),
    Fault.RESET_IN_BODY: ("unreachable", True, None, "broke off"),
    Fault.HANG: ("timeout", True, None, "did not answer in time"),
    Fault.HANG_IN_BODY: ("timeout", True, None, "did not answer in time"),
    Fault.DRIP: ("timeout", True, None, "did not answer in time"),
    Fault.TRUNCATED: ("invalid", False, None, "no JSON"),
    Fault.HTML: ("invalid", False, None, "HTML or XML page with the title 'Just a moment...'"),
    Fault.EMPTY: ("empty", True, None, "empty body"),
    Fault.ERROR_OBJECT: ("rejected", False, None, "no such symbol"),
    Fault.HUGE: ("too_large", False, None, "over 16777216 bytes"),
    Fault.GZIP_BOMB: ("too_large", False, None, "over 16777216 bytes"),
    Fault.REDIRECT: ("status", False, None, "answered 302"),
    Fault.REDIRECT_LOOP: ("status", False, None, "answered 302"),
    Fault.WRONG_CHARSET: ("invalid", False, None, "not UTF-8"),
}
SLOW = {Fault.HANG, Fault.HANG_IN_BODY, Fault.DRIP}


async def fetch(
    adapter: RapidApiAdapter, catalog: Catalog, timeout_s: float = PATIENCE_S
) -> Answer:
    return await adapter.fetch(tool(catalog, "get_coin"), {"uuid": "x"}, timeout_s)


@pytest.mark.parametrize("fault", Fault)
async def test_each_fault_is_told_and_the_next_call_is_well(
    catalog: Catalog, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    kind, retryable, retry_after_s, text = ROWS[fault]
    async with (
        SimulatedUpstream.open(catalog) as simulator,
        adapter_for(catalog, simulator.base_url) as adapter,
    ):
        simulator.play(COINS, fault)
        before = asyncio.all_tasks()
        with pytest.raises(UpstreamFault) as caught:
            await fetch(adapter, catalog, 1.5 if fault in SLOW else PATIENCE_S)
        told = caught.value
        assert (told.kind, told.retryable, told.retry_after_s) == (kind, retryable, retry_after_s)
        assert text in told.message
        assert SECRET not in told.message
        assert "127.0.0.1" not in told.message
        assert (await fetch(adapter, catalog)).data
        assert simulator.requests.total() == 2, "no redirect is followed"
        await until(lambda: len(asyncio.all_tasks()) <= len(before) + 1)  # a task a connection
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_every_fault_has_its_row() -> None:
    assert set(ROWS) == set(Fault)


@pytest.mark.parametrize("fault", sorted(SLOW))
async def test_the_simulated_upstream_closes_at_once_whoever_hangs(
    catalog: Catalog, fault: Fault
) -> None:
    faults = Faults(rates={fault: 1.0})
    async with AsyncExitStack() as clients:
        async with SimulatedUpstream.open(catalog, faults=faults) as simulator:
            adapter = await clients.enter_async_context(adapter_for(catalog, simulator.base_url))
            calls = [asyncio.create_task(fetch(adapter, catalog, 600)) for _ in range(20)]
            await until(lambda: simulator.requests.total() == 20)
            for call in calls[:10]:
                call.cancel()
        async with asyncio.timeout(PATIENCE_S):
            ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 10 + [UpstreamFault] * 10


async def test_a_script_is_played_in_turn_and_then_luck_goes_on(catalog: Catalog) -> None:
    async with (
        SimulatedUpstream.open(catalog) as simulator,
        adapter_for(catalog, simulator.base_url) as adapter,
    ):
        simulator.play("*", Fault.EMPTY, None)
        simulator.play(COINS, Fault.NOT_FOUND, None, Fault.HTML)
        simulator.play("other.example", Fault.BUSY)
        kinds = [await _kind(adapter, catalog) for _ in range(6)]
        assert kinds == ["status", None, "invalid", "empty", None, None]


async def _kind(adapter: RapidApiAdapter, catalog: Catalog) -> str | None:
    try:
        await fetch(adapter, catalog)
    except UpstreamFault as fault:
        return fault.kind
    return None


async def test_faults_come_at_their_rates_and_by_the_seed(catalog: Catalog) -> None:
    faults = Faults(rates={Fault.EMPTY: 0.2, Fault.NOT_FOUND: 0.3})
    runs = []
    for _ in range(2):
        async with (
            SimulatedUpstream.open(catalog, seed=7, faults=faults) as simulator,
            adapter_for(catalog, simulator.base_url) as adapter,
        ):
            runs.append([await _kind(adapter, catalog) for _ in range(200)])
    assert runs[0] == runs[1]
    assert 20 <= runs[0].count("empty") <= 60
    assert 40 <= runs[0].count("status") <= 80


@pytest.mark.parametrize("rates", [{Fault.HTML: 0.7, Fault.EMPTY: 0.4}, {Fault.HTML: -0.1}])
def test_rates_are_shares_of_one_whole(rates: dict[Fault, float]) -> None:
    with pytest.raises(ValueError, match="rates of faults"):
        Faults(rates=rates)


async def test_scripts_hold_for_akshare_too(catalog: Catalog) -> None:
    names = [m.binding.function for m in catalog if isinstance(m.binding, AkShareBinding)]
    async with (
        SimulatedUpstream.open(catalog) as simulator,
        AkShareAdapter.open(names, base_url=simulator.base_url, workers=1) as adapter,
    ):
        manifest = tool(catalog, "stock_zh_a_hist")
        simulator.play("push2his.eastmoney.com", Fault.BAD_GATEWAY)
        with pytest.raises(UpstreamFault, match="HTTP 502"):
            await adapter.fetch(manifest, {"symbol": "600519"}, PATIENCE_S)
        assert (await adapter.fetch(manifest, {"symbol": "600519"}, PATIENCE_S)).rows


# --- connections that are kept ------------------------------------------------------------------


async def test_a_kept_connection_that_died_is_no_longer_used(catalog: Catalog) -> None:
    closing = Closing()
    async with closing.open() as url, adapter_for(catalog, url) as adapter:
        manifest = tool(catalog, "get_coin")
        assert (await adapter.fetch(manifest, {"uuid": "x"}, 5)).data
        with pytest.raises(UpstreamFault) as caught:
            await adapter.fetch(manifest, {"uuid": "x"}, 5)
        assert (caught.value.kind, caught.value.retryable) == ("dropped", True)
        for _ in range(5):
            assert (await adapter.fetch(manifest, {"uuid": "x"}, 5)).data
    assert (closing.connections, closing.read) == (6, 7)


# --- what a client sees of one answer -----------------------------------------------------------


@asynccontextmanager
async def answering(
    catalog: Catalog, body: bytes, headers: Mapping[str, str] | None = None
) -> AsyncIterator[RapidApiAdapter]:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body, headers=headers)

    async with upstream(handler) as url, adapter_for(catalog, url) as adapter:
        yield adapter


VALUE = {"name": "样本银行", "prices": [1.5] * 9}
PLAIN = json.dumps(VALUE, ensure_ascii=False).encode()
GBK = PLAIN.decode().encode("gbk")


def packed(text: bytes) -> bytes:
    """As gzip does it, and the same at any time: texts name tests."""
    return gzip.compress(text, mtime=0)


def _raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (PLAIN, {"Content-Type": "text/html"}),
        (b"\xef\xbb\xbf" + PLAIN, {}),
        (PLAIN.decode().encode("gb18030"), {"Content-Type": "text/plain; charset=GB18030"}),
        (PLAIN.decode().encode("utf-16"), {"Content-Type": "application/json; charset=utf-16"}),
        (PLAIN, {"Content-Type": "application/json; charset=iso-8859-1"}),
        (packed(PLAIN), {"Content-Encoding": "gzip"}),
        (packed(PLAIN[:9]) + packed(PLAIN[9:]), {"Content-Encoding": "X-GZIP"}),
        (zlib.compress(PLAIN), {"Content-Encoding": "deflate"}),
        (_raw_deflate(PLAIN), {"Content-Encoding": "deflate"}),
        (PLAIN, {"Content-Encoding": "identity"}),
    ],
)
async def test_one_value_in_many_wrappings(
    catalog: Catalog, body: bytes, headers: dict[str, str]
) -> None:
    async with answering(catalog, body, headers) as adapter:
        assert json.loads((await fetch(adapter, catalog)).data) == VALUE


async def test_a_long_answer_is_unpacked_whole(catalog: Catalog) -> None:
    value = ["x" * 99] * (5 * STEP // 100)
    wrapped = packed(json.dumps(value).encode())
    async with answering(catalog, wrapped, {"Content-Encoding": "gzip"}) as adapter:
        assert json.loads((await fetch(adapter, catalog)).data) == value


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (packed(PLAIN)[:-12], {"Content-Encoding": "gzip"}, ("unreachable", True)),
        (packed(PLAIN)[:-4] + b"abcd", {"Content-Encoding": "gzip"}, ("invalid", False)),
        (PLAIN, {"Content-Encoding": "gzip"}, ("invalid", False)),
        (PLAIN, {"Content-Encoding": "br"}, ("invalid", False)),
        (PLAIN, {"Content-Encoding": SECRET}, ("invalid", False)),
        (PLAIN, {"Content-Encoding": "gzip, gzip"}, ("invalid", False)),
        (b"", {"Content-Encoding": "gzip"}, ("empty", True)),
        (GBK, {}, ("invalid", False)),
        (GBK, {"Content-Type": "a/b; charset=punycode"}, ("invalid", False)),
        (GBK, {"Content-Type": "a/b; charset=nonsense"}, ("invalid", False)),
        (b"  \n<?xml version='1.0'?><a/>", {}, ("invalid", False)),
        (b"<html>" + b"\xff" * 9, {}, ("invalid", False)),
    ],
)
async def test_wrappings_that_are_torn(
    catalog: Catalog, body: bytes, headers: dict[str, str], expected: tuple[str, bool]
) -> None:
    async with answering(catalog, body, headers) as adapter:
        with pytest.raises(UpstreamFault) as caught:
            await fetch(adapter, catalog)
    assert (caught.value.kind, caught.value.retryable) == expected
    assert SECRET not in caught.value.message


@asynccontextmanager
async def raw(reply: bytes) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that sends `reply` and closes; and how many connections it has had."""
    connections = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(reply)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield "http://127.0.0.1:{1}".format(*server.sockets[0].getsockname()), connections


HTTP = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [
        (b"", "unreachable", "before it answered"),
        (b"nonsense\r\n\r\n", "unreachable", "not answer in HTTP"),
        (HTTP + b"Content-Length: 9\r\n\r\n{}", "unreachable", "broke off"),
        (HTTP + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", "unreachable", "broke off"),
        (HTTP + b"Content-Length: 16777217\r\n\r\n{}", "too_large", "over"),
        (HTTP + b'\r\n{"a": 1', "invalid", "no JSON"),
    ],
)
async def test_replies_that_are_no_whole_http(
    catalog: Catalog, reply: bytes, kind: str, text: str
) -> None:
    async with raw(reply) as (url, _), adapter_for(catalog, url) as adapter:
        with pytest.raises(UpstreamFault, match=text) as caught:
            await fetch(adapter, catalog)
    assert (caught.value.kind, caught.value.retryable) == (kind, kind == "unreachable")


async def test_a_connection_whose_answer_was_refused_is_not_used_again(catalog: Catalog) -> None:
    ports = []

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        if len(ports) != 2:
            return web.Response(body=b"{}")
        response = web.StreamResponse()
        response.content_length = MAX_BYTES + 1
        await response.prepare(request)
        await asyncio.sleep(2 * PATIENCE_S)
        return response

    async with upstream(handler) as url, adapter_for(catalog, url) as adapter:
        await fetch(adapter, catalog)
        with pytest.raises(UpstreamFault, match="over"):
            await fetch(adapter, catalog)
        await fetch(adapter, catalog)
    assert ports[0] == ports[1] != ports[2]


async def test_a_refusal_counts_though_its_words_hang(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.http.REFUSAL_S", 0.1)

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=404)
        await response.prepare(request)
        await asyncio.sleep(2 * PATIENCE_S)
        return response

    async with upstream(handler) as url, adapter_for(catalog, url) as adapter:
        with pytest.raises(UpstreamFault, match="answered 404") as caught:
            await fetch(adapter, catalog)
    assert caught.value.kind == "status"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (packed(b" " * (MAX_BYTES + 1)), {"Content-Encoding": "gzip"}),
        (packed(b"") * 2_000 + b"!", {"Content-Encoding": "gzip"}),
        (b"<title" * 10_000, {}),
        (b'{"a": NaN, "b": [' + b"0.5, " * 12_000, {}),
    ],
    ids=["bomb", "members", "titles", "not a number"],
)
async def test_no_body_keeps_the_loop(
    catalog: Catalog, body: bytes, headers: dict[str, str]
) -> None:
    """Of processor time between two turns it is under 5 ms; to unpack in one go would take 60."""
    stops = []
    async with answering(catalog, body, headers) as adapter:
        for _ in range(5):
            call = asyncio.create_task(fetch(adapter, catalog))
            longest, last = 0.0, time.thread_time()
            while not call.done():
                await asyncio.sleep(0)
                now = time.thread_time()
                longest, last = max(longest, now - last), now
            assert isinstance(call.exception(), UpstreamFault)
            stops.append(longest)
    assert min(stops) < 0.02


# --- errors in a body of success ----------------------------------------------------------------

ANY = "any.p.rapidapi.com"
AV = "alpha-vantage.p.rapidapi.com"
BYBIT, RATES = "bybit4.p.rapidapi.com", "exchangerate-api.p.rapidapi.com"
CALM = "Thank you for using Alpha Vantage! Our standard API rate limit is 25 requests per day."
PAID = "Thank you for using Alpha Vantage! This is a premium endpoint."
YAHOO = {"code": "Not Found", "description": "No data found"}

ERRORS: list[tuple[str, Any, int | None, str]] = [
    (AV, {"Error Message": "Invalid API call."}, None, "Invalid API call."),
    (AV, {"Note": CALM}, 429, CALM),
    (AV, {"Information": CALM}, 429, CALM),
    (AV, {"Information": PAID}, None, PAID),
    ("financial-modeling-prep.p.rapidapi.com", {"Error Message": "Limit Reach ."}, 429, "Limit"),
    (BYBIT, {"retCode": 10001, "retMsg": "params error", "result": {}}, None, "params"),
    (BYBIT, {"retCode": 10006, "retMsg": "Too many visits"}, 429, "visits"),
    (BYBIT, {"retCode": 10016, "retMsg": "Server error"}, 500, "Server"),
    (RATES, {"result": "error", "error-type": "quota-reached"}, 429, "quota"),
    (RATES, {"result": "error", "error-type": "bad-code"}, None, "bad"),
    ("trading-view.p.rapidapi.com", {"s": "error", "errmsg": "unknown symbol"}, None, "unknown"),
    (ANY, {"code": 400, "message": "symbol is wrong", "status": "error"}, 400, "symbol is wrong"),
    (ANY, {"code": 429, "message": "out of credits", "status": "error"}, 429, "out of credits"),
    (ANY, {"code": "503", "message": "later"}, 503, "later"),
    (ANY, {"chart": {"result": None, "error": YAHOO}}, None, "Not Found: No data found"),
    (ANY, {"quoteResponse": {"result": [], "error": YAHOO}}, None, "No data found"),
    (ANY, {"success": False, "error": {"code": 104, "info": "limit"}}, None, "limit"),
    (ANY, {"success": False, "message": "no", "data": None}, None, "no reason given"),
    (ANY, {"status": "fail", "type": "COIN_NOT_FOUND", "message": "Coin not found"}, None, "Coin"),
    (ANY, {"status": "failed", "data": []}, None, "no reason given"),
    (ANY, {"error": "not_valid_params", "message": "Currency"}, None, "not_valid_params: Currency"),
    (ANY, {"error": {"code": 500, "message": "oops"}}, 500, "oops"),
    (ANY, {"errors": [{"status": "404", "title": "Not Found"}]}, 404, "Not Found"),
    (ANY, {"errors": {"symbol": ["is too long"]}}, None, "is too long"),
    (ANY, {"data": None, "errors": [{"message": "Internal server error"}]}, 503, "Internal"),
    (ANY, {"message": "You are not subscribed to this API."}, None, "not subscribed"),
    (ANY, {"message": "Too many requests"}, 429, "Too many"),
    (ANY, {"messages": "The API is unreachable", "info": "Gateway (working)"}, 503, "unreachable"),
    (ANY, {"error": True}, None, "no reason given"),
]


@pytest.mark.parametrize(("host", "value", "status", "text"), ERRORS)
def test_an_error_in_a_body_of_success_is_seen(
    host: str, value: Any, status: int | None, text: str
) -> None:
    refusal = error_body_in(host, value)
    assert refusal is not None
    assert refusal.status == status
    assert text in refusal.text


@pytest.mark.parametrize(
    "value",
    [
        *([], {}, None, 1, "Too many requests", [{"error": "x"}], {"error": None}, {"errors": []}),
        {"error": None, "message": None, "price": 1},
        {"chart": {"result": [{"x": 1}], "error": None}},
        {"chart": {"result": [{"x": 1}], "error": YAHOO}},
        {"quoteResponse": {"result": [], "error": None}},
        {"success": True, "data": []},
        {"status": "ok", "data": [], "code": 200},
        {"status": "error", "data": {"price": 1}},
        {"status": "error", "result": {"price": 1}},
        {"code": 500, "name": "CSI 500"},
        {"message": "success"},
        {"message": "hello", "id": 3},
        {"error": 0.02},
        {"error": {"mean": 0.5, "deviation": 0.1}},
        {"title": "Apple", "description": "Error rates in phones"},
        {"result": "error", "price": 1},
        {"Note": "see below", "Time Series": {"2024-01-31": {"close": "1"}}},
        {"retCode": 0, "retMsg": "OK", "result": {"list": []}},
        *({"valid": False}, {"Note": ""}, {"Information": 5}, {"retCode": None}),
    ],
)
def test_what_holds_data_or_says_nothing_wrong_is_an_answer(value: Any) -> None:
    for host in (ANY, *RULES):
        assert error_body_in(host, value) is None


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_NAMES = st.sampled_from(["error", "errors", "status", "code", "message", "result", "success", "s"])
anything = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text() | _NAMES, inner)
)


@given(st.sampled_from(ERRORS), st.integers() | st.floats() | st.text(min_size=1))
def test_data_beside_an_error_makes_it_an_answer(
    error: tuple[str, Any, int | None, str], price: float | str
) -> None:
    assert error_body_in(error[0], {**error[1], "result": {"price": price}, "price": price}) is None


@settings(max_examples=50)
@given(anything)
def test_no_value_is_too_odd_to_be_looked_at(value: Any) -> None:
    for host in (ANY, *RULES):
        assert isinstance(error_body_in(host, value), UpstreamErrorBody | None)


async def test_no_simulated_answer_passes_for_an_error(catalog: Catalog) -> None:
    async with (
        SimulatedUpstream.open(catalog) as simulator,
        adapter_for(
            catalog, simulator.base_url, credentials={m.upstream: "mine" for m in catalog}
        ) as adapter,
    ):
        for manifest in catalog:
            if isinstance(manifest.binding, RapidApiBinding):
                await adapter.fetch(
                    manifest, Signature(manifest).bind(manifest.sample()), PATIENCE_S
                )
