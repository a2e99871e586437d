"""Whether a shortened text still has what a question needs: the same rules for every method."""

import json
import string

from hypothesis import given
from hypothesis import strategies as st

from bench.compression.kept import Leaf, Row, Rows, Sentence, has_token

numbers = st.decimals(-(10**6), 10**6, places=2).map(str)
digits = st.sampled_from(string.digits)
cells = st.lists(numbers, min_size=2, max_size=5, unique=True)


@given(numbers, st.sampled_from(["", '"', ",", " ", "\n", ":", "[", "（", "，"]))
def test_a_number_is_found_between_punctuation(number: str, beside: str) -> None:
    assert has_token(f"{beside}{number}{beside}", number)


@given(numbers, digits)
def test_a_part_of_a_longer_number_is_no_number(number: str, digit: str) -> None:
    for longer in (f"{digit}{number}", f"{number}{digit}", f"-{number}", f"{number}.5"):
        assert not has_token(f'{{"a":{longer}}}', number)


@given(st.sampled_from(["12", "2024"]), st.sampled_from(["-01-31", "a", "收", ".5", "_1"]))
def test_a_part_of_a_date_or_word_is_no_token(token: str, rest: str) -> None:
    assert not has_token(f"{token}{rest}", token)


@given(st.lists(cells, min_size=1, max_size=8))
def test_cells_are_kept_in_a_whole_table_and_not_when_their_row_is_missing(
    rows: list[list[str]],
) -> None:
    keys = [f"2024-01-{number + 1:02}" for number in range(len(rows))]
    needed = Rows(tuple(Row((key,), (row[0],)) for key, row in zip(keys, rows, strict=True)))
    lines = [",".join([key, *row]) for key, row in zip(keys, rows, strict=True)]
    records = [{"date": key, "close": row[0]} for key, row in zip(keys, rows, strict=True)]
    assert needed.kept_in("\n".join(["date,a,b", *lines]))
    assert needed.kept_in(json.dumps(records))
    assert not needed.kept_in("\n".join(lines[:-1]))


def test_a_cell_counts_only_in_the_row_of_its_key() -> None:
    needed = Rows((Row(("2024-01-02",), ("7.5",)),))
    assert not needed.kept_in("2024-01-02,8\n2024-01-03,7.5")
    assert not needed.kept_in('[{"d":"2024-01-02","c":8},{"d":"2024-01-03","c":7.5}]')
    assert needed.kept_in("2024-01-02,7.5")


def test_any_key_that_tells_the_row_apart_is_enough() -> None:
    needed = Rows((Row(("600901", "样本银行"), ("15.81",)),))
    assert needed.kept_in("样本银行,15.81")
    assert needed.kept_in("600901,15.81")
    assert not needed.kept_in("600902,15.81")


def test_items_of_a_document_may_stand_on_several_lines() -> None:
    needed = Rows((Row(("AAPL",), ("7.5",)),), is_table=False)
    assert needed.kept_in('[{\n  "symbol": "AAPL",\n  "price": 7.5\n}]')


def test_a_field_is_kept_with_its_name_before_it_and_its_path_above() -> None:
    needed = Leaf(("AAPL",), "price", "7.5")
    assert needed.kept_in('{"AAPL":{"symbol":"AAPL","price":7.5}}')
    assert needed.kept_in("AAPL: price = 7.5")
    assert not needed.kept_in('{"price":7.5}')
    assert not needed.kept_in('{"AAPL":{"price":8,"change":7.5}}')
    assert not needed.kept_in('{"AAPL":{"fairprice":7.51}}')


@given(st.text(string.ascii_letters + " ", min_size=1, max_size=300))
def test_of_a_sentence_two_hundred_characters_are_needed(words: str) -> None:
    needed = Sentence(words)
    assert needed.kept_in(f"before\n{words[:200]}…")
    assert needed.kept_in(words.replace(" ", "\n"))


def test_a_sentence_that_is_cut_earlier_is_lost() -> None:
    assert not Sentence("a" * 150).kept_in("a" * 149)
