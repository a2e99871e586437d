"""The batch API, over real sockets: many calls in one request."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gateway.access.keys import revoke
from gateway.api.route import JSON
from manifests import Catalog
from tests.support.commands import serving
from tests.support.gateways import ServedGateway, open_keyed_gateway, play, under_way
from tests.support.upstreams import upstream
from tests.support.waiting import PATIENCE_S, settled, until

pytestmark = pytest.mark.anyio


HIST: dict[str, Any] = {"tool": "stock_zh_a_hist", "arguments": {"symbol": "600519"}}


def coin(uuid: str, id_: object = None) -> dict[str, Any]:
    call = {"tool": "get_coin", "arguments": {"uuid": uuid}}
    return call if id_ is None else {"id": id_, **call}


def lines(calls: Iterable[object]) -> bytes:
    return b"".join(json.dumps(call).encode() + b"\n" for call in calls)


async def batch(
    served: ServedGateway, body: bytes, query: str = "", **headers: str
) -> tuple[int, list[dict[str, Any]]]:
    """The status, and what is on each line of the answer."""
    url = f"{served.url}/v1/calls{query}"
    async with served.client.post(url, data=BytesIO(body), headers=headers) as got:
        text = await got.read()
        if got.status == 200:
            assert got.content_type == "application/x-ndjson"
            assert text == b"" or text.endswith(b"\n")
        return got.status, [json.loads(line) for line in text.splitlines() if line]


async def test_calls_are_answered_by_their_ids(served: ServedGateway) -> None:
    calls = [coin("a", "first"), coin("b", 2), coin("c"), coin("d", ""), coin("e", None)]
    expected = {"first": "a", 2: "b", 3: "c", "": "d", 5: "e"}
    array = json.dumps(calls, indent=1).encode()
    for body in (lines(calls), lines(calls)[:-1], b"\n \r\n" + lines(calls) + b"\n\n", array):
        status, answers = await batch(served, body)
        assert status == 200
        assert {a["id"]: a["data"]["symbol"] for a in answers} == expected
        assert all(a["ok"] and a["provenance"]["call_id"] for a in answers)
    for nothing in (b"", b"\n\n", b"[]", b" [\n] "):
        assert await batch(served, nothing) == (200, [])


async def test_answers_come_as_calls_complete(fresh: ServedGateway) -> None:
    await fresh.call("get_coin", {"uuid": "known"})
    play(fresh.local, latency_s=0.3)
    calls = [coin("slow"), coin("known"), coin("slow"), coin("known")]
    _, answers = await batch(fresh, lines(calls))
    assert [a["id"] for a in answers[:2]] == [2, 4]
    assert {a["id"] for a in answers[2:]} == {1, 3}
    assert [a["provenance"]["source"] for a in answers] == ["cached", "cached", "live", "live"]
    assert fresh.local.simulator.requests.total() == 2  # both slow ones shared a flight


async def test_a_bad_line_is_told_of_and_the_others_go_on(served: ServedGateway) -> None:
    deep = b'{"id": "deep", "tool": "get_coin", "arguments": {"uuid": %b}}\n' % (
        b"[" * 300 + b"]" * 300
    )
    no_calls: tuple[bytes, ...] = (b"{", b"\xff", b"[]", b"null", b'"get_coin"')
    no_calls += (b'{"id": [1], "tool": "get_coin"}', b'{"id": true, "tool": "get_coin"}')
    no_calls += (b"{}", b'{"cancel": 1}')
    no_calls += (b'{"id": 1.5, "tool": "get_coin"}',)
    wrong: tuple[tuple[bytes, object, str], ...] = (
        (b'{"id": "x"}\n', "x", "invalid_request"),
        (b'{"id": "y", "tool": 5}\n', "y", "invalid_request"),
        (b'{"id": "z", "tool": "get_coin", "args": {}}\n', "z", "invalid_request"),
        (b'{"id": "n", "tool": "get_coin", "arguments": [1]}\n', "n", "invalid_request"),
        (b'{"id": "u", "tool": "get_coins"}\n', "u", "unknown_tool"),
        (b'{"id": "m", "tool": "get_coin"}\n', "m", "invalid_arguments"),
        (deep, "deep", "invalid_arguments"),
    )
    body = (
        lines([coin("a")]) + b"\n".join(no_calls) + b"\n" + b"".join(line for line, _, _ in wrong)
    )
    status, answers = await batch(served, body + lines([coin("b", n) for n in range(2, 12)]))
    found = {a["id"]: a for a in answers if a["id"] is not None}
    assert (status, len(answers)) == (200, 1 + len(no_calls) + len(wrong) + 10)
    assert all(found[n]["ok"] for n in range(1, 12))  # no line takes the id of a call
    assert {id_: found[id_]["error"]["code"] for _, id_, _ in wrong} == {
        id_: code for _, id_, code in wrong
    }
    told = [a["error"] for a in answers if a["id"] is None]
    assert {error["code"] for error in told} == {"invalid_request"}
    assert all(any(f"call {n}" in e["message"] for e in told) for n in range(2, 12))
    array = b'[{"tool": "get_coin", "arguments": {"uuid": "a"}}, 5, ' + deep + b"]"
    _, answers = await batch(served, array)
    assert {a["id"]: a["ok"] for a in answers} == {1: True, None: False, "deep": False}


async def test_after_many_lines_that_are_no_calls_no_more_are_read(served: ServedGateway) -> None:
    for query, odd in (("", b'{"cancel": "x"}\n'), ("", b"5\n"), ("?stream=true", b"[]\n")):
        status, answers = await batch(served, odd * 20_000 + lines([coin("a")]), query)
        assert status == 200
        assert 1_000 < len(answers) < 1_100
        assert not any(answer["ok"] for answer in answers)
        assert any("no more are read" in answer["error"]["message"] for answer in answers)


async def test_a_line_too_long_ends_what_is_read(served: ServedGateway) -> None:
    body = lines([coin("a")]) + b" " * (2**20 + 1) + lines([coin("b")])
    status, answers = await batch(served, body)
    assert status == 200
    assert {a["id"] for a in answers} == {1, None}
    (late,) = [a for a in answers if a["id"] is None]
    assert late["error"]["code"] == "too_large"
    padded = lines([coin("a")])[:-1] + b" " * (2**20 - 100) + b"\n" + lines([coin("b")])
    _, answers = await batch(served, padded)
    assert [a["ok"] for a in answers] == [True, True]


REFUSED: tuple[tuple[bytes, str, dict[str, str], int, str], ...] = (
    (b"{}", "?concurrency=0", {}, 400, "invalid_request"),
    (b"{}", "?concurrency=1001", {}, 400, "invalid_request"),
    (b"{}", "?max_rows=x", {}, 400, "invalid_request"),
    (b"{}", "?rows=1", {}, 400, "invalid_request"),
    (b"{}", "", {"Cache-Control": "max-age=x"}, 400, "invalid_request"),
    (b"[1", "", {}, 400, "invalid_request"),
    (b"[1\n2]", "", {}, 400, "invalid_request"),
    (b"{}", "", {"Content-Type": "application/json"}, 400, "invalid_request"),
    (b"[" + b" " * 2**20 + b"]", "", {}, 413, "too_large"),
    (b" " * (2**20 + 1), "", {}, 413, "too_large"),
    (b"no gzip", "", {"Content-Encoding": "gzip"}, 400, "invalid_request"),
)


async def test_what_is_no_batch_is_refused_as_a_whole(served: ServedGateway) -> None:
    for body, query, headers, status, code in REFUSED:
        got, (problem,) = await batch(served, body, query, **headers)
        assert (got, problem["error"]["code"]) == (status, code), (body[:40], query)
        assert (await batch(served, lines([coin("a")])))[0] == 200


async def test_the_query_and_the_head_ask_the_same_of_all_calls(fresh: ServedGateway) -> None:
    _, (answer,) = await batch(fresh, lines([HIST]), "?max_rows=2")
    assert (len(answer["data"]), answer["truncated"]) == (2, True)
    _, (answer,) = await batch(fresh, lines([HIST]), **{"Cache-Control": "only-if-cached"})
    assert answer["provenance"]["source"] == "cached"
    _, answers = await batch(fresh, lines([coin("a"), coin("b")]), "?timeout_s=0.000001")
    assert [a["error"]["code"] for a in answers] == ["timeout"] * 2


async def test_so_many_calls_are_under_way_at_once_and_no_more(fresh: ServedGateway) -> None:
    play(fresh.local, hang_rate=1.0)
    body = lines(coin(f"c{n}") for n in range(50))
    waiting = asyncio.create_task(batch(fresh, body, "?concurrency=7&timeout_s=60"))
    await under_way(fresh.local, 7)
    await asyncio.sleep(0.1)
    assert fresh.local.gateway.answers.under_way == 7
    waiting.cancel()
    await under_way(fresh.local, 0)


async def test_answers_are_read_while_calls_are_sent(served: ServedGateway) -> None:
    turns: asyncio.Queue[str | None] = asyncio.Queue()

    async def body() -> AsyncIterator[bytes]:
        while (uuid := await turns.get()) is not None:
            for half in (lines([coin(uuid)])[:20], lines([coin(uuid)])[20:]):
                yield half
                await asyncio.sleep(0.005)

    turns.put_nowait("c0")
    url = f"{served.url}/v1/calls"
    async with asyncio.timeout(PATIENCE_S), served.client.post(url, data=body()) as got:
        for n in range(20):
            answer = json.loads(await got.content.readline())
            assert (answer["id"], answer["data"]["symbol"]) == (n + 1, f"c{n}")
            turns.put_nowait(f"c{n + 1}" if n < 19 else None)
        assert await got.content.read() == b""


async def test_a_client_that_goes_away_ends_only_what_it_alone_wanted(
    fresh: ServedGateway,
) -> None:
    play(fresh.local, hang_rate=1.0)
    other = asyncio.create_task(fresh.call("get_coin", {"uuid": "shared"}))
    await under_way(fresh.local, 1)
    waiting = asyncio.create_task(batch(fresh, lines([coin("shared"), coin("mine"), coin("own")])))
    await under_way(fresh.local, 3)
    waiting.cancel()
    await under_way(fresh.local, 1)
    await until(lambda: fresh.local.gateway.outcomes == {"cancelled": 3})
    assert not other.done()
    other.cancel()
    await under_way(fresh.local, 0)
    play(fresh.local)
    assert (await batch(fresh, lines([coin("mine")])))[1][0]["ok"]


async def test_a_client_that_does_not_read_is_not_read_from(fresh: ServedGateway) -> None:
    _, whole = await fresh.call(HIST["tool"], HIST["arguments"])
    host, port = fresh.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /v1/calls HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n"
    block = lines([HIST] * 500)
    writer.write(head.encode() + b"".join([b"%x\r\n%b\r\n" % (len(block), block)] * 40))
    outcomes = fresh.local.gateway.outcomes
    await until(lambda: outcomes["cached"] > 1)
    made = await settled(lambda: outcomes["cached"])
    assert made * len(json.dumps(whole)) < 24 * 2**20  # what sockets hold
    assert made < 8_000
    assert (await fresh.call("get_coin", {"uuid": "x"}))[0] == 200  # others are served meanwhile
    writer.write(b"0\r\n\r\n")
    answered, end = 0, b""
    while not end.endswith(b"\r\n0\r\n\r\n"):
        text = end + await reader.read(2**20)
        answered += text.count(b'{"id":') - end.count(b'{"id":')
        end = text[-16:]
    assert answered == 20_000
    assert outcomes["cached"] == 1 + 20_000
    writer.close()
    await writer.wait_closed()


async def test_a_client_that_goes_away_amid_its_answers_is_no_error(
    fresh: ServedGateway, caplog: pytest.LogCaptureFixture
) -> None:
    await fresh.call(HIST["tool"], HIST["arguments"])
    for _ in range(3):
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as leaving:
            got = await leaving.post(f"{fresh.url}/v1/calls", data=BytesIO(lines([HIST] * 5_000)))
            await got.content.readline()
            got.close()
    made = await settled(lambda: fresh.local.gateway.outcomes["cached"])
    assert made < 12_000
    assert not [r for r in caplog.records if r.levelname in ("WARNING", "ERROR")]


async def test_limits_of_a_client_are_waited_for(catalog: Catalog, tmp_path: Path) -> None:
    few = {"few": {"per_second": 40, "at_once": 3}}
    at_once = most = 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await until(lambda: most == 3)
        await asyncio.sleep(0.005)
        at_once -= 1
        return web.json_response({"a": 1})

    async with (
        upstream(handler) as url,
        open_keyed_gateway(catalog, tmp_path, few, rapidapi_base_url=url) as (served, heads),
    ):
        body = lines(coin(f"c{n}") for n in range(70))
        started = time.perf_counter()
        _, answers = await batch(served, body, **heads["few"])
        assert time.perf_counter() - started > 30 / 40  # 40 at once, the others 40 a second
        assert most == 3
    assert len(answers) == 70
    assert all(answer["ok"] for answer in answers)


async def test_a_batch_has_no_more_rights_than_its_calls(catalog: Catalog, tmp_path: Path) -> None:
    async with open_keyed_gateway(catalog, tmp_path, {"one": {}}) as (served, heads):
        status, (problem,) = await batch(served, lines([coin("a")]))
        assert (status, problem["error"]["code"]) == (401, "unauthorized")
        off = next(m for m in catalog if m.intent_type == "transactional" and not m.unavailable)
        calls = [coin("a"), {"tool": off.name, "arguments": off.sample()}]
        _, answers = await batch(served, lines(calls), **heads["one"])
        found = {a["id"]: a for a in answers}
        assert found[1]["ok"]
        assert found[2]["error"]["code"] == "forbidden"


def memory(process: int, name: str) -> int:
    """Bytes, by a line of the process's status: VmRSS now, VmHWM at most."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if name in line)


