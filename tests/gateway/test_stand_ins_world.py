"""Every declared stand-in over the simulated market: it says the same, cell by cell."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from adapters.simulator.faults import Fault
from gateway import CallContext, Gateway, GatewaySettings
from gateway.upstreams.hosts import host_of
from manifests import Catalog, Signature
from manifests.stand_ins import Pair, UnfitError, differences, pairs, problems
from tests.support.gateways import open_local_gateway
from tests.support.installed import NEEDS_AKSHARE

pytestmark = [pytest.mark.anyio, NEEDS_AKSHARE]

CATALOG = Catalog.load()
BY_NAME = {manifest.name: manifest for manifest in CATALOG}
PAIRS = [pair for manifest in CATALOG for pair in pairs(manifest, BY_NAME)]

ALL = CallContext(max_rows=10**6)
SPAN = {"start_date": "20240102", "end_date": "20240628"}

ASKED: Mapping[str, tuple[dict[str, str], ...]] = {
    "stock_zh_a_hist": tuple({"symbol": s, **SPAN} for s in ("600519", "000001", "300750")),
    "stock_zh_a_daily": tuple({"symbol": s, **SPAN} for s in ("sh600519", "sz000001")),
    "stock_zh_a_hist_tx": tuple({"symbol": s, **SPAN} for s in ("sh600519", "sz000001")),
    "stock_zh_kcb_daily": ({"symbol": "sh688981"},),
    "stock_zh_a_cdr_daily": ({"symbol": "sh689009", **SPAN},),
    "fund_etf_hist_em": tuple({"symbol": s, **SPAN} for s in ("510300", "159915")),
    "fund_lof_hist_em": tuple({"symbol": s, **SPAN} for s in ("161725", "166009")),
    "fund_etf_hist_sina": tuple({"symbol": s} for s in ("sh510300", "sz161725")),
    "stock_hk_hist": tuple({"symbol": s, **SPAN} for s in ("00700", "00005")),
    "stock_hk_daily": ({"symbol": "00700"},),
    "stock_zh_ah_daily": ({"symbol": "02318", "start_year": "2021", "end_year": "2023"},),
    "stock_us_hist": tuple({"symbol": s, **SPAN} for s in ("105.AAPL", "106.KO")),
    "index_zh_a_hist": tuple({"symbol": s, **SPAN} for s in ("000300", "399001")),
    "stock_zh_index_daily_em": tuple({"symbol": s, **SPAN} for s in ("sh000300", "csi931151")),
    "stock_zh_index_daily": ({"symbol": "sh000300"},),
    "stock_zh_index_daily_tx": ({"symbol": "sz399001"},),
    "stock_zh_index_hist_csindex": tuple({"symbol": s, **SPAN} for s in ("000300", "931151")),
    "index_hist_cni": tuple({"symbol": s, **SPAN} for s in ("399001", "399006")),
    "index_us_stock_sina": tuple({"symbol": s} for s in (".INX", ".DJI")),
    "index_global_hist_sina": ({"symbol": "荷兰AEX综合指数"}, {"symbol": "印度孟买SENSEX指数"}),
    "index_global_hist_em": ({"symbol": "标普500"}, {"symbol": "荷兰AEX"}),
}
"""Several instruments of each tool with stand-ins."""


def test_every_declaration_is_of_the_same_facts_from_another_source() -> None:
    assert {pair.asked.name for pair in PAIRS} == ASKED.keys()
    assert len(ASKED) > 20
    for pair in PAIRS:
        assert [*problems(pair)] == [], f"{pair.asked.name} and {pair.other.name}"
        assert host_of(pair.asked) != host_of(pair.other)
        assert pair.stand_in.tool in BY_NAME


def test_a_stand_in_changes_no_revision() -> None:
    for pair in PAIRS:
        bare = pair.asked.model_copy(update={"stand_ins": (), "measured": None})
        assert bare.revision == pair.asked.revision


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.soak), pytest.param(2, marks=pytest.mark.soak)]
)
async def test_both_sources_say_the_same_of_one_market(seed: int, tmp_path: Path) -> None:
    settings = GatewaySettings(
        upstream="simulated", simulated_seed=seed, cache_dir=tmp_path, akshare_workers=1
    )
    seen = set[int]()
    async with Gateway.open(settings, catalog=CATALOG) as gateway:
        for place, pair in enumerate(PAIRS):
            for asked in ASKED[pair.asked.name]:
                if await _agree(gateway, pair, asked):
                    seen.add(place)
    unseen = [(pair.asked.name, pair.other.name) for n, pair in enumerate(PAIRS) if n not in seen]
    assert unseen == [], "no instrument is asked of them"


async def _agree(gateway: Gateway, pair: Pair, given: dict[str, str]) -> bool:
    """Whether the stand-in applies to a call; then it agrees."""
    asked = Signature(pair.asked).bind(given)
    try:
        sent = Signature(pair.other).bind(pair.arguments(asked))
    except UnfitError:
        return False
    own = await gateway.call(pair.asked.name, asked, ALL)
    other = await gateway.call(pair.other.name, sent, ALL)
    assert own.ok, own.message
    assert other.ok, other.message
    mapped = pair.rows(other.value, asked, sent)
    cells, found = differences(pair, own.value, mapped)
    what = f"{pair.asked.name} {given} and {pair.other.name}"
    assert found == [], what
    assert cells >= 4 * min(len(own.value), len(mapped)), what
    columns = [column for column in own.columns or () if column in mapped[0]]
    assert [*mapped[0]] == columns, f"{what}: the columns are those of the tool, in its order"
    if "start_date" in given or "start_year" in given:
        day = next(iter(pair.asked.measured.units)) if pair.asked.measured else ""
        assert len(mapped) == len({row[day] for row in own.value}), what
    return True


@pytest.mark.parametrize(
    ("dead", "tool", "asked", "by"),
    [
        ("push2his.eastmoney.com", "stock_zh_a_hist", ASKED["stock_zh_a_hist"][0], "_daily"),
        ("finance.sina.com.cn", "stock_zh_a_daily", ASKED["stock_zh_a_daily"][0], "_tx"),
    ],
)
async def test_a_dead_source_is_stood_in_for(
    dead: str, tool: str, asked: dict[str, Any], by: str, tmp_path: Path
) -> None:
    context = CallContext(max_rows=10**6, stand_in="allow")
    async with open_local_gateway(CATALOG, tmp_path, retries=0) as local:
        local.simulator.play(dead, Fault.RESET)
        result = await local.gateway.call(tool, asked, context)
        own = await local.gateway.call(tool, asked, context)
    assert result.ok, result.message
    assert own.ok, own.message
    assert own.stood is None, "its source answers again"
    assert result.stood is not None
    assert result.stood.answered_by.endswith(by)
    (pair,) = (p for p in PAIRS if p.asked.name == tool and p.other.name.endswith(by))
    assert differences(pair, own.value, result.value)[1] == []
