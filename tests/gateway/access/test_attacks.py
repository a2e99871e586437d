"""Ways in that must fail: each on a connection of its own to a running gateway that has keys.

None of them may leave a connection, a task or a traceback behind, nor a key in an answer, a log or
the trace. `pytest -s` prints how each of them ended.
"""

import asyncio
import gc
import gzip
import json
import logging
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest
from pydantic import SecretStr

from gateway.access import keys, loop_share
from gateway.api import requests as bodies
from gateway.server import connection, http
from gateway.telemetry.logs import ACCESS
from gateway.trace import JsonLines
from manifests import Catalog
from manifests.selection import Selection
from tests.support.attacks import (
    CHUNKED,
    COIN,
    GARBAGE,
    GZIP,
    PACKED,
    WAYS,
    Way,
    ask,
    batch,
    bomb,
    call,
    mcp,
    message,
    once,
)
from tests.support.gate import ANSWER, Gate, Seen, end_of, hanging, memory
from tests.support.gateways import PLANTED_KEY, open_local_gateway
from tests.support.waiting import turns, until

pytestmark = pytest.mark.anyio

CONNECTIONS = 40
SHORT_S = 0.6
"""In place of the seconds that clients have for something."""

MiB = 2**20

DRIP = b"0"
"""A body whose length is not said, as it takes for ever to come."""

BOMB_BYTES = 48 * 2**20


