import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pydantic import SecretStr

from adapters.embeddings import EndpointEmbedder
from adapters.fault import UpstreamFault
from gateway import GatewaySettings
from gateway.search import endpoint_limits
from gateway.search.endpoint_limits import EndpointLimits
from gateway.search.finder import KEPT, Among, ToolFinder, embedder_limits
from gateway.server import http
from manifests import Catalog, Manifest
from manifests.facets import Facets, Intent
from manifests.search import Found
from tests.support.gateways import ServedGateway, open_local_gateway
from tests.support.upstreams import embeddings, upstream
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

QUERY = "Chinese and US treasury yields"


async def test_tags_narrow_a_search(catalog: Catalog) -> None:
    finder = ToolFinder(catalog)
    found = await finder.find("exchange rate", 50, source="rapidapi", domain="forex")
    assert found
    assert {m.source for m in found} == {"rapidapi"}
    assert all("forex" in m.regulatory_domains for m in found)


class Held(Catalog):
    """A catalogue whose second reading in a thread, for the index, waits at its end."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        super().__init__(manifests)
        self.readings, self.is_read, self.goes_on = count(), Event(), Event()

    def __iter__(self) -> Iterator[Manifest]:
        yield from super().__iter__()
        if current_thread() is not main_thread() and next(self.readings) == 1:
            self.is_read.set()
            self.goes_on.wait()


async def test_a_search_follows_the_catalogue_even_if_it_changes_meanwhile(
    catalog: Catalog,
) -> None:
    own = Held(catalog)
    coin = own.get("get_coin")
    assert coin is not None
    words = "zymurgical brewing ferment quotient"
    new = coin.model_copy(update={"name": "get_zymurgy", "description": words})
    finder = ToolFinder(own)
    searching = asyncio.create_task(finder.find(words, 5))
    await until(own.is_read.is_set)
    own.adopt(Catalog([*catalog, new]))  # the index is being made
    own.goes_on.set()
    await searching
    assert (await finder.find(words, 5))[0] is new
    own.adopt(Catalog(catalog))
    assert new not in await finder.find(words, 5)


async def test_queries_are_ranked_one_at_a_time_and_recent_ones_not_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder, search, ranked = ToolFinder(catalog), catalog.search, list[str]()
    under_way = most = 0

    def find(query: str, *_: Any) -> Found:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        ranked.append(query)
        time.sleep(0.001)  # lets others begin
        under_way -= 1
        intent = Intent(query, Facets(), (), query)
        return Found((("get_coin", 1.0),), 1.0, True, intent, ())

    monkeypatch.setattr(search, "find", find)
    await asyncio.gather(*(finder.find(f"gold {n}", 20) for n in range(20)))
    assert (len(ranked), most) == (20, 1)
    for tags in ({}, {"source": None}, {"domain": "forex"}, {"domain": "forex"}):
        assert await finder.find("gold 0", 20, **tags)
    assert len(ranked) == 21
    for n in range(KEPT):
        await finder.find(f"silver {n}", 20)
    await finder.find("gold 0", 20)
    assert len(ranked) == 22 + KEPT, "only so many are kept"


async def test_an_embedder_is_asked_where_one_is_set(catalog: Catalog) -> None:
    async with upstream(embeddings) as url:
        settings = GatewaySettings.read(
            embeddings_url=url, embeddings_model="words", embeddings_key="k"
        )
        found = await ToolFinder.of(catalog, settings).find(QUERY, 20)
    alone = await ToolFinder(catalog).find(QUERY, 20)
    assert "bond_zh_us_rate" in [m.name for m in found[:5]]
    assert found != alone


async def test_without_its_embedder_the_embedded_search_answers(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    settings = GatewaySettings.read(embeddings_url="http://127.0.0.1:1", embeddings_model="words")
    found = await ToolFinder.of(catalog, settings).find(QUERY, 20)
    assert found == await ToolFinder(catalog).find(QUERY, 20)
    assert "search goes on without embeddings" in caplog.text


async def test_the_catalogue_is_searched_over_http_in_both_languages(served: ServedGateway) -> None:
    for query in ("treasury yields China US", "中美国债收益率"):
        url = f"{served.url}/v1/tools"
        async with served.client.get(url, params={"q": query, "limit": "5"}) as response:
            page = await response.json()
        assert "bond_zh_us_rate" in [tool["name"] for tool in page["tools"]]


async def test_what_a_caller_may_not_see_does_not_fit(catalog: Catalog) -> None:
    finder, query = ToolFinder(catalog), "龙虎榜 每日明细"
    assert (await finder.search(query)).fits
    coins = Among("coins", lambda tool: "crypto" in tool.regulatory_domains)
    found = await finder.search(query, among=coins)
    assert not found.fits
    assert all("crypto" in tool.regulatory_domains for tool in found.tools)
    assert (await finder.search(query)).fits


class Endpoint:
    """Embeds words, and counts what it is asked for: tools, queries. A query waits for `open`."""

    def __init__(self) -> None:
        self.asked = Counter[str]()
        self.open = asyncio.Event()
        self.open.set()
        self.length: int | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        texts = (await request.json())["input"]
        self.asked["queries" if len(texts) == 1 else "tools"] += 1
        if len(texts) == 1:
            await self.open.wait()
            if self.length is not None:
                vector = [1.0] * self.length
                return web.json_response({"data": [{"index": 0, "embedding": vector}]})
        return await embeddings(request)


def for_others(catalog: Catalog, url: str, limits: EndpointLimits | None = None) -> ToolFinder:
    settings = GatewaySettings.read(
        embeddings_url=url, embeddings_model="words", embeddings_key="k"
    )
    return ToolFinder.of(catalog, settings, limits or embedder_limits())


async def by_itself(finder: ToolFinder, query: str) -> list[Manifest]:
    """What the embedded search finds without the embedder."""
    return (await finder.search(query, embeds=False)).tools[:20]


async def found_with_vectors(finder: ToolFinder, query: str) -> list[Manifest]:
    """What is found once the embeddings of tools are made."""
    alone = await by_itself(finder, query)
    async with asyncio.timeout(60):
        while (found := await finder.find(query, 20)) == alone:
            await asyncio.sleep(0.01)
    return found


async def test_an_embedder_that_hangs_stops_no_search(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(endpoint_limits, "PAUSE_S", 3_600)
    limits = embedder_limits()
    limits.wait_s = 60
    endpoint = Endpoint()
    async with upstream(endpoint.answer) as url:
        mine = for_others(catalog, url, limits)
        kept = await found_with_vectors(mine, QUERY)
        limits.wait_s = 1.5
        endpoint.open.clear()
        endpoint.asked.clear()
        async with asyncio.timeout(60):
            several = await asyncio.gather(*(mine.find(f"yields {n}", 20) for n in range(20)))
        assert several == [await by_itself(mine, f"yields {n}") for n in range(20)]
        assert endpoint.asked == {"queries": endpoint_limits.AT_ONCE}
        assert "without embeddings: the embedder took over 1.5 s" in caplog.text
        await mine.find("yields", 20)
        assert await mine.find(QUERY, 20) == kept
        assert endpoint.asked == {"queries": endpoint_limits.AT_ONCE}
        endpoint.open.set()


async def test_a_query_is_embedded_once(catalog: Catalog) -> None:
    endpoint = Endpoint()
    async with upstream(endpoint.answer) as url:
        mine = for_others(catalog, url)
        found = await found_with_vectors(mine, QUERY)
        assert await mine.find(QUERY, 20) == found
        assert [m.source for m in await mine.find(QUERY, 5, source="rapidapi")] == ["rapidapi"] * 5
        assert endpoint.asked["queries"] == 1


async def test_searches_of_anyone_are_bounded_in_what_they_spend(catalog: Catalog) -> None:
    endpoint = Endpoint()
    async with upstream(endpoint.answer) as url:
        mine = for_others(catalog, url, embedder_limits(per_minute=1))
        await found_with_vectors(mine, QUERY)
        alone = await by_itself(mine, "bonds")
        assert await mine.find("bonds", 20) == alone
        assert endpoint.asked["queries"] == 1


async def test_a_vector_of_another_length_is_not_compared(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = Endpoint()
    async with upstream(endpoint.answer) as url:
        mine = ToolFinder(catalog, EndpointEmbedder(url, "words", "k"))
        endpoint.length = 255
        assert await mine.find(QUERY, 20) == await by_itself(mine, QUERY)
    assert "255 numbers for a query, 256 for tools" in caplog.text


async def test_strangers_spend_nothing_on_an_embedder(catalog: Catalog, tmp_path: Path) -> None:
    endpoint = Endpoint()
    async with (
        upstream(endpoint.answer) as url,
        open_local_gateway(
            catalog,
            tmp_path,
            api_keys=(SecretStr("a=k1"),),
            embeddings_url=url,
            embeddings_model="words",
            embeddings_key="k",
        ) as local,
        http.serve(local.gateway) as gateway_url,
        aiohttp.ClientSession() as client,
    ):
        async with client.get(f"{gateway_url}/?q=bonds") as got:
            assert got.status == 200
        assert not endpoint.asked
        key = {"Authorization": "Bearer k1"}
        async with client.get(f"{gateway_url}/v1/tools?q=bonds", headers=key) as got:
            assert got.status == 200
        async with asyncio.timeout(60):
            while not endpoint.asked:
                await asyncio.sleep(0.01)


def rows(*vectors: tuple[int, str]) -> str:
    said = (f'{{"index":{index},"embedding":{vector}}}' for index, vector in vectors)
    return f'{{"data":[{",".join(said)}]}}'


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("{", "sent no embeddings"),
        ("[]", "sent no embeddings"),
        ('{"data":3}', "sent no embeddings"),
        (rows(), "sent no embeddings"),
        (rows((0, "[1]")), "sent no embeddings"),
        (rows((0, "[1]"), (0, "[2]")), "sent no embeddings"),
        (rows((0, "[1]"), (1, '"x"')), "sent no embeddings"),
        (rows((0, "[1]"), (1, "[1e400]")), "sent no embeddings"),
        (rows((0, '["nan"]'), (1, "[1]")), "infinite"),
        (rows((0, "[1,2]"), (1, "[1]")), "unlike"),
        (rows((0, "[]"), (1, "[]")), "of 0 numbers"),
        (rows((0, "[1]"), (1, "[1]"), (2, "[1]")), "3 embeddings of 1 numbers for 2 texts"),
        (" " * 600_000, "over 524288 bytes"),
    ],
)
async def test_what_is_no_embeddings_is_refused(body: str, wrong: str) -> None:
    async def says(_: web.Request) -> web.Response:
        return web.Response(text=body)

    async with upstream(says) as url:
        with pytest.raises(UpstreamFault, match=wrong):
            await EndpointEmbedder(url, "words").embed(["x", "y"])
