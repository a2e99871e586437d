"""Functions of AkShare beyond the catalogue, imported and called through the gateway: real AkShare
code in real worker processes, whose requests a local server answers.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from pydantic import SecretStr

from adapters.akshare.adapter import AkShareAdapter
from adapters.fault import UpstreamFault
from adapters.host import ORIGINAL_HOST
from gateway import CallContext, Gateway, GatewaySettings
from gateway.server import http
from manifests import AkShareBinding, Catalog
from manifests.akshare_import import imported, write
from tests.support.akshare_pages import CASES, Case, answer
from tests.support.installed import NEEDS_AKSHARE
from tests.support.tools import tool
from tests.support.upstreams import upstream
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.anyio, NEEDS_AKSHARE]

COOKIE = "kbzw__user_login=planted-0451"


@dataclass
class Served:
    gateway: Gateway
    catalog: Catalog
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """The host that each request was meant for, and its headers."""


@pytest.fixture(scope="module")
def extended(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The catalogue, and the functions of all cases read from the files of an import."""
    folder = tmp_path_factory.mktemp("manifests")
    found = imported([case.tool for case in CASES], catalog)
    assert not found.refused
    write(found, folder, force=False)
    return Catalog([*catalog, *Catalog.load(folder)])


@pytest.fixture(scope="module")
async def served(
    extended: Catalog, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    asked: list[tuple[str, dict[str, str]]] = []

    async def handle(request: web.Request) -> web.Response:
        host = request.headers[ORIGINAL_HOST]
        asked.append((host, dict(request.headers)))
        form = await request.post()
        given = {**request.query, **{name: str(value) for name, value in form.items()}}
        body = answer(host, request.path, given)
        return web.Response(status=404) if body is None else web.Response(body=body)

    async with upstream(handle) as url:
        settings = GatewaySettings(
            cache_dir=tmp_path_factory.mktemp("cache"),
            akshare_base_url=url,
            akshare_workers=1,
            credentials={"www.jisilu.cn": SecretStr(COOKIE)},
        )
        async with Gateway.open(settings, catalog=extended) as gateway:
            yield Served(gateway, extended, asked)


def test_the_cases_are_20_functions_and_more_of_as_many_hosts(extended: Catalog) -> None:
    assert len(CASES) >= 20
    assert len({tool(extended, case.tool).upstream for case in CASES}) >= 20
    assert sum(tool(extended, case.tool).columns != () for case in CASES) >= 20


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.tool))
async def test_an_imported_function_answers_through_the_gateway(served: Served, case: Case) -> None:
    manifest = tool(served.catalog, case.tool)
    before = len(served.asked)
    context = CallContext(deadline_s=PATIENCE_S)
    result = await served.gateway.call(case.tool, dict(case.arguments), context)
    assert result.ok, result.error
    assert (result.upstream, result.rows) == ("live", case.rows)
    documented = tuple(column.name for column in manifest.columns)
    assert result.columns == (case.columns or documented)
    rows = json.loads(result.data)
    assert case.first.items() <= rows[0].items()
    hosts = {host for host, _ in served.asked[before:]}
    assert hosts == {manifest.upstream}, "the first host of a manifest is the one that is asked"
    again = await served.gateway.call(case.tool, dict(case.arguments), context)
    assert (again.source, again.data) == ("cached", result.data)


async def test_a_cookie_of_the_operator_reaches_its_host_and_nothing_else(served: Served) -> None:
    manifest = tool(served.catalog, "qdii_e_index_jsl")
    assert [p.filled_by for p in manifest.parameters] == ["credential"]
    context = CallContext(deadline_s=PATIENCE_S)
    result = await served.gateway.call("qdii_e_index_jsl", {}, context)
    assert COOKIE.encode() not in result.data
    told = [host for host, headers in served.asked if COOKIE in headers.values()]
    assert set(told) == {"www.jisilu.cn"}
    refused = await served.gateway.call("qdii_e_index_jsl", {"cookie": "mine"})
    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("bond_gb_us_sina", {}, "symbol"),
        ("bond_gb_us_sina", {"symbol": "德国10年期国债"}, "美国10年期国债"),
        (
            "stock_individual_notice_report",
            {"security": "300192", "begin_date": "yesterday"},
            "date",
        ),
        ("spot_hist_sge", {"symbol": "Au99.99", "sybmol": "x"}, "sybmol"),
    ],
)
async def test_arguments_of_an_imported_function_are_checked_before_it_is_called(
    served: Served, name: str, arguments: dict[str, str], told: str
) -> None:
    before = len(served.asked)
    result = await served.gateway.call(name, arguments)
    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert told in result.error.message
    assert len(served.asked) == before


async def test_a_catalogue_can_name_only_functions_that_are_akshare_s_own(served: Served) -> None:
    names = ("pd", "os", "requests", "stock", "sys", "__import__", "version", "demjson")
    manifest = tool(served.catalog, "spot_goods")
    async with AkShareAdapter.open(names, workers=1) as adapter:
        for name in names:
            binding = AkShareBinding(function=name, hosts=("x.com",))
            foreign = manifest.model_copy(update={"binding": binding})
            with pytest.raises(UpstreamFault, match="has no function"):
                await adapter.fetch(foreign, {}, PATIENCE_S)


async def test_it_is_told_that_a_program_made_the_manifest(served: Served) -> None:
    async with http.serve(served.gateway) as url, aiohttp.ClientSession(url) as client:
        async with client.get("/v1/tools/spot_goods") as response:
            assert (await response.json())["generated"] == f"akshare {version('akshare')}"
        async with client.get("/tools/spot_goods") as response:
            assert f"akshare {version('akshare')}; nobody has checked it" in await response.text()
        async with client.get("/v1/tools/stock_zh_a_hist") as response:
            assert "generated" not in await response.json()


async def test_the_simulated_upstream_says_that_it_invented_an_answer(
    extended: Catalog, tmp_path: Path
) -> None:
    settings = GatewaySettings(cache_dir=tmp_path, upstream="simulated")
    async with Gateway.open(settings, catalog=extended) as gateway:
        result = await gateway.call("spot_goods", {"symbol": "钢坯价格指数"})
        assert result.ok, result.error
        assert result.upstream == "simulated_invented"
        assert result.columns == ("日期", "指数", "涨跌额", "涨跌幅")
        without = await gateway.call("fred_md", {"date": "2024-05"})
        assert without.ok, without.error
        assert without.upstream == "simulated_invented"