async def many(url: str, calls: int) -> tuple[float, int]:
    """Seconds for so many calls of 500 kinds in one request, and how many were answered well."""

    async def body() -> AsyncIterator[bytes]:
        for start in range(0, calls, 500):
            yield lines(coin(f"c{n % 500}", n) for n in range(start, start + 500))

    seen, good, started = bytearray(calls), 0, time.perf_counter()
    timeout = aiohttp.ClientTimeout(600)
    async with (
        aiohttp.ClientSession(timeout=timeout) as client,
        client.post(f"{url}/v1/calls", data=body()) as got,
    ):
        async for line in got.content:
            answer = json.loads(line)
            seen[answer["id"]] += 1
            good += answer["ok"] and answer["data"]["symbol"] == f"c{answer['id'] % 500}"
    assert set(seen) == {1}
    return time.perf_counter() - started, good


@pytest.mark.parametrize("calls", [5_000, pytest.param(100_000, marks=pytest.mark.soak)])
async def test_many_calls_take_no_more_memory_than_a_few(tmp_path: Path, calls: int) -> None:
    with serving(tmp_path) as (process, url):
        await many(url, calls // 10)
        before = memory(process, "VmHWM")
        took_s, good = await many(url, calls)
        assert good == calls
        assert memory(process, "VmHWM") - before < 16 * 2**20
    print(f"\n{calls:,} calls in one request: {calls / took_s:,.0f} calls/s")  # noqa: T201


class Streaming:
    """The client's side of a stream."""

    def __init__(self) -> None:
        self._out: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.got: aiohttp.ClientResponse

    def say(self, *calls: object) -> None:
        self._out.put_nowait(lines(calls))

    def ping(self) -> None:
        self._out.put_nowait(b"\n")

    def end(self) -> None:
        self._out.put_nowait(None)

    async def body(self) -> AsyncIterator[bytes]:
        yield b"\n"  # so that the head is sent
        while (text := await self._out.get()) is not None:
            yield text

    async def line(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.got.content.readline()

    async def answer(self) -> dict[str, Any]:
        """The next answer, after empty lines."""
        while not (line := await self.line()).strip():
            assert line, "the stream has ended"
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def streaming(url: str, query: str = "", **headers: str) -> AsyncIterator[Streaming]:
    stream = Streaming()
    address = f"{url}/v1/calls?stream=true{query}"
    async with aiohttp.ClientSession() as client, asyncio.timeout(PATIENCE_S):
        stream.got = await client.post(address, data=stream.body(), headers=headers)
        try:
            yield stream
        finally:
            stream.got.close()


async def test_a_stream_begins_without_a_call_and_is_kept_open(served: ServedGateway) -> None:
    async with streaming(served.url) as stream:
        assert (stream.got.status, stream.got.content_type) == (200, "application/x-ndjson")
        assert [await stream.line(), await stream.line()] == [b"\n"] * 2
        stream.ping()
        assert await stream.line() == b"\n"
        for n in range(3):
            stream.say(coin(f"c{n}", n))
            answer = await stream.answer()
            assert (answer["id"], answer["data"]["symbol"]) == (n, f"c{n}")
        stream.end()
        assert await stream.line() == b""


async def test_single_calls_of_a_stream_are_cancelled(fresh: ServedGateway) -> None:
    play(fresh.local, hang_rate=1.0)
    async with streaming(fresh.url, "&concurrency=2") as stream:
        stream.say(*(coin(f"c{n}", n) for n in range(4)))  # the last two wait in the queue
        await until(lambda: fresh.local.simulator.requests.total() == 2)
        play(fresh.local)
        stream.say({"cancel": 9}, {"cancel": [1]}, {"cancel": 3}, {"cancel": 0}, {"cancel": 0})
        found = [await stream.answer() for _ in range(3)]
        await under_way(fresh.local, 1)
        stream.say({"cancel": 1})
        found.append(await stream.answer())
        assert [(a["id"], a.get("error", {}).get("code")) for a in found if not a["ok"]] == [
            (0, "cancelled"),
            (3, "cancelled"),
            (1, "cancelled"),
        ]
        assert fresh.local.gateway.outcomes["cancelled"] == 2  # one was never begun
        stream.say(coin("again", 0))
        assert (await stream.answer())["ok"]


async def test_what_is_no_call_of_a_stream_is_told(fresh: ServedGateway) -> None:
    play(fresh.local, hang_rate=1.0)
    async with streaming(fresh.url) as stream:
        stream.say(coin("a", "a"))
        await under_way(fresh.local, 1)
        stream.say(coin("b", "a"))
        refused = await stream.answer()
        assert (refused["id"], refused["error"]["code"]) == (None, "invalid_request")
        assert "'a' is under way" in refused["error"]["message"]
        for timeout_s in (0, True, "1", -1):
            stream.say({**coin("c", "c"), "timeout_s": timeout_s})
            assert "timeout_s is a number" in (await stream.answer())["error"]["message"]
        stream.say({**coin("c", "c"), "timeout_s": 0.01})
        answer = await stream.answer()
        assert (answer["id"], answer["error"]["code"]) == ("c", "timeout")
    status, (problem,) = await batch(fresh, b"", "?stream=1", **{"Content-Type": JSON})
    assert (status, problem["error"]["code"]) == (400, "invalid_request")


async def test_a_line_of_a_stream_that_is_no_call_takes_no_id_of_a_call(
    fresh: ServedGateway,
) -> None:
    odd: list[object] = [None, [], 5, "get_coin", {"id": True}, {"id": [1]}, {"id": 1.5}]
    odd += [{**coin("x"), "id": []}, {**coin("x"), "id": {}}, {**coin("x"), "id": False}]
    async with streaming(fresh.url) as stream:
        for n, line in enumerate(odd):
            stream.say(coin("a", 2 * n + 1), line, coin("b", 2 * n + 2))
            found = [await stream.answer() for _ in range(3)]
            assert sorted(a["id"] for a in found if a["ok"]) == [2 * n + 1, 2 * n + 2], line
            (told,) = [a for a in found if not a["ok"]]
            assert (told["id"], told["error"]["code"]) == (None, "invalid_request")
            assert f"line {3 * n + 2}" in told["error"]["message"]
        stream.say({"cancel": 4, "id": 4})
        assert "stands alone on its line" in (await stream.answer())["error"]["message"]
    play(fresh.local, hang_rate=1.0)
    async with streaming(fresh.url) as stream:
        stream.say(coin("c"), coin("d", 1))  # the first one is number 1, and has no id
        await under_way(fresh.local, 2)
        stream.say({"cancel": 1})
        assert (await stream.answer())["error"]["code"] == "cancelled"
        await under_way(fresh.local, 1)


async def test_lines_that_are_no_calls_count_against_a_client(
    catalog: Catalog, tmp_path: Path
) -> None:
    few = {"few": {"per_second": 20}}
    async with open_keyed_gateway(catalog, tmp_path, few) as (served, heads):
        url, head = f"{served.url}/v1/calls", heads["few"]
        for query in ("", "?stream=true"):
            body = lines([{"cancel": 1}, [], 5, {}] * 10)
            started = time.perf_counter()
            async with served.client.post(url + query, data=BytesIO(body), headers=head) as got:
                await got.read()
            assert time.perf_counter() - started > 19 / 20


async def test_records_of_a_table_are_set_apart_so_that_its_form_can_be_had_back(
    served: ServedGateway,
) -> None:
    result = await served.local.gateway.call(HIST["tool"], HIST["arguments"])
    async with streaming(served.url) as stream:
        stream.say(HIST)
        while not (line := await stream.line()).strip():
            pass
    assert b'"data":' + result.data.replace(b"\n", b"\t") + b"," in line


async def test_a_stream_whose_client_does_not_read_is_not_read_from(
    fresh: ServedGateway,
) -> None:
    await fresh.call(HIST["tool"], HIST["arguments"])
    outcomes = fresh.local.gateway.outcomes
    host, port = fresh.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = "POST /v1/calls?stream=true HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked"
    blocks = [lines({**HIST, "id": n} for n in range(k, k + 500)) for k in range(0, 20_000, 500)]
    writer.write(head.encode() + b"\r\n\r\n")
    writer.write(b"".join(b"%x\r\n%b\r\n" % (len(block), block) for block in blocks))
    await until(lambda: outcomes["cached"] > 1)
    assert await settled(lambda: outcomes["cached"]) < 8_000
    writer.transport.abort()


async def test_a_stream_of_a_client_whose_key_is_revoked_ends(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with open_keyed_gateway(catalog, tmp_path, {"few": {}}) as (served, heads):
        async with streaming(served.url) as stream:
            assert stream.got.status == 401
        async with streaming(served.url, **heads["few"]) as stream:
            stream.say(coin("a", 1))
            assert (await stream.answer())["ok"]
            revoke(tmp_path / "clients.json", "few")
            stream.say(coin("b", 2))
            while (answer := await stream.answer())["ok"]:
                stream.say(coin("b", 2))
            assert (answer["id"], answer["error"]["code"]) == (2, "unauthorized")
            stream.ping()
            answer = await stream.answer()
            assert (answer["id"], answer["error"]["code"]) == (None, "unauthorized")
            assert await stream.line() == b""
