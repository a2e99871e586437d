"""Calls that name an instrument where its code is expected, and `resolve_symbol`."""

from pathlib import Path
from typing import Any

import pytest

from gateway import Gateway, GatewaySettings
from gateway.result import Result
from manifests import Catalog
from tests.support.gateways import LocalGateway, open_local_gateway

pytestmark = pytest.mark.anyio

DAYS = {"start_date": "20240102", "end_date": "20240103"}


@pytest.fixture
async def local(catalog: Catalog, tmp_path: Path) -> Any:
    async with open_local_gateway(catalog, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize(
    ("tool", "name", "code"),
    [
        ("stock_zh_a_hist", "贵州茅台", "600519"),
        ("stock_zh_a_hist", "Kweichow Moutai", "600519"),
        ("stock_hk_hist", "腾讯控股", "00700"),
        ("stock_balance_sheet_by_report_em", "贵州茅台", "SH600519"),
        ("stock_zh_a_daily", "茅台", "sh600519"),
    ],
)
async def test_a_name_stands_for_its_code_in_the_market_of_the_tool(
    local: LocalGateway, tool: str, name: str, code: str
) -> None:
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
    assert not (await local.gateway.call("resolve_symbol", {"name": " "})).ok
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
