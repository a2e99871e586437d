import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests import Catalog
from manifests.search import Search
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
        Glossary(["a\t甲\tno such concept"])
