"""Filters of rows: what passes, what is refused and where, and that nothing is evaluated."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.compress.filter import COMPARISONS, DEPTH, LONGEST, FilterError, RowFilter

ROW = {
    "date": "2024-01-03",
    "close": 13.5,
    "volume": 1_200,
    "symbol": "000001",
    "name": "平安银行",
    "涨跌幅": "2.5",
    "day": 20240103,
    "note": None,
    "halted": False,
    "odd, name": 1,
    "tags": ["a"],
}


@pytest.mark.parametrize(
    "text",
    [
        "close > 13",
        "close >= 13.50 and close <= 13.5",
        "not close < 13.5",
        "date >= 2024-01-02 and close > 13",
        "date = '2024年1月3日'",
        "date > 2024-01",
        "date >= 20240103",
        "day >= 2024-01-02 and day < 2024-01-04",
        "symbol = 000001",
        "symbol = '000001'",
        "symbol in (600519, 000001)",
        "symbol not in (600519, 000002)",
        "name contains 平安",
        "NAME is null OR name CONTAINS '银行'",
        "涨跌幅 > 2",
        "note is null and close is not null",
        "missing is null",
        "halted = false and halted != true",
        '"odd, name" == 1 and `odd, name` <> 2',
        "close > 100 or (volume > 1e3 and not (volume > 1_300))",
        "tags != 1",
    ],
)
def test_rows_that_pass(text: str) -> None:
    assert RowFilter.of(text).passes(ROW)
    assert not RowFilter.of(f"not ({text})").passes(ROW)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "where at 1: the end where a column should be"),
        ("close", "where at 6: the end where =, !=, <,"),
        ("close >", "where at 8: the end where a value"),
        ("close > 13 volume", "where at 12: 'volume' where `and`, `or` or the end"),
        ("close > 13 and", "where at 15: the end where a column"),
        ("(close > 13", "where at 12: the end where `)`"),
        ("close in 13", "where at 10: '13' where `(`"),
        ("close in (13 14)", "where at 14: '14' where `,`"),
        ("close is 13", "where at 10: '13' where `null`"),
        ("name = 'x", "where at 8: a quotation mark that is not closed"),
        ("close > and", "where at 9: 'and' where a value"),
        ("close ! 13", "where at 7: '!'"),
        ("close < true", "where: true is compared by = and != only"),
        ("__import__('os').system('id')", "where at 11: '(' where"),
        ("x" * (LONGEST + 1), f"where has at most {LONGEST} characters"),
        ("not " * (DEPTH + 2) + "a = 1", f"nested over {DEPTH} deep"),
        ("(" * 900 + "a = 1", f"nested over {DEPTH} deep"),
        (" or ".join(["a = 1"] * (COMPARISONS + 1)), f"at most {COMPARISONS} comparisons"),
        (f"a in ({','.join(['1'] * 99)})", f"at most {COMPARISONS} values"),
    ],
)
def test_a_filter_that_cannot_be_read_says_where_it_is_wrong(text: str, said: str) -> None:
    with pytest.raises(FilterError) as raised:
        RowFilter.of(text)
    assert said in str(raised.value)
    assert len(str(raised.value)) < 200


def test_it_names_its_columns_once() -> None:
    read = RowFilter.of('close > 1 and "a b" is null or close < 0')
    assert read.columns == ("close", "a b")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read = RowFilter.of(text)
    except FilterError:
        return
    assert read.passes(ROW) in (True, False)
    assert read.passes({}) in (True, False)


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NUMBERS = st.integers(-(10**6), 10**6) | st.decimals(-1000, 1000, places=3).map(float)


@given(st.sampled_from([*COMPARE]), NUMBERS, NUMBERS)
def test_numbers_compare_as_numbers(sign: str, cell: float, value: float) -> None:
    expected = COMPARE[sign](cell, value)
    for there in (cell, str(cell)):
        for said in (str(value), f"'{value}'"):
            assert RowFilter.of(f"x {sign} {said}").passes({"x": there}) == expected


@given(st.sampled_from([*COMPARE]), st.dates(), st.dates())
def test_dates_compare_as_dates_in_whatever_form(sign: str, cell: Any, value: Any) -> None:
    if min(cell.year, value.year) < 1600 or max(cell.year, value.year) >= 2200:
        return
    expected = COMPARE[sign](cell, value)
    forms = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%Y年%m月%d日")
    for there in forms:
        for said in forms:
            found = RowFilter.of(f"date {sign} {value.strftime(said)}")
            assert found.passes({"date": cell.strftime(there)}) == expected


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_can_be_written_in_quotes(column: str, value: str) -> None:
    def quoted(text: str, mark: str) -> str:
        return mark + text.replace("\\", "\\\\").replace(mark, f"\\{mark}") + mark

    read = RowFilter.of(f"{quoted(column, chr(34))} = {quoted(value, chr(39))}")
    assert read.columns == (column,)
    assert read.passes({column: value})
