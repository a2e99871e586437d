"""Filters of rows: what passes, what is refused and where, and that nothing is evaluated."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tables.filter import COMPARISONS, DEPTH, LONGEST, FilterError, RowFilter

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
        "date > 2023-12",
        "date = 2024-01 and date <= 2024 and not date > 2024Q1",
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
        ("", "where at 1: expected a column"),
        ("close", "where at 6: expected =, !=, <,"),
        ("close >", "where at 8: expected a value"),
        ("close > 13 volume", "where at 12: expected `and`, `or` or the end"),
        ("close > 13 and", "where at 15: expected a column"),
        ("(close > 13", "where at 12: expected `)`"),
        ("close in 13", "where at 10: expected `(`"),
        ("close in (13 14)", "where at 14: expected `,` or `)`, found '14'; put texts with spaces"),
        ("date in (2026-06-30, 30 June 2026)", "expected `,` or `)`, found 'June'; put texts with"),
        ("date = 30 June 2026", "found 'June'; put texts with spaces in quotes"),
        ("close is 13", "where at 10: expected `null`"),
        ("name = 'x", "where at 8: a quotation mark that is not closed"),
        ("close > and", "where at 9: expected a value"),
        ("close ! 13", "where at 7: '!'"),
        ("close < true", "where at 9: true is compared by = and != only"),
        ("__import__('os').system('id')", "where at 11: expected"),
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


COLUMNS: dict[str, list[Any]] = {
    "close": [13.5, None, 14],
    "text": [None, "2.5", "-3"],
    "share": ["5.3%", "12%"],
    "date": ["2026-06-15", "2026-06-16"],
    "day": [20260615, 20260616],
    "日期": ["2026-05-31", "2026-06-01", "2026-06-30", "2026-07-01"],
    "报告日": [20251231, 20260101, 20261231, "20270101"],
    "季度": ["2025Q4", "2026Q1", "2026Q2"],
    "年份": [2025, 2026],
    "at": ["2026-06-15 00:00", "2026-06-15T23:59:59+08:00", "2026-06-16T00:00:00+08:00"],
    "halted": [False, True],
    "tags": [["a"], []],
    "symbol": ["000001", "600519"],
    "name": ["平安银行", "--"],
    "mixed": [None, "--", 14.5, "N/A", "15.5"],
    "empty": [None, None],
}


def chosen(text: str) -> list[Any]:
    """The cells of the first column that a filter names, in the rows that pass it."""
    read = RowFilter.of(text)
    name = read.columns[0]
    rows = [{name: cell} for cell in COLUMNS[name]]
    for row in rows:
        read.see([row])
    read.end()
    return [row[name] for row in rows if read.passes(row)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("close > 50万", "where at 9: '50万' does not fit the column 'close'"),
        ("close > 50万", "holds numbers, for example 13.5; write 500000, in the unit of"),
        ("close > 1.5亿", "write 150000000,"),
        ("close > 10k", "write 10000,"),
        ("close > 5%", "write 5, or a hundredth of it"),
        ("close = abc", "where at 9: 'abc' does not fit the column 'close', which holds numbers"),
        ("close != abc", "write a number in digits, such as 1234.5"),
        ("close in (13.5, abc)", "where at 17: 'abc'"),
        ("close > 1 or close > abc", "where at 22: 'abc'"),
        ("close contains 3", "where at 16: `contains` does not fit"),
        ("close = true", "where at 9: 'true' does not fit"),
        ("text > abc", 'holds numbers, for example "2.5"; write a number in digits'),
        ("share > 5", 'for example "5.3%"; write a number with %'),
        ("date = 06/15/2026", "where at 8: '06/15/2026' does not fit"),
        ("date = 06/15/2026", 'holds dates, for example "2026-06-15"; write a date that exists'),
        ("date >= 9999-99-99", "write a date that exists, such as 2024-01-31"),
        ("day > abc", "holds dates, for example 20260615"),
        ("halted = 5", "holds booleans, for example false; write true or false"),
        ("tags = a", 'holds lists or objects, for example ["a"]'),
        ("name > 5", 'holds texts, for example "平安银行"; use =, != or `contains`'),
    ],
)
def test_a_value_that_fits_no_cell_of_its_column_is_refused(text: str, said: str) -> None:
    with pytest.raises(FilterError) as raised:
        chosen(text)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("close == 14", [14]),
        ("share > 6%", ["12%"]),
        ("date = 2026/06/16", ["2026-06-16"]),
        ("day > 2026-06-15", [20260616]),
        ("日期 = 2026-06", ["2026-06-01", "2026-06-30"]),
        ("日期 != 2026年6月", ["2026-05-31", "2026-07-01"]),
        ("日期 < 2026-06", ["2026-05-31"]),
        ("日期 <= 'June 2026'", ["2026-05-31", "2026-06-01", "2026-06-30"]),
        ("日期 > 202606", ["2026-07-01"]),
        ("日期 >= 2026-06", ["2026-06-01", "2026-06-30", "2026-07-01"]),
        ("日期 in (2026Q3, 2026-05)", ["2026-05-31", "2026-07-01"]),
        ("日期 = 2026-W27", ["2026-06-30", "2026-07-01"]),
        ("日期 = '30 June 2026'", ["2026-06-30"]),
        ("报告日 = 2026", [20260101, 20261231]),
        ("报告日 > 2026", ["20270101"]),
        ("季度 = 2026", ["2026Q1", "2026Q2"]),
        ("季度 = 2026Q1", ["2026Q1"]),
        ("年份 = 2026", [2026]),
        ("at = 2026-06-15", ["2026-06-15 00:00", "2026-06-15T23:59:59+08:00"]),
        ("at > 2026-06-15", ["2026-06-16T00:00:00+08:00"]),
        ("at = '2026-06-15 00:00'", ["2026-06-15 00:00"]),
        ("symbol = AAPL", []),
        ("symbol != AAPL", ["000001", "600519"]),
        ("name = 5", []),
        ("name > a", ["平安银行"]),
        ("mixed > 14", [14.5, "15.5"]),
        ("mixed < 15", [14.5]),
        ("mixed = '--'", ["--"]),
        ("mixed != 14.5", [None, "--", "N/A", "15.5"]),
        ("mixed > M", ["N/A"]),
        ("mixed contains '/'", ["N/A"]),
        ("empty > abc", []),
    ],
)
def test_each_cell_is_compared_as_what_it_is(text: str, cells: list[Any]) -> None:
    assert chosen(text) == cells


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
