"""How a run reaches a gateway that is not quite what it expects."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bench.client import GatewayUnreachableError, HttpClient
from bench.runs.directory import RunDirectory
from gateway import CallContext

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def answering(health: Any, call: Any = None, key: str | None = None) -> AsyncIterator[str]:
    """A server that says `health` of itself, to who has no `key` only its status."""

    async def healthz(request: web.Request) -> web.Response:
        is_known = key is None or request.headers.get("Authorization") == f"Bearer {key}"
        return web.json_response(health if is_known else {"status": "ok"})

    async def called(_: web.Request) -> web.Response:
        return web.json_response(call)

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.post("/v1/tools/{name}", called)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield "http://127.0.0.1:{1}".format(*runner.addresses[0])
    finally:
        await runner.cleanup()


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[RunDirectory]:
    async with RunDirectory.open(tmp_path / "run", {}) as directory:
        yield directory


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


@pytest.mark.parametrize(
    "said", [{"ok": False, "error": "no"}, {"ok": True, "provenance": []}, {"ok": 1}, [], None]
)
async def test_an_answer_in_another_form_is_a_fault_of_the_gateway(
    run: RunDirectory, said: Any
) -> None:
    async with answering({}, said) as url, HttpClient.open(url, run.calls) as client:
        reply = await client.call("get_coin", {}, CallContext(episode="a.0", step=1))
    assert (reply.ok, reply.code, reply.fault) == (False, "internal", "gateway")
    assert reply.message == "what answered is no gateway"
