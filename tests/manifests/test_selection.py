"""A selection of tools, read for a catalogue."""

import pytest

from manifests import Catalog, Selection, SelectionError


def test_what_is_read_is_written_alike(catalog: Catalog) -> None:
    for text in ("all", "domain:bond,fund;source:akshare", "names:get_coin,stock_zh_a_hist"):
        assert str(Selection.of(catalog, text)) == text


def test_an_unknown_name_is_refused_with_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(SelectionError, match=r"'get_cion'; did you mean .*get_coin"):
        Selection.of(catalog, "source:rapidapi;names:get_coin,get_cion")


def test_a_name_that_is_like_no_other_is_refused_without_a_guess(catalog: Catalog) -> None:
    with pytest.raises(SelectionError, match=r"'zzzqqq'$"):
        Selection.of(catalog, "names:zzzqqq")
    with pytest.raises(SelectionError) as caught:
        Selection.of(catalog, f"names:{'z' * 3_000}")
    assert len(str(caught.value)) < 200


def test_the_text_of_a_key_may_name_what_is_no_longer_there() -> None:
    assert str(Selection.parse("names:gone")) == "names:gone"
