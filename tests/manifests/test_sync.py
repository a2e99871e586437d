import pytest

from manifests import Catalog
from manifests.akshare_source import AkShareFunction, akshare_functions
from manifests.sync import differences, synced
from tests.support.checkout import ROOT
from tests.support.installed import NEEDS_AKSHARE
from tests.support.tools import tool as tool_named

pytestmark = NEEDS_AKSHARE


@pytest.fixture(scope="module")
def functions() -> dict[str, AkShareFunction]:
    return akshare_functions()


def test_signatures_read_from_source_are_those_of_the_installed_functions(
    functions: dict[str, AkShareFunction], catalog: Catalog
) -> None:
    import inspect

    import akshare

    for tool in catalog.select(source="akshare"):
        if tool.unavailable is None:
            real = inspect.signature(getattr(akshare, tool.name)).parameters
            assert list(functions[tool.name].defaults) == list(real), tool.name


def test_our_manifests_differ_from_the_installed_akshare_only_as_known(
    functions: dict[str, AkShareFunction], catalog: Catalog
) -> None:
    found = differences(catalog, functions)
    kinds = {d.kind for d in found}
    assert kinds == {"new_parameter", "not_in_catalogue"}
    added = {d.tool for d in found if d.kind == "new_parameter"}
    assert added == {
        *("fund_cf_em", "fund_fh_em", "fx_quote_baidu"),
        *("stock_margin_ratio_pa", "stock_zh_index_daily_tx"),
    }
    assert sum(d.kind == "not_in_catalogue" for d in found) == len(functions) - len(
        [m for m in catalog.select(source="akshare") if not m.unavailable]
    )


def test_each_change_upstream_is_reported_and_applied(
    functions: dict[str, AkShareFunction], catalog: Catalog
) -> None:
    tool = tool_named(catalog, "stock_zh_a_hist")
    name = tool.name
    changed = AkShareFunction(
        name,
        "m",
        {"symbol": "<required>", "period": "weekly", "start_date": "19700101", "region": "cn"},
        {"period": ("weekly", "monthly")},
    )
    found = {(d.kind, d.detail) for d in differences([tool], {name: changed})}
    assert found == {
        ("new_parameter", "region (default 'cn')"),
        ("now_required", "symbol"),
        ("changed_default", "period: 'daily' -> 'weekly'"),
        ("accepted_values", "period: weekly, monthly"),
        ("lost_parameter", "end_date"),
        ("lost_parameter", "adjust"),
    }
    after = synced(tool, {name: changed}, "9.9")
    assert differences([after], {name: changed}) == []
    assert {p.name: p.withdrawn for p in after.parameters if p.withdrawn} == {
        "end_date": "AkShare 9.9 no longer takes it",
        "adjust": "AkShare 9.9 no longer takes it",
    }
    gone = synced(tool, {}, "9.9")
    assert gone.unavailable == "AkShare 9.9 no longer has this function"
    assert [d.kind for d in differences([tool], {})] == ["vanished"]
    assert next(iter(differences([gone], functions))).kind == "returned"


def test_the_upstreams_default_of_an_instrument_is_followed_and_still_fills_no_call(
    functions: dict[str, AkShareFunction], catalog: Catalog
) -> None:
    tool = tool_named(catalog, "stock_zh_a_hist")
    defaults = {**functions[tool.name].defaults, "symbol": "600519"}
    changed = {tool.name: AkShareFunction(tool.name, "m", defaults, {})}
    (found,) = differences([tool], changed)
    assert (found.kind, found.detail) == ("changed_default", "symbol: '000001' -> '600519'")
    symbol = synced(tool, changed, "9.9").parameters[0]
    assert (symbol.name, symbol.required, symbol.default) == ("symbol", True, "600519")
    assert synced(tool, functions, "1.19.5") == tool


def test_nothing_of_akshare_is_copied_into_the_project() -> None:
    from manifests.akshare_source import akshare_index

    theirs = {e["desc"] for e in akshare_index() if len(e["desc"] or "") > 12}
    data = "".join(f.read_text() for f in (ROOT / "manifests").rglob("*.json"))
    assert not [text for text in theirs if text in data]
