import pytest

from gateway import GatewaySettings
from gateway.finder import ToolFinder
from manifests import Catalog
from tests.adapters.test_rapidapi import upstream
from tests.bench.test_retrieval import embeddings
from tests.conftest import Door

pytestmark = pytest.mark.anyio

QUERY = "Chinese and US treasury yields"


async def test_tags_narrow_a_search(catalog: Catalog) -> None:
    finder = ToolFinder(catalog)
    found = await finder.find("exchange rate", 50, source="rapidapi", domain="forex")
    assert found
    assert {m.source for m in found} == {"rapidapi"}
    assert all("forex" in m.regulatory_domains for m in found)


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


async def test_the_catalogue_is_searched_over_http_in_both_languages(door: Door) -> None:
    for query in ("treasury yields China US", "中美国债收益率"):
        url = f"{door.url}/v1/tools"
        async with door.client.get(url, params={"q": query, "limit": "5"}) as response:
            page = await response.json()
        assert "bond_zh_us_rate" in [tool["name"] for tool in page["tools"]]
