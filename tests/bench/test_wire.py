"""Calls of a run over streams: what reaches the agent and the trace, whatever becomes of them."""

import asyncio
import gzip
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from bench.client import HttpClient
from bench.runs.directory import RunDirectory
from bench.wire import ANSWER_BYTES, STREAMS, Patience, WireClient
from gateway import CallContext, Result
from gateway.access.keys import add, revoke
from gateway.server import http
from gateway.server.sockets import bound_socket
from manifests import Catalog
from tests.support.answers import envelope
from tests.support.gateways import (
    HIST,
    ServedGateway,
    open_local_gateway,
    open_served_gateway,
    play,
    under_way,
)
from tests.support.runs import lines_of
from tests.support.servers import server
from tests.support.upstreams import upstream
from tests.support.waiting import PATIENCE_S, Held, until

pytestmark = pytest.mark.anyio

CONTEXT = CallContext(episode="e.0", step=1)
COIN = {"uuid": "x"}
SOON = Patience(call_s=30.0, outage_s=30.0, silence_s=0.3, ping_s=0.1)


@pytest.fixture
def kept_tables(tables: Path) -> Path:
    return tables


async def records(run: RunDirectory) -> list[dict[str, Any]]:
    await run.calls.written()
    return lines_of(run.path / "calls.jsonl")


def coins(client: WireClient, number: int) -> list[asyncio.Task[Result]]:
    """Calls that differ, under way."""
    calls = (client.call("get_coin", {"uuid": f"c{n}"}, CONTEXT) for n in range(number))
    return [asyncio.create_task(call) for call in calls]


async def all_of(calls: list[asyncio.Task[Result]]) -> list[Result]:
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*calls)


CALLS: tuple[tuple[str, dict[str, Any], CallContext], ...] = (
    ("get_coin", COIN, CONTEXT),
    ("stock_zh_a_hist", HIST, CONTEXT),
    ("stock_zh_a_hist", {"symbol": "600519"}, CONTEXT),
    (
        "stock_zh_a_hist",
        {"symbol": "600519"},
        CallContext(episode="e", step=2, max_chars=400, question="the highest close"),
    ),
    ("get_coins", {"apikey": "planted"}, CONTEXT),
    ("no/such?tool", {}, CONTEXT),
    ("get_coin", {}, CONTEXT),
    ("get_coin", {"uuid": "x" * 2**20}, CONTEXT),
    ("get_coin", {"uuid": {1}}, CONTEXT),
    ("get_coin", {"uuid": "y"}, CallContext(episode="e", step=3, deadline_s=1e-6)),
)

OWN = ("call_id", "at", "elapsed_ms", "age_s", "source", "attempts")


async def test_replies_and_records_are_those_of_plain_requests(
    served: ServedGateway, run: RunDirectory
) -> None:
    async with (
        HttpClient.open(served.url, run.calls) as plain,
        WireClient.open(served.url, run.calls) as wire,
    ):
        for call in CALLS:
            ours, theirs = [await client.call(*call) for client in (wire, plain)]
            names = (
                "ok",
                "data",
                "truncated",
                "offset",
                "rows",
                "error",
                "is_shortened",
                "columns",
            )
            assert [getattr(ours, n) for n in names] == [getattr(theirs, n) for n in names], call
        assert wire.made == plain.made == len(CALLS)
    assert wire.plain is None
    late = await wire.call("get_coin", COIN, CONTEXT)
    assert (late.code, late.text()) == (
        "internal",
        "the gateway was not asked: the client is closed",
    )
    *made, _ = [{k: v for k, v in c.items() if k not in OWN} for c in await records(run)]
    assert made[::2] == made[1::2]
    assert "planted" not in json.dumps(made)


async def test_thousands_of_calls_are_under_way_over_few_sockets_and_can_be_cancelled(
    served: ServedGateway, run: RunDirectory
) -> None:
    play(served.local, hang_rate=1.0)
    async with WireClient.open(served.url, run.calls) as client:
        calls = coins(client, 4_300)
        await until(lambda: served.local.gateway.answers.under_way >= 4_000)
        assert client.streams <= STREAMS
        assert _connections() <= 2 * (STREAMS + 20)  # both ends are in this process
        assert served.local.gateway.answers.under_way < 5_000, "the others wait in the client"
        for call in calls:
            call.cancel()
        await under_way(served.local, 0)
        play(served.local)
        assert (await client.call("get_coin", COIN, CONTEXT)).ok
    codes = [record["code"] for record in await records(run)]
    assert (codes.count("cancelled"), codes.count(None), len(codes)) == (4_300, 1, 4_301)


