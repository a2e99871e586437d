"""Whether a shortened text still has what a question needs: the same rules for every method."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.compression.kept import Leaf, Needed, Row, Rows, Sentence, has_token

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


CELL = Rows((Row(("2024-01-02",), ("7.5",)),))
NAMED = Rows((Row(("600901", "样本银行"), ("15.81",)),))
ITEM = Rows((Row(("AAPL",), ("7.5",)),), is_table=False)
FIELD = Leaf(("AAPL",), "price", "7.5")


@pytest.mark.parametrize(
    ("needed", "text", "is_kept"),
    [
        (CELL, "2024-01-02,7.5", True),
        (CELL, "2024-01-02,8\n2024-01-03,7.5", False),
        (CELL, '[{"d":"2024-01-02","c":8},{"d":"2024-01-03","c":7.5}]', False),
        (NAMED, "样本银行,15.81", True),
        (NAMED, "600901,15.81", True),
        (NAMED, "600902,15.81", False),
        (ITEM, '[{\n  "symbol": "AAPL",\n  "price": 7.5\n}]', True),
        (FIELD, '{"AAPL":{"symbol":"AAPL","price":7.5}}', True),
        (FIELD, "AAPL: price = 7.5", True),
        (FIELD, '{"price":7.5}', False),
        (FIELD, '{"AAPL":{"price":8,"change":7.5}}', False),
        (FIELD, '{"AAPL":{"fairprice":7.51}}', False),
        (Sentence("a" * 150), "a" * 149, False),
    ],
)
def test_a_value_counts_only_beside_its_key_or_name(
    needed: Needed, text: str, is_kept: bool
) -> None:
    assert needed.kept_in(text) == is_kept


@given(st.text(string.ascii_letters + " ", min_size=1, max_size=300))
def test_of_a_sentence_two_hundred_characters_are_needed(words: str) -> None:
    needed = Sentence(words)
    assert needed.kept_in(f"before\n{words[:200]}…")
    assert needed.kept_in(words.replace(" ", "\n"))
