"""What a caller is shown of the catalogue: what it may use, and of that what can be called."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.access.keys import add
from manifests import Catalog, Selection
from tests.support.gateways import ServedGateway, open_keyed_gateway
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

BONDS = Selection.parse("domain:bond")
WALLET = "generate_wallet"


async def get(served: ServedGateway, target: str) -> Any:
    status, answer = await served.ask(target)
    assert status == 200, answer
    return answer


async def listed(served: ServedGateway, query: str) -> set[str]:
    """The names of all that `GET /v1/tools` gives, which are as many as it says."""
    page = await get(served, f"/v1/tools?limit=1000{query}")
    names = {tool["name"] for tool in page["tools"]}
    assert page["total"] == len(page["tools"]) == len(names)
    return names


async def exported(served: ServedGateway, query: str) -> set[str]:
    return {tool["name"] for tool in await get(served, f"/v1/schemas/anthropic{query}")}


async def described(served: ServedGateway, query: str) -> set[str]:
    paths = (await get(served, f"/openapi.json{query}"))["paths"]
    own = (await get(served, "/openapi.json"))["paths"]
    return {path.removeprefix("/v1/tools/") for path in paths.keys() - own.keys()}


@pytest.fixture(scope="module")
async def kept(
    catalog: Catalog, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServedGateway]:
    """A served gateway, and a client with a key for bonds only."""
    folder, bonds = tmp_path_factory.mktemp("kept"), {"bonds": {"tools": BONDS}}
    async with open_keyed_gateway(catalog, folder, bonds) as (served, heads):
        served.client.headers.update(heads["bonds"])
        yield served


async def test_what_can_t_be_called_is_in_the_catalogue_with_the_reason_and_in_no_schema(
    served: ServedGateway, catalog: Catalog
) -> None:
    gone = {m.name: m.unavailable for m in catalog if m.unavailable is not None}
    assert len(gone) == 8
    page = await get(served, "/v1/tools?limit=1000")
    assert gone.items() <= {tool["name"]: tool["unavailable"] for tool in page["tools"]}.items()
    names = ",".join(gone)
    assert await exported(served, f"?tools=names:{names}") == set()
    assert not gone.keys() & await exported(served, "?q=qhkc+index")
    assert len(await exported(served, "?limit=740")) == 740


async def test_without_a_key_only_what_needs_a_grant_is_left_out(
    served: ServedGateway, catalog: Catalog
) -> None:
    usable = {m.name for m in catalog if m.intent_type != "transactional"}
    assert await listed(served, "") == usable
    assert WALLET not in await listed(served, "&q=generate+wallet")
    assert await described(served, f"?tools=names:{WALLET},get_coin") == {"get_coin"}


async def test_a_key_is_shown_what_it_may_use(kept: ServedGateway, catalog: Catalog) -> None:
    bonds = {m.name for m in catalog if m in BONDS}
    callable_ = {m.name for m in catalog if m in BONDS and m.unavailable is None}
    assert await listed(kept, "") == bonds
    assert await listed(kept, "&domain=fund") <= bonds
    assert await listed(kept, "&q=price+of+bitcoin") <= bonds
    assert await exported(kept, "") == callable_
    assert await described(kept, "?tools=all") == callable_
    assert await described(kept, "?tools=names:get_coin") == set()


async def test_a_manifest_says_why_its_reader_may_not_call_the_tool(
    kept: ServedGateway,
) -> None:
    assert (await get(kept, "/v1/tools/bond_zh_us_rate"))["refused"] is None
    refused = (await get(kept, "/v1/tools/get_coin"))["refused"]
    assert refused == "this client may use domain:bond only, which get_coin is not of"


async def test_a_key_added_later_also_closes_the_descriptions_of_tools(
    fresh: ServedGateway, tmp_path: Path
) -> None:
    assert await described(fresh, "?tools=names:get_coin") == {"get_coin"}
    key, _ = add(tmp_path / "clients.json", "late")
    status = 200
    async with asyncio.timeout(PATIENCE_S):
        while status == 200:
            status, _ = await fresh.ask("/openapi.json?tools=names:get_coin")
            await asyncio.sleep(0.02)
    assert status == 401
    fresh.client.headers["Authorization"] = f"Bearer {key}"
    assert await described(fresh, "?tools=names:get_coin") == {"get_coin"}
    document = await get(fresh, "/openapi.json")
    assert "security" in document["paths"]["/v1/calls"]["post"]