@pytest.fixture(scope="module")
async def gate(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gate]:
    folder = tmp_path_factory.mktemp("gate")
    file, others, trace = folder / "clients.json", folder / "others.json", folder / "trace.jsonl"
    bond = Selection.parse("source:akshare")
    made = {
        b"<bob>": keys.add(file, "bob")[0],
        b"<narrow>": keys.add(file, "narrow", tools=bond)[0],
        b"<rare>": keys.add(file, "rare", per_second=1e-3)[0],
        b"<single>": keys.add(file, "single", at_once=1)[0],
        b"<leaver>": keys.add(file, "leaver")[0],
        b"<stranger>": keys.add(others, "bob")[0],
    }
    made |= {b"<short>": made[b"<bob>"][:-1], b"<hash>": keys.digest_of(made[b"<bob>"])}
    async with (
        JsonLines.open(trace) as lines,
        open_local_gateway(
            catalog,
            folder,
            trace=lines,
            clients_file=file,
            api_keys=(SecretStr("env=planted-client-key-0815"),),
            allowed_origins=("https://app.example",),
            max_connections=CONNECTIONS,
            access_log=True,
        ) as local,
    ):
        before = asyncio.all_tasks()
        async with http.serve(local.gateway) as url:
            host, port = url.removeprefix("http://").split(":")
            known = {name: key.encode() for name, key in made.items()}
            gate = Gate((host, int(port)), local, file, trace, known)
            seen = Seen(gate.logged)
            logging.getLogger().addHandler(seen)
            logging.getLogger(ACCESS).setLevel(logging.INFO)
            yield gate
        logging.getLogger(ACCESS).setLevel(logging.NOTSET)
        logging.getLogger().removeHandler(seen)
        names = {getattr(t.get_coro(), "__qualname__", "") for t in asyncio.all_tasks() - before}
        assert names <= {"RequestHandler.start", "TestRunner._call_in_runner_task"}  # not ours
    recorded = trace.read_bytes()
    assert not any(key in recorded for key in (*known.values(), PLANTED_KEY.encode()))
    print(*(f"\n{way:60} | {ended}" for way, ended in gate.table), sep="")  # noqa: T201


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients have little time. Only tests in which they need none may ask for that."""
    for name in ("REQUEST_S", "IDLE_S", "SEND_S", "REST_S"):
        monkeypatch.setattr(connection, name, SHORT_S)
    monkeypatch.setattr(bodies, "BODY_S", SHORT_S)


@pytest.fixture(autouse=True)
async def _nothing_is_left(gate: Gate) -> AsyncIterator[None]:
    gate.logged.clear()
    gate.seen.clear()
    yield
    await until(lambda: gate.left == 0)
    assert gate.tracebacks == []
    said = bytes(gate.seen) + "\n".join(map(str, map(vars, gate.logged))).encode()
    for key in (*gate.keys.values(), PLANTED_KEY.encode()):
        assert key not in said


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
async def test_a_way_in_fails(gate: Gate, way: Way) -> None:
    came = await gate.answers(way.sent)
    ended = end_of(came, way.ends)
    gate.note(way.name, ended)
    assert ended == way.ends
    assert gate.filled(way.hides) not in came
    assert b"smuggled" not in came
    assert b"aiohttp" not in came
    if b" 429 " in came:
        assert b"\r\nRetry-After: " in came
    for answer in ANSWER.split(came)[1:]:
        head, _, _ = answer.partition(b"\r\n\r\n")
        assert re.search(rb"\r\nContent-Type: application/(x-nd)?json\r\n", head)
        assert head.startswith(b"HTTP/1.0 400") or b"\r\nX-Request-Id: " in head


@pytest.mark.parametrize(
    ("way", "sent", "drop", "ends"),
    [
        ("nothing sent", b"", b"", "closed"),
        ("HTTP/0.9, half", b"GET /readyz\r\n", b"", "closed"),
        ("head that does not end", b"GET /readyz HTTP/1.1\r\nX: ", b"x", "closed"),
        ("second head that does not end", once(ask("/readyz")) + b"GET ", b"/", "200"),
        ("body that does not end", call(DRIP, CHUNKED), b"1\r\n \r\n", GARBAGE),
        ("batch whose line does not end", batch(DRIP, head=(CHUNKED,)), b"1\r\n \r\n", GARBAGE),
        ("body that nobody wants", ask("/readyz", CHUNKED), b"1\r\n \r\n", "200"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.usefixtures("short")
async def test_who_takes_for_ever_to_send_is_cut_off(
    gate: Gate, way: str, sent: bytes, drop: bytes, ends: str
) -> None:
    sent = sent.replace(f"Content-Length: {len(DRIP)}\r\n".encode(), b"")
    async with gate.connected() as (reader, writer):
        writer.write(gate.filled(sent))
        answers = asyncio.create_task(gate.rest(reader))
        while not answers.done():
            writer.write(drop)
            await asyncio.sleep(0.02)
        ended = end_of(await answers, "")
    gate.note(way, f"{ended}, cut off")
    assert ended == ends


@pytest.mark.parametrize(
    ("way", "sent"),
    [
        ("large answers unread", once(ask("/v1/schemas/mcp")) * 20),
        ("flood of requests, answers unread", once(ask("/readyz")) * 40_000),
        ("batch unread", batch(*[COIN] * 20_000)),
    ],
)
@pytest.mark.usefixtures("short")
async def test_who_reads_nothing_is_cut_off(gate: Gate, way: str, sent: bytes) -> None:
    async with gate.connected(buffer=4096) as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(gate.filled(sent))
        await until(lambda: gate.left == 1)
        await until(lambda: gate.left == 0)
    gate.note(way, "closed")


async def test_time_for_which_the_gateway_stood_still_is_not_its_client_s(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_S", SHORT_S)
    text = b'{"uuid":"in-two-parts"}'
    head = ask("/v1/tools/get_coin", f"Content-Length: {len(text)}", method="POST")
    async with gate.connected() as (reader, writer):
        writer.write(gate.filled(head) + text[:5])
        await until(lambda: gate.left == 1)
        await asyncio.sleep(SHORT_S / 2)
        own = writer.get_extra_info("socket")
        os.write(own.fileno(), text[5:])
        time.sleep(2 * SHORT_S)  # noqa: ASYNC251 - as a machine that is busy elsewhere
        assert end_of(await gate.rest(reader), "") == "200"


@pytest.mark.usefixtures("short")
async def test_closing_does_not_wait_for_ever(gate: Gate) -> None:
    class Deaf:
        """A transport whose peer takes nothing any more."""

        def __init__(self, real: asyncio.Transport) -> None:
            self._real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def close(self) -> None:
            """It has something left to send."""

    async with gate.connected() as (reader, writer):
        await until(lambda: gate.left == 1)
        (open_,) = [o for o in gc.get_objects() if type(o) is connection.Connection and o.transport]
        real = cast(asyncio.Transport, open_.transport)
        open_.transport = cast(asyncio.Transport, Deaf(real))
        writer.write(gate.filled(ask("/readyz")))
        start = asyncio.get_running_loop().time()
        assert b" 200 " in await gate.rest(reader)
        took = asyncio.get_running_loop().time() - start
    gate.note("last answer unread", f"closed after {took:.1f} s")
    assert took > SHORT_S / 2


async def test_connections_without_a_request_give_way_to_callers_and_to_health(gate: Gate) -> None:
    async with AsyncExitStack() as parts:
        for n in range(3 * CONNECTIONS):
            _, writer = await parts.enter_async_context(gate.connected())
            writer.write((b"", b"POST /v1/tools/get_coin HTTP/1.1\r\nHost: x")[n % 2])
            if n % 10 == 9:
                assert end_of(await gate.answers(call()), "") == "200"
                assert end_of(await gate.answers(ask("/readyz", key=None)), "") == "200"
        await until(lambda: gate.left <= CONNECTIONS)
    gate.note("connections without a request", "the oldest are closed")


async def test_a_place_is_kept_for_health_when_callers_have_all_others(gate: Gate) -> None:
    async with AsyncExitStack() as parts:
        answers = []
        for _ in range(CONNECTIONS):
            reader, writer = await parts.enter_async_context(gate.connected())
            writer.write(gate.filled(once(ask())))
            answers.append((await reader.readuntil(b"\r\n\r\n"))[9:12])
        assert answers[:-2] == [b"200"] * (CONNECTIONS - 2)
        assert answers[-1] == b"503"
        assert end_of(await gate.answers(call()), "") == "503 overloaded"
        assert end_of(await gate.answers(ask("/readyz", key=None)), "") == "200"
    gate.note("connections of callers too many", "503 overloaded")


async def test_a_flood_leaves_the_connections_of_callers_and_of_other_addresses(
    gate: Gate,
) -> None:
    async with AsyncExitStack() as parts:
        reader, writer = await parts.enter_async_context(gate.connected())
        writer.write(gate.filled(once(call())))
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        other, _ = await parts.enter_async_context(gate.connected(address="127.0.0.9"))
        for _ in range(3 * CONNECTIONS):
            await parts.enter_async_context(gate.connected())
        writer.write(gate.filled(call()))
        assert b" 200 " in await gate.rest(reader)
        assert not other.at_eof()
    gate.note("flood beside a connection that is kept", "200")


async def test_a_client_that_closes_its_side_gets_its_answers(gate: Gate) -> None:
    line = batch(COIN, COIN.replace(b'"x"', b'"other"'))
    for sent, ends in ((call(), "200"), (once(call()) + call(), "200, 200"), (line, "200")):
        async with gate.connected() as (reader, writer):
            writer.write(gate.filled(sent))
            writer.write_eof()
            assert end_of(await gate.rest(reader), "") == ends
    gate.note("half-closed", "answered")


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (call(b'{"uuid":"late"}'), b"HTTP/1.1 100 Continue\r\n\r\n"),
        (batch(b'{"tool":"unknown"}', COIN.replace(b'"x"', b'"late"')), b"1\r\n\n\r\n"),
        (call(b'{"uuid":"late"}').replace(b"HTTP/1.1", b"HTTP/1.0"), b""),
    ],
    ids=["call", "batch", "HTTP/1.0"],
)
async def test_a_client_that_leaves_behind_its_closed_side_has_its_calls_cancelled(
    gate: Gate, sent: bytes, told: bytes
) -> None:
    async with hanging(gate), gate.connected() as (reader, writer):
        writer.write(gate.filled(sent))
        await until(lambda: gate.local.gateway.answers.under_way == 1)
        writer.write_eof()
        await reader.readuntil(told) if told else await reader.read()
        writer.close()
        await until(lambda: gate.local.gateway.answers.under_way == 0)


async def test_a_caller_with_many_idle_connections_gives_places_to_others(gate: Gate) -> None:
    async with AsyncExitStack() as parts:
        for _ in range(CONNECTIONS):
            reader, writer = await parts.enter_async_context(gate.connected())
            writer.write(gate.filled(once(ask())))
            await reader.readuntil(b"\r\n\r\n")
        assert end_of(await gate.answers(ask("/readyz")), "") == "200"
        assert end_of(await gate.answers(call(key="<single>")), "") == "200"


async def test_a_body_of_extensions_without_content_is_cut_off(gate: Gate) -> None:
    head = batch(DRIP, head=(CHUNKED,)).replace(f"Content-Length: {len(DRIP)}\r\n".encode(), b"")
    async with gate.connected() as (reader, writer):
        writer.write(gate.filled(head) + b"1;" + b"x" * MiB)
        ended = await gate.rest(reader)
    assert b'"ok"' not in ended


async def test_tiny_chunks_and_empty_lines_cost_others_little(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_share, "WAIT_S", SHORT_S)
    head = batch(DRIP, head=(CHUNKED,)).replace(f"Content-Length: {len(DRIP)}\r\n".encode(), b"")
    packed = gzip.compress(b"\n" * 20_000_000)
    floods = (
        head + b"1\r\n \r\n" * 40_000,
        ask("/v1/calls?stream=1", GZIP, method="POST", body=packed),
        ask("/v1/calls?stream=1", method="POST", body=b'{"cancel":1}\n' * 20_000),
        ask("/v1/calls", method="POST", body=b"1\n" * 100_000),
    )
    for flood in floods:
        async with AsyncExitStack() as parts:
            readers = []
            for _ in range(CONNECTIONS // 4):
                reader, writer = await parts.enter_async_context(gate.connected())
                writer.write(gate.filled(flood))
                readers.append(reader)
            with turns() as longest:
                assert end_of(await gate.answers(call()), "") == "200"
                assert end_of(await gate.answers(call()), "") == "200"
            assert max(longest) < 0.25
    gate.note("tiny chunks, empty lines, lines without calls", "others are served")


async def test_a_compressed_body_does_not_become_a_thousand_times_as_long(gate: Gate) -> None:
    packed = gzip.compress(b"\n" * 20_000_000)
    came = await gate.answers(ask("/v1/calls?stream=1", GZIP, method="POST", body=packed))
    assert b'"too_large"' in came
    assert came.count(b"\n") < 1_000


async def test_empty_lines_do_not_keep_a_batch_open(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_S", SHORT_S)
    head = batch(DRIP, head=(CHUNKED,)).replace(f"Content-Length: {len(DRIP)}\r\n".encode(), b"")
    async with gate.connected() as (reader, writer):
        writer.write(gate.filled(head))
        answers = asyncio.create_task(gate.rest(reader))
        while not answers.done():
            writer.write(b"1\r\n\n\r\n")
            await asyncio.sleep(0.05)
        assert end_of(await answers, "") == GARBAGE


async def test_a_revoked_key_ends_also_what_is_under_way(gate: Gate) -> None:
    head = batch(DRIP, key="<leaver>", head=(CHUNKED,))
    line = b"%x\r\n%b\n\r\n" % (len(COIN) + 1, COIN)
    async with gate.connected() as (reader, writer):
        writer.write(gate.filled(head.replace(f"Content-Length: {len(DRIP)}\r\n".encode(), b"")))
        writer.write(line)
        assert b'"ok":true' in await reader.readuntil(b"}}\n")
        keys.revoke(gate.clients_file, "leaver")
        async with asyncio.timeout(30):
            while (ended := end_of(await gate.answers(call(key="<leaver>")), "")) == "200":
                await asyncio.sleep(0.05)
        gate.note("revoked key", ended)
        assert ended == "401 unauthorized"
        writer.write(line + b"0\r\n\r\n")
        came = await gate.rest(reader)
    gate.note("revoked key, in a batch that had begun", "unauthorized")
    assert b'"code":"unauthorized"' in came


async def test_a_client_has_no_more_calls_at_once_than_it_may(gate: Gate) -> None:
    async with hanging(gate), gate.connected() as (_, writer):
        writer.write(gate.filled(call(b'{"uuid":"hangs"}', key="<single>")))
        await until(lambda: gate.local.gateway.answers.under_way == 1)
        for way, sent in (
            ("more calls at once", call(key="<single>")),
            ("more calls at once, MCP", mcp("call_tool", {"name": "get_coin"}, "<single>")),
        ):
            ended = end_of(await gate.answers(sent), "")
            gate.note(way, ended)
            assert ended.endswith("rate_limited")
        writer.transport.abort()
        await until(lambda: gate.local.gateway.answers.under_way == 0)
    assert end_of(await gate.answers(call(key="<single>")), "") == "200"


async def test_nobody_cancels_another_client_s_call(gate: Gate) -> None:
    session = "Mcp-Session-Id: 0123456789abcdef0123456789abcdef"
    params = {"name": "call_tool", "arguments": {"name": "get_coin", "arguments": {"uuid": "y"}}}
    asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    async with hanging(gate), gate.connected() as (_, writer):
        writer.write(gate.filled(message(json.dumps(asked).encode(), "<bob>", head=session)))
        await until(lambda: gate.local.gateway.answers.under_way == 1)
        for key, ended in (("<narrow>", 1), ("<bob>", 0)):
            await gate.answers(message(json.dumps(cancel).encode(), key, head=session))
            await asyncio.sleep(0.05)
            assert gate.local.gateway.answers.under_way == ended
    gate.note("MCP session of another client, to cancel its call", "202, nothing cancelled")


@pytest.mark.parametrize("sent", [call()[:-3], batch(COIN, b"{")[:-1], once(call())])
async def test_who_goes_away_leaves_nothing_behind(gate: Gate, sent: bytes) -> None:
    for _ in range(20):
        async with gate.connected() as (_, writer):
            writer.write(gate.filled(sent))
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("sent", [call(bomb(), GZIP), batch(bomb(), head=(GZIP,))])
async def test_a_bomb_takes_little_memory(gate: Gate, sent: bytes) -> None:
    before = memory()
    assert end_of(await gate.answers(sent), "") == "413 too_large"
    assert memory(peak=True) - before < BOMB_BYTES


async def test_an_allowed_page_can_read_all_answers(gate: Gate) -> None:
    origin = "Origin: https://app.example"
    for sent in (
        *(call(b'{"uuid":"x"}', origin), call(b"{", origin), call(b"{}", origin, key="wrong")),
        *(batch(COIN, head=(origin,)), message(b"{}", head=origin), ask("/nowhere", origin)),
        ask("/v1/tools", origin, "Access-Control-Request-Method: POST", method="OPTIONS", key=None),
    ):
        came = await gate.answers(sent)
        assert b"\r\nAccess-Control-Allow-Origin: https://app.example\r\n" in came
        assert came.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("path", ["/v1/tools/get_coin", "/v1/tools", "/mcp"])
async def test_an_allowed_page_may_send_and_read_what_clients_need(gate: Gate, path: str) -> None:
    origin = "Origin: https://app.example"
    sent = ask(path, origin, "Access-Control-Request-Method: POST", method="OPTIONS", key=None)
    allowed = names_in(await gate.answers(sent), "Access-Control-Allow-Headers")
    assert allowed >= {
        *("authorization", "x-api-key", "content-type", "cache-control", "traceparent"),
        *("mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id"),
    }
    assert "delete" in names_in(await gate.answers(sent), "Access-Control-Allow-Methods")
    came = await gate.answers(ask(path, origin, method="POST", key=None, body=b"{}"))
    assert came.startswith(b"HTTP/1.1 401 ")
    assert names_in(came, "Access-Control-Expose-Headers") >= {
        *("x-request-id", "retry-after", "etag", "age", "www-authenticate"),
        *("mcp-session-id", "mcp-protocol-version"),
    }


def names_in(answer: bytes, header: str) -> set[str]:
    """What a header of an answer lists, which stands in it once."""
    (value,) = re.findall(rf"\r\n{header}: (.*)\r\n", answer.decode("latin-1"), re.IGNORECASE)
    return {name.strip().lower() for name in value.split(",")}


async def test_afterwards_a_call_is_answered_as_before(gate: Gate) -> None:
    assert end_of(await gate.answers(call(b'{"uuid":"afterwards"}')), "") == "200"
    assert end_of(await gate.answers(call(PACKED, GZIP)), "") == "200"
    assert end_of(await gate.answers(call(PACKED, GZIP, "X-Api-Key: <bob>", key=None)), "") == "200"
    for sent in (batch(COIN, COIN), batch(gzip.compress(COIN + b"\n" + COIN), head=(GZIP,))):
        assert (await gate.answers(sent)).count(b'"ok":true') == 2
