"""Requests are taken from the wire: a loopback server writes down what arrives."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web

from adapters.fault import UpstreamFault
from adapters.rapidapi import RapidApiAdapter, request_of
from manifests import Catalog, Manifest, RapidApiBinding, Signature

pytestmark = pytest.mark.anyio

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def upstream(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://127.0.0.1:{1}".format(*runner.addresses[0])
    finally:
        await runner.cleanup()


def tool(catalog: Catalog, name: str) -> Manifest:
    manifest = catalog.get(name)
    assert manifest is not None
    return manifest


def test_all_261_requests_have_the_published_host_path_and_query(
    catalog: Catalog, facts: list[dict[str, Any]]
) -> None:
    checked = 0
    for fact in (fact for fact in facts if fact["source"] == "rapidapi"):
        manifest = tool(catalog, fact["name"])
        assert isinstance(manifest.binding, RapidApiBinding)
        every = {p.name: p.example for p in manifest.parameters if p.example is not None}
        arguments = Signature(manifest).bind(every)
        hidden = {p.name: "x" for p in manifest.parameters if p.filled_by == "credential"}
        url, _ = request_of(manifest.binding, {**arguments, **hidden})
        path = fact["path"]
        for name, value in arguments.items():
            path = path.replace(f"{{{name}}}", str(value))
        assert (url.scheme, url.host) == ("https", fact["host"])
        assert unquote(url.raw_path) == path
        assert set(url.query) == set(fact["query"]), fact["name"]
        checked += 1
    assert checked == 261


async def test_the_wire_carries_exactly_what_the_binding_says(catalog: Catalog) -> None:
    seen: list[web.Request] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request)
        return web.json_response([{"a": 1}])

    async with upstream(handler) as url, RapidApiAdapter.open(key="k1", base_url=url) as adapter:
        arguments = {"uuid": "a/b?c=d&é", "timeperiod": "24h"}
        answer = await adapter.fetch(tool(catalog, "get_coin"), arguments, 5)
    assert answer.rows == 1
    (request,) = seen
    assert request.method == "GET"
    assert request.raw_path == "/coin/a%2Fb%3Fc%3Dd%26%C3%A9?timePeriod=24h"
    assert request.headers["X-RapidAPI-Key"] == "k1"
    assert request.headers["X-RapidAPI-Host"] == "coinranking1.p.rapidapi.com"


@pytest.mark.parametrize(
    ("reply", "kind", "retryable"),
    [
        (web.Response(status=500), "status", True),
        (web.Response(status=404), "status", False),
        (web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), "status", False),
        (web.Response(status=401), "not_subscribed", False),
        (web.Response(status=403), "not_subscribed", False),
        (web.Response(status=429, headers={"Retry-After": "7"}), "rate_limited", True),
        (web.Response(body=b""), "empty", True),
        (web.Response(text="<html>busy</html>"), "invalid", False),
        (web.Response(text='{"a": 1'), "invalid", False),
    ],
)
async def test_each_way_to_fail_is_its_own_fault(
    catalog: Catalog, reply: web.Response, kind: str, retryable: bool
) -> None:
    async def handler(_: web.Request) -> web.Response:
        return reply

    async with upstream(handler) as url, RapidApiAdapter.open(key="k", base_url=url) as adapter:
        with pytest.raises(UpstreamFault) as caught:
            await adapter.fetch(tool(catalog, "get_coin"), {"uuid": "x"}, 5)
    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)
    assert caught.value.retry_after_s == (7 if kind == "rate_limited" else None)


async def test_a_body_without_end_is_cut_off(catalog: Catalog) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 2**20)

    async with upstream(handler) as url, RapidApiAdapter.open(key="k", base_url=url) as adapter:
        with pytest.raises(UpstreamFault, match="over 16777216 bytes") as caught:
            await adapter.fetch(tool(catalog, "get_coin"), {"uuid": "x"}, 20)
    assert caught.value.kind == "too_large"


async def test_nobody_listening_is_unreachable(catalog: Catalog) -> None:
    async with RapidApiAdapter.open(key="k", base_url="http://127.0.0.1:1") as adapter:
        with pytest.raises(UpstreamFault, match="on the way to the upstream") as caught:
            await adapter.fetch(tool(catalog, "get_coin"), {"uuid": "x"}, 5)
    assert (caught.value.kind, caught.value.retryable) == ("unreachable", True)


async def test_at_most_so_many_calls_are_under_way_per_host(catalog: Catalog) -> None:
    under_way, most = 0, 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return web.json_response({})

    async with (
        upstream(handler) as url,
        RapidApiAdapter.open(key="k", base_url=url, per_host=3) as adapter,
    ):
        coin = tool(catalog, "get_coin")
        calls = (adapter.fetch(coin, {"uuid": str(n)}, 5) for n in range(12))
        await asyncio.gather(*calls)
    assert most == 3


async def test_operator_credentials_fill_the_parameters_that_agents_may_not(
    catalog: Catalog,
) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response(dict(request.query))

    manifest = tool(catalog, "busca_por_simbolo")
    arguments = Signature(manifest).bind(manifest.sample())
    async with upstream(handler) as url:
        async with RapidApiAdapter.open(
            key="k", base_url=url, credentials={manifest.upstream: "mine"}
        ) as adapter:
            answer = await adapter.fetch(manifest, arguments, 5)
            assert json.loads(answer.data)["apikey"] == "mine"
        async with RapidApiAdapter.open(key="k", base_url=url) as adapter:
            with pytest.raises(UpstreamFault, match="set FINPORT_CREDENTIALS") as caught:
                await adapter.fetch(manifest, arguments, 5)
    assert caught.value.kind == "not_configured"
