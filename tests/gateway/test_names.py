"""Calls that name an instrument where its code is expected, and `resolve_symbol`."""

from pathlib import Path
from typing import Any

import pytest

from gateway import CallContext, Gateway, GatewaySettings
from gateway.grant import Grant
from gateway.result import Result
from manifests import Catalog
from manifests.selection import Selection
from tests.support.gateways import LocalGateway, open_local_gateway

pytestmark = pytest.mark.anyio

DAYS = {"start_date": "20240102", "end_date": "20240103"}


@pytest.fixture
async def local(catalog: Catalog, tmp_path: Path) -> Any:
    async with open_local_gateway(catalog, tmp_path) as opened:
        yield opened


async def test_a_name_stands_for_its_code_in_the_market_of_the_tool(local: LocalGateway) -> None:
    for tool, name, code in (
        ("stock_zh_a_hist", "贵州茅台", "600519"),
        ("stock_zh_a_hist", "Kweichow Moutai", "600519"),
        ("stock_hk_hist", "腾讯控股", "00700"),
        ("stock_balance_sheet_by_report_em", "贵州茅台", "SH600519"),
        ("stock_zh_a_daily", "茅台", "sh600519"),
        ("index_zh_a_hist", "沪深300", "000300"),
    ):
        days = DAYS if "hist" in tool else {}
        by_name = await local.gateway.call(tool, {"symbol": name, **days})
        assert by_name.ok, by_name.message
        assert by_name.resolved is not None
        assert by_name.resolved["symbol"].startswith(f"{name} is ")
        assert by_name.resolved["symbol"].endswith(f", {code}")
        assert b'"resolved":{"symbol":' in by_name.to_json()
        by_code = await local.gateway.call(tool, {"symbol": code, **days})
        assert (by_code.source, by_code.digest) == ("cached", by_name.digest)
    assert b"resolved" not in by_code.to_json()


async def told(local: LocalGateway, tool: str, **arguments: Any) -> str:
    result: Result = await local.gateway.call(tool, arguments)
    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    return result.error.message


async def test_what_is_meant_elsewhere_or_not_known_is_told(local: LocalGateway) -> None:
    text = await told(local, "stock_zh_a_hist", symbol="AAPL")
    assert "AAPL of nasdaq; for it ask stock_us_hist" in text
    text = await told(local, "stock_zh_a_hist", symbol="平安")
    assert "'平安' is the name of 2 instruments: 中国平安 sh601318; 平安银行 sz000001" in text
    text = await told(local, "stock_zh_a_hist", symbol="没有这家公司")
    assert "no instrument is named '没有这家公司' (resolve_symbol finds codes" in text
    text = await told(local, "stock_zh_a_hist", symbol="贵州茅台", period="hourly")
    assert "'daily', 'weekly'" in text, "other problems are told as before"
    text = await told(local, "stock_zh_a_hist", code="AAPL")
    assert "for it ask stock_us_hist" in text, "also by another name of the argument"
    text = await told(local, "stock_zh_a_hist", symbol=["贵州茅台"])
    assert "is an array" in text


async def test_a_name_of_another_kind_of_instrument_is_refused(local: LocalGateway) -> None:
    text = await told(local, "bond_zh_hs_daily", symbol="茅台")
    assert "'茅台' is 贵州茅台, share 600519 of sh" in text
    text = await told(local, "stock_hk_daily", symbol="贵州茅台")
    assert "for it ask stock_zh_a_daily" in text


async def test_names_are_not_looked_up_for_a_tool_that_the_caller_may_not_use(
    local: LocalGateway, catalog: Catalog
) -> None:
    bonds = CallContext(grant=Grant(Selection.of(catalog, "domain:bond")))
    result = await local.gateway.call("stock_zh_a_hist", {"symbol": "平安"}, bonds)
    assert result.error is not None
    assert "no code of six digits" in result.error.message
    assert "平安银行" not in result.error.message
    assert (await local.gateway.call("resolve_symbol", {"name": "茅台"}, bonds)).ok


async def test_bad_arguments_of_resolve_symbol_are_the_agent_s(local: LocalGateway) -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"name": " "}, "name: is empty"),
        ({"name": "x", "limit": 0}, "limit: is 0, expected 1 to 100"),
        ({"name": "x", "market": "mars"}, "market: 'mars' is not one of amex, bj, "),
    )
    for arguments, text in cases:
        error = (await local.gateway.call("resolve_symbol", arguments)).error
        assert error is not None
        assert (error.code, error.fault) == ("invalid_arguments", "agent")
        assert text in error.message


async def test_resolve_symbol_is_a_tool_beside_the_catalogue(
    local: LocalGateway, catalog: Catalog
) -> None:
    assert catalog.get("resolve_symbol") is not None
    assert "resolve_symbol" not in {manifest.name for manifest in catalog}
    result = await local.gateway.call("resolve_symbol", {"name": "pingan", "market": "cn"})
    assert result.ok
    assert (result.source, result.upstream) == ("finport", "finport")
    first = result.value["matches"][0]
    assert first["forms"]["a-share-code"] in ("601318", "000001")
    result = await local.gateway.call("resolve_symbol", {"name": "苹果", "market": "us"})
    assert result.value["matches"][0]["code"] == "AAPL"
    assert result.value["ambiguous"] is False
    nothing = await local.gateway.call("resolve_symbol", {"name": "qqqqqqqqqq"})
    assert nothing.value["matches"] == []


async def test_the_listings_of_the_simulated_world_are_read_and_kept(
    catalog: Catalog, tmp_path: Path
) -> None:
    settings = GatewaySettings(upstream="simulated", cache_dir=tmp_path)
    async with Gateway.open(settings, catalog=catalog) as gateway:
        await gateway.call("resolve_symbol", {"name": "贵州茅台"})
        known = await gateway.symbols.renewed()
        assert [one.exchange for one in known.by_code("600519")] == ["sh"]
    kept = (tmp_path / "symbols-simulated.tsv").read_text(encoding="utf-8")
    assert "600519\tshare\t贵州茅台" in kept