def _connections() -> int:
    found = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is(fd)]
    return sum(name.startswith("socket:") for name in found)


def _is(descriptor: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{descriptor}")


async def test_a_deadline_ends_one_call_at_the_gateway(
    served: ServedGateway, run: RunDirectory
) -> None:
    play(served.local, hang_rate=1.0)
    async with WireClient.open(served.url, run.calls) as client:
        (patient,) = coins(client, 1)
        late = await client.call("get_coin", COIN, CallContext(deadline_s=0.05))
        assert late.code == "timeout"
        assert not patient.done()
        patient.cancel()
        await under_way(served.local, 0)


@asynccontextmanager
async def rolling(local: Any, port: int) -> AsyncIterator[int]:
    """The gateway served at a port, from the next one in line; leaving drains it."""
    with bound_socket("127.0.0.1", port) as listening:
        async with http.serve(local.gateway, listening=listening) as url:
            yield int(url.rpartition(":")[2])


async def test_a_gateway_that_drains_answers_what_it_began_and_its_successor_the_rest(
    catalog: Catalog, run: RunDirectory, tmp_path: Path
) -> None:
    held = Held()
    async with (
        upstream(held.handle) as base,
        open_local_gateway(
            catalog, tmp_path, rapidapi_base_url=base, max_concurrency_per_host=64
        ) as local,
    ):
        async with rolling(local, 0) as port:
            url = f"http://127.0.0.1:{port}"
            calm = Patience(call_s=30.0, outage_s=30.0)  # a busy machine is no silent gateway
            opened = WireClient.open(url, run.calls, once=(), patience=calm)
            client = await opened.__aenter__()
            begun = coins(client, 40)
            await until(lambda: held.asked == 40)

            asyncio.get_running_loop().call_later(0.2, held.released.set)
        later = [
            asyncio.create_task(client.call("get_coin", {"uuid": f"l{n}"}, CONTEXT))
            for n in range(40)
        ]
        assert all(reply.ok for reply in await all_of(begun))
        async with rolling(local, port):
            assert all(reply.ok for reply in await all_of(later))
            await opened.__aexit__(None, None, None)
        assert held.asked == 80, "no call was made twice"
    assert len(await records(run)) == 80


async def test_a_gateway_that_is_killed_and_started_again_loses_no_call(
    run: RunDirectory, tmp_path: Path
) -> None:
    slow = ("--simulated-latency-s", "0.2")
    async with (
        server(tmp_path / "a", *slow) as first,
        WireClient.open(first.url, run.calls, once=(), patience=SOON) as client,
    ):
        calls = coins(client, 200)
        await until(lambda: sum(call.done() for call in calls) > 10)
        first.process.send_signal(signal.SIGKILL)
        await first.process.wait()
        assert sum(not call.done() for call in calls) > 50
        async with server(tmp_path / "b", *slow, "--port", str(first.port)):
            replies = await all_of(calls)
    assert all(reply.ok for reply in replies)
    made = await records(run)
    assert len(made) == len({record["call_id"] for record in made}) == 200
    assert all(record["ok"] for record in made)


async def test_streams_are_renewed_so_that_new_processes_get_their_share(
    served: ServedGateway, run: RunDirectory
) -> None:
    play(served.local, latency_s=0.05)
    patience = Patience(stream_s=0.02)
    async with WireClient.open(served.url, run.calls, patience=patience) as client:
        for _ in range(5):
            assert all(reply.ok for reply in await all_of(coins(client, 40)))
        (last,) = coins(client, 1)
        await until(lambda: client.opened_in_all > 2 * STREAMS)
        assert (await last).ok
    assert len(await records(run)) == 201


async def test_a_stream_of_a_revoked_key_ends_and_its_calls_are_refused(
    catalog: Catalog, run: RunDirectory, tmp_path: Path
) -> None:
    file = tmp_path / "clients.json"
    key, _ = add(file, "few")
    async with (
        open_served_gateway(catalog, tmp_path, clients_file=file) as served,
        WireClient.open(served.url, run.calls, key, once=(), patience=SOON) as client,
    ):
        assert (await client.call("get_coin", COIN, CONTEXT)).ok
        revoke(file, "few")
        await until(lambda: not client.streams)
        reply = await client.call("get_coin", COIN, CONTEXT)
        assert (reply.ok, reply.code) == (False, "unauthorized")
        assert (await client.call("get_coin", COIN, CONTEXT)).code == "unauthorized"


Answers = Callable[["Heard"], Coroutine[Any, Any, None]]


class Heard:
    """One stream as a made-up gateway has it."""

    def __init__(self, number: int, request: web.Request, response: web.StreamResponse) -> None:
        self.number = number
        self.request = request
        self._response = response

    async def call(self) -> dict[str, Any]:
        """The next call; cancellations and empty lines are passed over."""
        while True:
            line = await self.request.content.readline()
            if not line:
                raise ConnectionResetError
            call = json.loads(line) if line.strip() else {}
            if "tool" in call:
                return dict(call)

    async def say(self, *lines: bytes) -> None:
        await self._response.write(b"".join(lines))

    def break_off(self) -> None:
        assert self.request.transport is not None
        self.request.transport.abort()


def answer(call: dict[str, Any], value: int = 1) -> bytes:
    return orjson.dumps({"id": call["id"], **envelope(value)}) + b"\n"


def gateway_of(answers: Answers) -> AbstractAsyncContextManager[str]:
    """A server that answers the calls of streams so, and plain ones properly."""
    streams = count(1)

    async def calls(request: web.Request) -> web.StreamResponse:
        if request.path != "/v1/calls":
            return web.json_response(envelope("plain"))
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        await response.write(b"\n")
        await answers(Heard(next(streams), request, response))
        return response

    return upstream(calls, is_cancelled=True)


async def odd_lines(heard: Heard) -> None:
    while True:
        call = await heard.call()
        await heard.say(b"garbage\n", b"\xff\xfe\n", b"[]\n", b'{"id":null,"ok":false}\n')
        await heard.say(b'{"id":"%d"}\n' % call["id"], b'{"id":99999,"ok":true}\n', b'{"id":\n')
        await heard.say(answer(call, 7), answer(call, 8), answer(call, 9))


async def breaks_off_at_first(heard: Heard) -> None:
    if heard.number <= STREAMS:
        call = await heard.call()
        await heard.say(answer(call)[:9])
        heard.break_off()
    while True:
        await heard.say(answer(await heard.call(), 7))


async def falls_silent_at_first(heard: Heard) -> None:
    call = await heard.call()
    if heard.number <= STREAMS:
        await heard.say(answer(call)[:9])
        await asyncio.sleep(PATIENCE_S)
    await heard.say(answer(call, 7))
    await falls_silent_at_first(Heard(STREAMS + 1, heard.request, heard._response))


@pytest.mark.parametrize("answers", [odd_lines, breaks_off_at_first, falls_silent_at_first])
async def test_what_a_stream_says_amiss_costs_no_call(run: RunDirectory, answers: Answers) -> None:
    async with (
        gateway_of(answers) as url,
        WireClient.open(url, run.calls, once=(), patience=SOON) as client,
    ):
        replies = await all_of(coins(client, 24))
    assert [(reply.ok, reply.data) for reply in replies] == [(True, b"7")] * 24
    assert len(await records(run)) == 24


async def test_a_line_that_does_not_end_is_not_kept(run: RunDirectory) -> None:
    async def answers(heard: Heard) -> None:
        call = await heard.call()
        start = b'{"id":%d,' % call["id"] if call["arguments"]["uuid"] == "c0" else b"x"
        for _ in range(ANSWER_BYTES // 2**18 + 8):
            await heard.say(start.ljust(2**18))
            start = b""
        await asyncio.sleep(PATIENCE_S)

    async with (
        gateway_of(answers) as url,
        WireClient.open(url, run.calls, patience=SOON) as client,
    ):
        named, unnamed = await all_of(coins(client, 2))
    assert (named.ok, named.data) == (True, b'"plain"'), "it is asked for in a request of its own"
    assert (unnamed.code, unnamed.fault) == ("internal", "gateway")
    assert f"a line on the stream of calls is over {ANSWER_BYTES} bytes" in unnamed.text()


async def test_a_call_that_may_be_made_once_is_not_asked_again(run: RunDirectory) -> None:
    asked: list[str] = []

    async def answers(heard: Heard) -> None:
        while True:
            call = await heard.call()
            asked.append(call["tool"])
            if asked.count(call["tool"]) == 1:
                heard.break_off()
            await heard.say(answer(call))

    async with (
        gateway_of(answers) as url,
        WireClient.open(url, run.calls, once=("generate_wallet",), patience=SOON) as client,
    ):
        wallet, coin = await asyncio.gather(
            client.call("generate_wallet", {"chain": "ethereum"}, CONTEXT),
            client.call("get_coin", COIN, CONTEXT),
        )
        assert (wallet.code, wallet.fault) == ("internal", "gateway")
        assert "is not made twice" in wallet.text()
        assert coin.ok
        assert client.unanswered == 1
    assert sorted(asked) == ["generate_wallet", "get_coin", "get_coin"]
    assert len(await records(run)) == 2


async def test_a_call_that_breaks_every_stream_ends(run: RunDirectory) -> None:
    async def answers(heard: Heard) -> None:
        await heard.call()
        heard.break_off()

    async with (
        gateway_of(answers) as url,
        WireClient.open(url, run.calls, once=(), patience=Patience(together_s=0.0)) as client,
    ):
        (reply,) = await all_of(coins(client, 1))
    assert (reply.code, reply.fault) == ("internal", "gateway")
    assert "broke 5 times" in reply.text()


async def test_a_gateway_that_never_answers_a_call_is_not_waited_for(run: RunDirectory) -> None:
    async def answers(heard: Heard) -> None:
        while await heard.request.content.readline():
            await heard.say(b"\n")

    async with (
        gateway_of(answers) as url,
        WireClient.open(url, run.calls, once=(), patience=Patience(call_s=0.2)) as client,
    ):
        replies = await all_of(coins(client, 10))
    assert {(reply.code, reply.message) for reply in replies} == {
        ("internal", "the gateway did not answer within 0.2 s")
    }


async def test_a_gateway_that_reads_slowly_gets_all_calls_in_its_time(run: RunDirectory) -> None:
    most = 0

    async def answers(heard: Heard) -> None:
        nonlocal most
        while True:
            await asyncio.sleep(0.01)
            call = await heard.call()
            most = max(most, call["id"])
            await heard.say(answer(call, len(call["arguments"]["uuid"])))

    async with (
        gateway_of(answers) as url,
        WireClient.open(url, run.calls, once=(), patience=SOON) as client,
    ):
        given = {"uuid": "x" * 2**16}
        calls = [client.call("get_coin", given, CONTEXT) for _ in range(200)]
        replies = await all_of([asyncio.create_task(call) for call in calls])
    assert [reply.data for reply in replies] == [b"%d" % 2**16] * 200
    assert most < 200 / 2, "the calls are spread over the streams"


async def test_an_outage_is_waited_for_and_has_a_bound(run: RunDirectory) -> None:
    async def answers(heard: Heard) -> None:
        while True:
            await heard.say(answer(await heard.call()))

    async with gateway_of(answers) as url:
        opened = WireClient.open(url, run.calls, once=(), patience=Patience(outage_s=0.3))
        client = await opened.__aenter__()
        assert (await client.call("get_coin", COIN, CONTEXT)).ok
    reply = await client.call("get_coin", COIN, CONTEXT)
    assert (reply.code, reply.fault) == ("internal", "gateway")
    assert reply.text() == "the gateway did not answer: ClientConnectorError"
    await opened.__aexit__(None, None, None)


PACKED = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}


@pytest.mark.parametrize(
    ("status", "body", "headers", "why"),
    [
        (400, b"{}", {}, "the gateway has no streams of calls (status 400)"),
        # Nothing bounds what it becomes.
        (200, gzip.compress(b"\n"), PACKED, "the gateway compresses its streams of calls, which"),
    ],
    ids=["none", "compressed"],
)
async def test_a_gateway_without_streams_is_asked_by_plain_requests(
    run: RunDirectory, status: int, body: bytes, headers: dict[str, str], why: str
) -> None:
    async def answers(request: web.Request) -> web.StreamResponse:
        if request.path == "/v1/calls":
            return web.Response(status=status, body=body, headers=headers)
        return web.json_response(envelope("plain"))

    async with upstream(answers) as url, WireClient.open(url, run.calls) as client:
        replies = await all_of(coins(client, 20))
        assert (client.plain or "").startswith(why)

    assert {reply.data for reply in replies} == {b'"plain"'}
    assert len(await records(run)) == 20
