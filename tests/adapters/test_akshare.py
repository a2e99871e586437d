"""Real AkShare code in real worker processes, its requests redirected to the simulated upstream."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from aiohttp import web

from adapters.akshare.adapter import AkShareAdapter
from adapters.fault import UpstreamFault
from adapters.simulator import FUNCTIONS, Faults, SimulatedUpstream
from adapters.simulator.world.world import World
from manifests import AkShareBinding, Catalog, Signature
from tests.support.installed import NEEDS_AKSHARE
from tests.support.processes import akshare_workers
from tests.support.tools import tool
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.anyio, NEEDS_AKSHARE]


def names(catalog: Catalog) -> list[str]:
    return [m.binding.function for m in catalog if isinstance(m.binding, AkShareBinding)]


class AskedTwice(SimulatedUpstream):
    """It makes each answer twice. AkShare gets a server error if one request has two answers."""

    def _payload(self, request: web.Request, host: str, query: dict[str, str]) -> web.Response:
        answer = super()._payload(request, host, query)
        assert super()._payload(request, host, query).body == answer.body
        return answer


@pytest.fixture(scope="module")
async def adapter(catalog: Catalog) -> AsyncIterator[AkShareAdapter]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FINPORT_RAPIDAPI_KEYS", "planted")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "planted")
        async with (
            AskedTwice.open(catalog) as simulator,
            AkShareAdapter.open(names(catalog), base_url=simulator.base_url, workers=1) as opened,
        ):
            yield opened


def test_the_simulated_upstream_speaks_for_at_least_12_functions_over_6_hosts(
    catalog: Catalog,
) -> None:
    assert len(FUNCTIONS) >= 12
    assert len({tool(catalog, name).upstream for name in FUNCTIONS}) >= 6


SHORTER: dict[str, dict[str, str]] = {
    "stock_zh_a_hist_tx": {"start_date": "20240102", "end_date": "20240628"},
    "stock_zh_ah_daily": {"start_year": "2023", "end_year": "2024"},
    "stock_zh_index_daily_tx": {"symbol": "sh113900"},  # which is listed since 2021
}
"""Shorter ranges for functions that read year after year, which takes 10 s of a processor."""


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
async def test_real_akshare_parses_the_simulated_payload(
    catalog: Catalog, adapter: AkShareAdapter, name: str
) -> None:
    manifest = tool(catalog, name)
    arguments = Signature(manifest).bind({**manifest.sample(), **SHORTER.get(name, {})})
    answer, again = await asyncio.gather(
        *(adapter.fetch(manifest, arguments, PATIENCE_S) for _ in range(2))
    )
    assert again == answer, "one request, one answer"
    value = json.loads(answer.data)
    assert value
    if answer.rows is not None and manifest.columns:
        stated = tuple(column.name for column in manifest.columns)
        told = answer.columns or ()
        assert stated == tuple(n for n in told if n in stated), "AkShare may answer more columns"
        assert answer.rows == len(value)


async def test_hosts_tell_one_number_of_rates_bonds_and_figures(
    catalog: Catalog, adapter: AkShareAdapter
) -> None:
    async def told(name: str, **given: str) -> list[dict[str, Any]]:
        manifest = tool(catalog, name)
        arguments = Signature(manifest).bind({**manifest.sample(), **given})
        rows: list[dict[str, Any]] = json.loads((await adapter.fetch(manifest, arguments, 20)).data)
        return rows

    day = {"start_date": "20240614", "end_date": "20240614"}
    china = (await told("bond_china_yield", **day))[0]
    every = {row["日期"]: row for row in await told("bond_zh_us_rate", start_date="20240614")}
    closing = {row["期限"]: row for row in await told("bond_china_close_return", **day)}
    for years in (5, 10, 30):
        rates = (china[f"{years}年"], every["2024-06-14"][f"中国国债收益率{years}年"])
        assert {*rates} == {closing[years]["到期收益率"]}
    fixed = (await told("repo_rate_query"))[-1]
    (dated,) = await told("repo_rate_hist", start_date="20260630", end_date="20260630")
    assert fixed.items() <= dated.items()

    (listed,) = [row for row in await told("bond_cb_jsl") if row["代码"] == "113900"]
    valued = (await told("bond_zh_cov_value_analysis", symbol="113900"))[-1]
    assert listed["现价"] == valued["收盘价"]
    assert listed["转股价值"] == pytest.approx(valued["转股价值"], abs=0.006)

    latest = {row["currency"]: row["rates"] for row in await told("currency_latest", base="EUR")}
    converted = {
        r["item"]: r["value"] for r in await told("currency_convert", base="EUR", to="CNY")
    }
    assert converted["value"] == pytest.approx(10_000 * latest["CNY"], abs=0.01)
    quoted = {row["代码"]: row["最新价"] for row in await told("fx_quote_baidu")}
    assert float(quoted["EURCNY"]) == round(latest["CNY"], 4)

    path = {"kind": "月度数据", "path": "价格指数 > 居民消费价格指数"}
    office = (await told("macro_china_nbs_nation", **path, period="202604"))[0]
    releases = await told("macro_info_ws", date="20260509")
    (cpi,) = [row for row in releases if (row["地区"], row["事件"]) == ("中国", "CPI同比")]
    assert float(cpi["今值"]) == office["2026年4月"]


async def test_three_pages_tell_one_profit_of_a_company(
    catalog: Catalog, adapter: AkShareAdapter
) -> None:
    async def rows(name: str, **given: str) -> list[dict[str, object]]:
        manifest = tool(catalog, name)
        answer = await adapter.fetch(manifest, Signature(manifest).bind(given), 20)
        found: list[dict[str, object]] = json.loads(answer.data)
        return found

    every = await rows("stock_yjbb_em", date="20241231")
    (profit,) = [row["净利润-净利润"] for row in every if row["股票代码"] == "600519"]
    years = await rows("stock_profit_sheet_by_yearly_em", symbol="SH600519")
    assert profit in [one["NETPROFIT"] for one in years if "2024" in str(one["REPORT_DATE"])]
    figures = await rows("stock_financial_analysis_indicator_em", symbol="600519.SH")
    day = [one for one in figures if str(one["REPORT_DATE"]).startswith("2024-12-31")]
    assert [one["PARENTNETPROFIT"] for one in day] == [profit]


@pytest.mark.parametrize("symbol", ["SH600519", "600519", "600519.SH", "Kweichow Moutai"])
async def test_an_instrument_without_its_exchange_or_by_name_has_its_price(
    catalog: Catalog, adapter: AkShareAdapter, symbol: str
) -> None:
    answer = await adapter.fetch(
        tool(catalog, "stock_individual_spot_xq"), {"symbol": symbol}, PATIENCE_S
    )
    told = {row["item"]: row["value"] for row in json.loads(answer.data)}
    assert (told["代码"], told["现价"]) == ("SH600519", World().close("sh600519"))


async def test_an_unknown_name_is_unknown_to_the_simulated_upstream(
    catalog: Catalog, adapter: AkShareAdapter
) -> None:
    for name in ("stock_individual_spot_xq", "stock_us_daily"):
        with pytest.raises(UpstreamFault, match="404"):
            await adapter.fetch(tool(catalog, name), {"symbol": "Foo Bar"}, PATIENCE_S)


async def test_only_functions_of_the_catalogue_are_ever_called(
    catalog: Catalog, adapter: AkShareAdapter
) -> None:
    manifest = tool(catalog, "stock_zh_a_hist")
    for function in ("pd", "os", "__import__", "stock_zh_a_spot_em.__globals__"):
        foreign = manifest.model_copy(
            update={"binding": AkShareBinding.model_construct(function=function, hosts=("x.com",))}
        )
        with pytest.raises(UpstreamFault, match="has no function") as caught:
            await adapter.fetch(foreign, {}, 5)
        assert caught.value.kind == "not_configured"


async def test_no_secret_stands_in_the_workers_environment(
    catalog: Catalog, adapter: AkShareAdapter
) -> None:
    await adapter.fetch(tool(catalog, "index_eri"), {}, PATIENCE_S)
    for process in akshare_workers(adapter):
        assert b"planted" not in await anyio.Path(f"/proc/{process}/environ").read_bytes()


async def test_an_exception_in_akshare_is_a_fault_without_a_trace(
    catalog: Catalog, adapter: AkShareAdapter
) -> None:
    manifest = tool(catalog, "futures_inventory_em")
    with pytest.raises(UpstreamFault) as caught:
        await adapter.fetch(manifest, {"symbol": "没有这个品种"}, PATIENCE_S)
    assert caught.value.kind == "invalid"
    assert "Traceback" not in caught.value.message


async def test_a_failing_upstream_is_told_from_an_answer_that_cannot_be_read(
    catalog: Catalog,
) -> None:
    async with (
        SimulatedUpstream.open(catalog, faults=Faults(failure_rate=1.0)) as simulator,
        AkShareAdapter.open(names(catalog), base_url=simulator.base_url, workers=1) as adapter,
    ):
        manifest = tool(catalog, "stock_zh_a_hist")
        with pytest.raises(UpstreamFault, match="HTTP 503") as caught:
            await adapter.fetch(manifest, {"symbol": "600519"}, PATIENCE_S)
    assert (caught.value.kind, caught.value.retryable) == ("status", True)
