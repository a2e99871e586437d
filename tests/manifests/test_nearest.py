"""Nearest names: offered for what looks like a slip of the pen, and for nothing else."""

import pytest

from manifests import Catalog
from manifests.common.nearest import did_you_mean, nearest

SLIPS = [
    *("stock_zh_a_hits", "stokc_zh_a_hst", "Stock-ZH-A-Hist", "stockZhAHist"),
    *("zh_a_hist", "stock_hist_zh_a", "stock_zh_hist"),
]
RANDOM_WORDS = [
    *("zzz", "zzzqqq", "a", "", "test", "foo", "weather", "apple", "send_email", "read_file"),
    *("qwerty_asdf", "world", "rm -rf", "\x00", "天气"),
]


@pytest.fixture(scope="module")
def names(catalog: Catalog) -> list[str]:
    return [manifest.name for manifest in catalog]


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_of_the_pen_is_understood(slip: str, names: list[str]) -> None:
    assert "stock_zh_a_hist" in nearest(slip, names)


@pytest.mark.parametrize("word", RANDOM_WORDS)
def test_a_random_word_is_near_nothing(word: str, names: list[str]) -> None:
    assert nearest(word, names) == []
    assert did_you_mean(word, names) == ""


def test_a_name_is_found_with_a_letter_less_and_its_words_swapped(names: list[str]) -> None:
    for name in names[::3]:  # of each family, as they are listed by it
        assert name in nearest(name[:2] + name[3:], names), name
        first, _, rest = name.partition("_")
        assert name in nearest(f"{rest}_{first}", names), name


def test_the_most_similar_comes_first_and_few_are_offered(names: list[str]) -> None:
    assert nearest("get_coinz", names)[0] == "get_coin"
    assert len(nearest("stock_zh_a_hits", names)) <= 5
    assert did_you_mean("get_coinz", names) == "; did you mean get_coin?"


def test_what_all_names_have_in_common_makes_none_near() -> None:
    hosts = ["webull.p.rapidapi.com", "cnbc.p.rapidapi.com"]
    assert nearest("zzz.p.rapidapi.com", hosts)
    assert not nearest("zzz.p.rapidapi.com", hosts, own=lambda host: host.partition(".")[0])
