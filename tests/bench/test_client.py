"""How a run reaches a gateway that is not quite what it expects."""

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from bench.client import BODY_BYTES, HEALTH_BYTES, GatewayUnreachableError, HttpClient
from bench.runs.directory import RunDirectory
from bench.wire import WireClient
from gateway import CallContext
from tests.support.answers import envelope
from tests.support.upstreams import upstream

pytestmark = pytest.mark.anyio

CONTEXT = CallContext(episode="a.0", step=1)


@asynccontextmanager
async def answering(health: Any, call: Any = None, key: str | None = None) -> AsyncIterator[str]:
    """A server that says `health` of itself, to who has no `key` only its status."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/healthz":
            is_known = key is None or request.headers.get("Authorization") == f"Bearer {key}"
            return web.json_response(health if is_known else {"status": "ok"})
        is_call = request.path.startswith("/v1/tools/")
        return web.json_response(call) if is_call else web.Response(status=404)

    async with upstream(answer) as url:
        yield url


async def test_a_gateway_that_wants_a_key_is_given_it_and_says_so_where_it_is_not(
    run: RunDirectory,
) -> None:
    health = {"status": "ok", "upstream": "simulated"}
    async with answering(health, key="planted") as url:
        async with HttpClient.open(url, run.calls, "planted\n") as client:
            assert (await client.health())["upstream"] == "simulated"
        for key in (None, "other"):
            async with HttpClient.open(url, run.calls, key) as client:
                with pytest.raises(GatewayUnreachableError, match="set FINBENCH_GATEWAY_KEY"):
                    await client.health()


@pytest.mark.parametrize("health", [[], {"healthy": True}, "ok", None])
async def test_what_is_no_gateway_is_told(run: RunDirectory, health: Any) -> None:
    async with answering(health) as url, HttpClient.open(url, run.calls) as client:
        with pytest.raises(GatewayUnreachableError, match="is no gateway"):
            await client.health()


async def test_hosts_that_are_told_in_another_form_are_left_out(run: RunDirectory) -> None:
    calm = {"in_flight": 0, "waiting": 0, "breaker": "closed", "more": 1}
    health = {"status": "ok", "upstream": "live", "hosts": {"a": calm, "b": {}, "c": None}}
    async with answering(health) as url, HttpClient.open(url, run.calls) as client:
        assert await client.hosts() == {"a": calm}
    odd = {**health, "hosts": []}
    async with answering(odd) as url, HttpClient.open(url, run.calls) as client:
        assert await client.hosts() == {}
    async with HttpClient.open("http://127.0.0.1:1", run.calls) as client:
        assert await client.hosts() == {}


def but(path: str, value: Any = None) -> dict[str, Any]:
    """An answer with another value at a place of its envelope, or without that field."""
    said = envelope(1)
    *parts, name = path.split(".")
    place = said
    for part in parts:
        place = place[part]
    place[name] = value
    if value is None:
        del place[name]
    return said


FAILED = {"code": "timeout", "fault": "tool", "message": "too late"}


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (None, "no ok"),
        ([], "no ok"),
        (but("ok", 1), "no ok"),
        (but("data"), "data: Field required"),
        (but("rows", "1"), "rows: "),
        (but("provenance"), "provenance: Field required"),
        (but("provenance", []), "provenance: "),
        (but("provenance.call_id"), "provenance.call_id: Field required"),
        (but("provenance.call_id", "x" * 10_000), "provenance.call_id: "),
        (but("provenance.attempts"), "provenance.attempts: Field required"),
        (but("provenance.attempts", -1), "provenance.attempts: "),
        (but("provenance.source"), "provenance.source: Field required"),
        (but("provenance.age_s", "0"), "provenance.age_s: "),
        (but("compression", {}), "data that is no text"),
        ({"ok": False}, "error: Field required"),
        ({"ok": False, "error": "no"}, "error: "),
        ({"ok": False, "error": {"code": "timeout", "message": "m"}}, "error.fault: "),
        ({"ok": False, "error": FAILED, "provenance": {"attempts": 1}}, "provenance.call_id: "),
    ],
)
@pytest.mark.parametrize("client_of", [HttpClient, WireClient])
async def test_an_answer_that_is_no_envelope_is_a_fault_of_the_gateway_that_says_why(
    run: RunDirectory, client_of: type[HttpClient], said: Any, wrong: str
) -> None:
    async with answering({}, said) as url, client_of.open(url, run.calls) as client:
        reply = await client.call("get_coin", {}, CONTEXT)
    assert (reply.ok, reply.code, reply.fault) == (False, "internal", "gateway")
    assert reply.text().startswith("what answered is no gateway: its answer")
    assert wrong in reply.text()
    assert client.unanswered == 1


@pytest.mark.parametrize("client_of", [HttpClient, WireClient])
async def test_a_redirect_is_not_followed(run: RunDirectory, client_of: type[HttpClient]) -> None:
    heard: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        heard.append(f"{request.headers.get('Authorization')} {await request.text()}")
        return web.json_response(envelope("stolen"))

    async with upstream(elsewhere) as other:

        async def redirects(request: web.Request) -> web.Response:
            return web.Response(status=307, headers={"Location": f"{other}{request.path}"})

        async with (
            upstream(redirects) as url,
            client_of.open(url, run.calls, "planted") as client,
        ):
            with pytest.raises(GatewayUnreachableError, match="status 307, a redirect"):
                await client.health()
            reply = await client.call("get_coin", {"uuid": "mine"}, CONTEXT)
    assert (reply.code, heard) == ("internal", [])
    assert "status 307, a redirect, which is not followed" in reply.text()


@pytest.mark.parametrize("is_packed", [False, True])
async def test_an_answer_is_read_to_a_bound_also_if_it_is_compressed(
    run: RunDirectory, *, is_packed: bool
) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Encoding": "gzip"} if is_packed else {})
        await response.prepare(request)
        packer, blanks = zlib.compressobj(wbits=31), b" " * 2**20
        for _ in range(8 * BODY_BYTES // len(blanks)):
            await response.write(packer.compress(blanks) if is_packed else blanks)
            sent += len(blanks)
        return response

    async with upstream(endless) as url, HttpClient.open(url, run.calls) as client:
        reply = await client.call("get_coin", {}, CONTEXT)
        with pytest.raises(GatewayUnreachableError, match=f"over {HEALTH_BYTES} bytes"):
            await client.health()
    assert (reply.code, reply.fault) == ("internal", "gateway")
    assert reply.text() == f"what answered is no gateway: the answer is over {BODY_BYTES} bytes"
    assert is_packed or sent < 4 * BODY_BYTES


async def test_so_many_rows_are_asked_for(run: RunDirectory) -> None:
    asked: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        return web.json_response({})

    async with upstream(answer) as url, HttpClient.open(url, run.calls) as client:
        await client.call("get_coin", {}, CallContext(max_rows=2, episode="a.0", step=1))
        await client.call("get_coin", {}, CONTEXT)
    assert asked == [{"max_rows": "2"}, {}]
