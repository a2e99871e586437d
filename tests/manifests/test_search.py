import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests import Catalog, Manifest
from manifests.facets import KINDS, Facets, read, shipped_facets
from manifests.search import Search, questions
from manifests.spelling import Spelling
from manifests.symbols import Symbols
from manifests.words import Glossary


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("daily price history of one A-share", "stock_zh_a_hist"),
        ("某只A股的历史日线行情", "stock_zh_a_hist"),
        ("Chinese and US treasury yields", "bond_zh_us_rate"),
        ("中美国债收益率", "bond_zh_us_rate"),
        ("龙虎榜", "stock_lhb_detail_em"),
        ("dragon tiger list", "stock_lhb_detail_em"),
        ("economic policy uncertainty index", "article_epu_index"),
        ("mortgage payment calculator", "v1_mortgagecalculator"),
        ("可转债实时数据", "bond_cb_jsl"),
        ("gas fee estimate on a blockchain", "estimate_gas"),
    ],
)
def test_a_question_in_either_language_finds_its_tool(
    catalog: Catalog, query: str, tool: str
) -> None:
    assert tool in [name for name, _ in catalog.search.rank(query, 10)]


@settings(max_examples=50)
@given(st.text(max_size=200), st.integers(0, 30))
def test_any_text_is_ranked_the_same_twice(query: str, limit: int) -> None:
    catalog = Catalog.load()
    search = catalog.search
    first = search.rank(query, limit)
    assert first == search.rank(query, limit)
    assert len(first) <= limit
    assert [score for _, score in first] == sorted((s for _, s in first), reverse=True)
    assert {name for name, _ in first} <= {m.name for m in catalog}


def test_without_akshare_the_english_texts_are_searched(catalog: Catalog) -> None:
    alone = Search(catalog)
    assert "bond_zh_us_rate" in [name for name, _ in alone.rank("中美国债收益率", 10)]


def test_the_glossary_is_whole() -> None:
    concepts = Glossary.load()
    assert list(concepts.concepts("balance sheet")) == list(concepts.concepts("资产负债表"))
    with pytest.raises(ValueError, match="read from unknown"):
        Glossary(["a\t甲\tno such concept\t"])


@pytest.mark.parametrize(
    ("query", "facets", "names"),
    [
        (
            "贵州茅台 历史行情",
            {"asks": ["history"], "instrument": ["share"], "country": ["cn"]},
            ["贵州茅台"],
        ),
        (
            "AAPL dividends",
            {"asks": ["dividends"], "instrument": ["share"], "country": ["us"]},
            ["AAPL"],
        ),
        ("00700.HK 资金流向", {"asks": ["flows"], "country": ["hk"]}, ["00700.HK"]),
        ("BTC price history", {"asks": ["history"], "instrument": ["crypto"]}, ["BTC"]),
        ("Japan monthly CPI", {"country": ["jp"], "frequency": ["monthly"]}, []),
        ("Tesla options", {"instrument": ["option"], "country": ["us"]}, ["Tesla"]),
        ("510300 净值", {"country": ["cn"]}, ["510300"]),
        ("the price of copper", {}, []),
    ],
)
def test_a_question_says_what_is_asked_for(
    query: str, facets: dict[str, list[str]], names: list[str]
) -> None:
    intent = read(query, Glossary.load(), Symbols.load())
    said = intent.facets.to_dict()
    for kind, values in facets.items():
        assert set(values) <= set(said[kind]), (kind, said)
    assert [*intent.names] == names


def test_every_packaged_tool_has_facets_and_questions_in_both_languages(catalog: Catalog) -> None:
    facets, asked = shipped_facets(), questions()
    for tool in catalog:
        assert all(getattr(facets[tool.name], kind) for kind in KINDS), tool.name
        assert len(asked[tool.name]) >= 5
        assert any(c >= "一" for text in asked[tool.name] for c in text), tool.name
        assert any(c.isascii() and c.isalpha() for text in asked[tool.name] for c in text)
    assert len(facets) == len(asked) == len(catalog)


def test_a_search_says_whether_anything_fits(catalog: Catalog) -> None:
    search = catalog.search
    good = search.find("龙虎榜 每日明细")
    assert good.fits
    assert good.sure > 0.5
    assert good.why
    nothing = search.find("will it rain in Berlin tomorrow")
    assert not nothing.fits
    assert nothing.sure < 0.2
    assert search.find("").ranked == ()


def test_names_and_misspelt_words_do_not_lead_astray(catalog: Catalog) -> None:
    def first(query: str) -> list[str]:
        return [name for name, _ in catalog.search.rank(query, 5)]

    assert "stock_zh_a_hist" in first("宁德时代 前复权日K线历史行情")
    assert "stock_us_hist" in first("NVIDIA share price histroy")
    assert "stock_hk_hist" in first("腾讯控股 历史行情 港股")
    assert "stock_lhb_detail_em" in first("longhubang")


def test_the_name_of_a_tool_finds_it(catalog: Catalog) -> None:
    for name in ("get_coin", "rates", "daily", "stock_zh_a_daily", "futures_spot_stock"):
        found = catalog.search.find(name)
        assert found.ranked[0][0] == name
        assert found.fits
    assert catalog.search.find("资金费率").intent.names == ()


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("convertable bond histroy", "convertible bond history"),
        ("kezhuanzhai", "可转债"),
        ("苍单", "仓单"),
        ("仓单", "仓单"),
        ("NVDA of the bond", "NVDA of the bond"),
    ],
)
def test_spelling_is_mended(text: str, mended: str) -> None:
    known = Spelling(["convertible", "bond", "history", "of", "the"], ["可转债", "仓单"])
    assert known.mended(text) == mended


@settings(max_examples=100)
@given(st.text(max_size=300))
def test_any_text_is_mended_and_read(text: str) -> None:
    search = Catalog.load().search
    found = search.find(text)
    assert 0.0 <= found.sure <= 1.0
    assert search.spelling.mended(found.intent.question) is not None
    assert {*found.intent.facets.to_dict()} <= {*KINDS}


def test_a_tool_without_facets_and_questions_is_found_by_its_text(catalog: Catalog) -> None:
    base = catalog.get("get_coin")
    assert base is not None
    mine = base.model_copy(
        update={"name": "acme_inventory_of_cocoa", "description": "Cocoa stocks in our warehouses."}
    )
    search = Search([*catalog, mine])
    assert search.rank("cocoa warehouses", 3)[0][0] == "acme_inventory_of_cocoa"
    assert shipped_facets().get(mine.name, Facets()) == Facets()


def test_words_alone_are_enough_where_no_encoder_is_installed(catalog: Catalog) -> None:
    alone = Search(catalog)
    found = alone.find("dragon tiger list")
    assert found.ranked[0][0].startswith("stock_lhb")
    assert alone.by_words("dragon tiger list", 3)


def test_the_same_tools_in_another_order_rank_the_same(catalog: Catalog) -> None:
    tools: list[Manifest] = [*catalog][::-1]
    query = "northbound money flow"
    assert Search(tools).rank(query, 10) == Search(catalog).rank(query, 10)
