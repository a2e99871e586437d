"""Shortened answers: within the budget, with what the question asks for, numbers as written."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
import toon_format
from hypothesis import given
from hypothesis import strategies as st

from cache import Entry
from finport import Budget, BudgetError, compress
from gateway.compress.forms import cell
from gateway.compress.toon import toon
from gateway.compress.written import read
from tests.support.shortened import cells, table
from tests.support.waiting import PATIENCE_S


def document(value: Any) -> Entry:
    return Entry(orjson.dumps(value), None, None, 0.0, 0.0, "live")


def prices(count: int = 500) -> list[dict[str, Any]]:
    return [
        {
            "日期": f"{2020 + n // 300}-{n // 25 % 12 + 1:02}-{n % 25 + 1:02}",
            "开盘": 100 + n / 8,
            "收盘": 100 + (n * 37 % 500) / 8,
            "成交量": n * 1_001 % 99_991,
            "涨跌幅": round((n * 17 % 100) / 7 - 7, 2),
            "换手率": n % 10 / 10,
        }
        for n in range(count)
    ]


MEANINGS = {
    "收盘": "closing price",
    "成交量": "trading volume in lots",
    "涨跌幅": "change in percent",
}


def best(name: str, rows: list[dict[str, Any]], count: int = 1) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -row[name])[:count]


ROWS = prices()


@pytest.mark.parametrize(
    ("question", "column", "wanted"),
    [
        ("What was the closing price on 2020-03-05?", "收盘", ROWS[54:55]),
        ("closing price on March 5, 2020", "收盘", ROWS[54:55]),
        ("2020年3月5日的收盘价是多少", "收盘", ROWS[54:55]),
        ("20200305 收盘", "收盘", ROWS[54:55]),
        ("What is the latest closing price?", "收盘", ROWS[-1:]),
        ("最新收盘价", "收盘", ROWS[-1:]),
        ("trading volume of the last 5 trading days", "成交量", ROWS[-5:]),
        ("最近5个交易日的成交量", "成交量", ROWS[-5:]),
        ("On which day was the trading volume highest?", "成交量", best("成交量", ROWS)),
        ("the 3 highest closing prices", "收盘", best("收盘", ROWS, 3)),
        ("涨跌幅前五", "涨跌幅", best("涨跌幅", ROWS, 5)),
        (
            "What was the highest closing price from 2020-02-01 to 2020-04-30?",
            "收盘",
            best("收盘", [r for r in ROWS if "2020-02-01" <= r["日期"] <= "2020-04-30"]),
        ),
        (
            "2020年第二季度最高收盘价",
            "收盘",
            best("收盘", [r for r in ROWS if "2020-04-01" <= r["日期"] <= "2020-06-30"]),
        ),
        (
            "days on which the volume was above 98,000",
            "成交量",
            [row for row in ROWS if row["成交量"] > 98_000],
        ),
        ("成交量超过9.8万的日子", "成交量", [row for row in ROWS if row["成交量"] > 98_000]),
    ],
)
@pytest.mark.parametrize("limit", [200, 500])
def test_what_a_question_asks_for_is_shown(
    question: str, column: str, wanted: list[dict[str, Any]], limit: int
) -> None:
    made = compress(table(ROWS), Budget(limit), question, MEANINGS)
    shown = {row["日期"]: row.get(column) for row in cells(made)}
    assert wanted
    for row in wanted:
        assert shown.get(row["日期"]) == str(row[column]), made.text


def test_rows_are_found_by_names_and_codes() -> None:
    rows = [
        {"代码": f"{600000 + n}", "名称": f"公司{n:03}", "最新价": n / 4, "note": "x" * 40}
        for n in range(800)
    ]
    for question in ("公司123的最新价", "latest price of 600123", "What is the price of SH600123?"):
        made = compress(table(rows), Budget(120), question)
        assert {"代码": "600123", "最新价": "30.75"}.items() <= {
            key: value
            for row in cells(made)
            if row["代码"] == "600123"
            for key, value in row.items()
        }.items(), made.text


def test_without_a_question_ends_and_middle_are_shown_and_counted() -> None:
    made = compress(table(ROWS), Budget(300))
    shown = [row["日期"] for row in cells(made)]
    assert (shown[0], shown[-1]) == (ROWS[0]["日期"], ROWS[-1]["日期"])
    assert (made.form, made.by, made.whole) == ("csv", "rules", False)
    assert made.rows_shown == len(shown) < 500
    assert made.columns_shown == len(cells(made)[0])
    assert re.match(r"# rows 1, \d+, 500 of 500\n", made.text)
    assert made.understood == ()
    assert made.of_tokens > 10_000


def test_a_table_that_fits_is_whole() -> None:
    made = compress(table(ROWS[:3]), Budget(400))
    assert made.whole
    assert [list(row.values()) for row in cells(made)] == [
        [str(value) for value in row.values()] for row in ROWS[:3]
    ]


def test_a_table_without_columns_is_an_empty_list_not_an_empty_text() -> None:
    for question in ("", "highest 收盘"):
        made = compress(table([]), Budget(50), question)
        assert (made.text, made.form, made.whole) == ("[]", "json", True)


def test_of_a_document_what_is_named_stays_and_the_rest_is_counted() -> None:
    value = {
        "meta": {"symbol": "AAPL", "currency": "USD"},
        "summary": {"marketCap": 123, "trailingPE": 28.110, "name": "x" * 900},
        "history": [{"date": f"2024-01-{n:02}", "close": 100 + n} for n in range(1, 32)],
    }
    made = compress(document(value), Budget(60), "What is its trailing PE?")
    kept = json.loads(made.text)
    assert kept["summary"]["trailingPE"] == 28.11
    assert made.form == "json"
    dated = json.loads(compress(document(value), Budget(60), "close on 2024-01-17").text)
    assert dated["history"] == [{"date": "2024-01-17", "close": 117}]
    assert dated["history…"] == "30 more"


@pytest.mark.parametrize("budget", [Budget(50), Budget(300), Budget(700, "chars")])
@pytest.mark.parametrize("before", ["", "x", "Revenue was ", "a sentence, " * 40])
def test_a_number_that_does_not_fit_is_left_out_not_cut(before: str, budget: Budget) -> None:
    for number in ("7" * 2_000, "-" + "7" * 700, "1,234" * 300):
        for value in (f"{before}{number}", {"a": f"{before}{number}"}, [f"{before}{number}"] * 9):
            made = compress(document(value), budget)
            found = re.findall(r"-?[\d,]{6,}", made.text)
            assert {one.strip(",") for one in found} <= {number.strip(",")}


def test_a_line_of_marks_is_no_number() -> None:
    for mark in "-.,":
        made = compress(document(f"x {mark * 9_000}"), Budget(700, "chars"))
        assert mark * 300 in made.text


def test_of_a_text_the_sentences_that_answer_stay_in_their_order() -> None:
    filler = "Analysts spoke of many other things. " * 80
    text = f"Revenue was $94.9 billion. {filler}The board declared a dividend of $0.25."
    made = compress(document(text), Budget(60), "How large is the dividend?")
    assert "a dividend of $0.25." in made.text
    assert (made.form, made.whole) == ("text", False)


@pytest.mark.parametrize("limit", [0, 49, -1])
def test_a_budget_that_is_too_small_is_refused(limit: int) -> None:
    with pytest.raises(BudgetError, match="at least 50 tokens"):
        Budget(limit)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 900 + b"]" * 900,
        b'{"a":' * 900 + b"1" + b"}" * 900,
        orjson.dumps({f"k{n}": n for n in range(100_000)}),
        orjson.dumps(["x" * 1_000_000]),
        orjson.dumps("word " * 200_000),
        orjson.dumps({"k" * 100_000: 1}),
        orjson.dumps([[{"k5": n}, {"k5": n}] for n in range(20_000)]),
        orjson.dumps([{"a": "-" * 100_000, "k5": "a" + "-" * 100_000}] * 5),
    ],
    ids=["arrays", "objects", "fields", "text", "words", "name", "tables", "hyphens"],
)
def test_hostile_documents_cost_little(data: bytes) -> None:
    started = time.process_time()
    made = compress(Entry(data, None, None, 0.0, 0.0, "live"), Budget(60), "what is k5 of a?")
    assert made.tokens <= 60
    assert time.process_time() - started < PATIENCE_S


@pytest.mark.parametrize(
    "question",
    [
        *("1" * 4_000, "5 May " * 666, "05-01 " * 666, " " * 4_000, "5 " * 2_000, "top " * 1_000),
        *("最高" * 2_000, "above 5 " * 500, "2024-" * 800, "(" * 4_000, "9999-99-99 " * 360),
        *("2026 " * 800 + "x5", ("2026-06-15 " * 400)[:3_990] + "5"),
        *("June - 2026 " * 330, "05/06/2026 " * 360, "6月" * 2_000, "十个交易日前" * 660),
        *("二〇二六年六月十五日" * 400, "52-week low " * 330, "biggest day " * 330, "ytd " * 1_000),
        *(
            "fell the most " * 280,
            "跌幅最大" * 1_000,
            "一" * 4_000,
            "第二高" * 1_300,
            "in may " * 570,
        ),
        *("no " * 1_300, "not a day with a close " * 180, "not above 5 " * 330, "不" * 4_000),
        *("except 5 june and " * 220, "除了6月和" * 800, "excluding the day before " * 160),
        *(
            "the day before 5 june " * 180,
            "2026-06-12前一个交易日" * 250,
            "the first of each month " * 160,
        ),
        *(
            "between 5 and 6 " * 250,
            "5到6之间" * 660,
            "百分之三点" * 800,
            "yesterday " * 400,
            "前天" * 2_000,
        ),
        *("col_1 col_2 " * 330, "the last 999 years", "top 99999999", "前" * 4_000, "\0" * 4_000),
    ],
    ids=lambda question: question[:12].strip() or "spaces",
)
def test_hostile_questions_cost_little(question: str) -> None:
    rows = [{f"col_{m}": n * m for m in range(60)} | {"日期": "2024-01-01"} for n in range(500)]
    started = time.process_time()
    made = compress(table(rows), Budget(100), question)
    assert made.tokens <= 100
    assert time.process_time() - started < PATIENCE_S


class Name(str):
    """A column's name whose look-ups are calls of Python, which can be counted."""

    def __hash__(self) -> int:
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, in Python and in C."""
    count = 0

    def seen(_frame: object, event: str, _value: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def sparse(count: int, name: str = "k{}", cell: Any = 1) -> list[dict[str, Any]]:
    return [{name.format(n): cell} for n in range(count)]


def alike(number: int) -> str:
    """One of many names that share all their words."""
    return f"foo{'!' * (number % 60)}{'?' * (number // 60)}"


@pytest.mark.parametrize("question", ["", "latest close at 10:30, k5 above 3", "the foo"])
@pytest.mark.parametrize(
    "rows",
    [
        sparse,
        lambda count: sparse(count, "k{} time", "10:30"),
        lambda count: [{alike(n): n} for n in range(count)],
        lambda count: [{f"k{n}": n for n in range(count)}, *sparse(count)],
        lambda count: [{f"k{n}": n for n in range(count)}] * 2,
        lambda count: [{alike(n): n for n in range(count)}] * 2,
        lambda count: [{"a": None, "k5": None}] * count + [{"a": 1, "k5": 2}],
    ],
    ids=["records", "times", "alike", "whole first", "wide", "wide alike", "null first"],
)
def test_a_table_costs_no_more_than_its_cells(
    rows: Callable[[int], list[dict[str, Any]]], question: str
) -> None:
    def work(count: int) -> int:
        made = table(rows(count))
        entry = replace(made, columns=tuple(map(Name, made.columns or ())))
        return calls(lambda: compress(entry, Budget(300), question))

    work(9)  # loads the vocabulary
    assert work(1_000) < 6 * work(250)


@pytest.mark.parametrize("day", ["2024-99-99", "0000-00-00", "2024-1a-01", "9999-12-31"])
@pytest.mark.parametrize("question", ["the trading day before 5 june 2025", "10 days ago, in may"])
def test_days_that_do_not_exist_are_no_days(day: str, question: str) -> None:
    rows = [{"date": day, "close": n} for n in range(90)]
    assert compress(table(rows), Budget(60), question).tokens <= 60


names = st.text(max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30)
    | st.sampled_from(["2024-01-02", 'a"b', "x,y", "l1\nl2", "#", " ", "{", "x" * 900])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(names, inner, max_size=6)
)
questions = st.sampled_from(["", "latest", "highest a above 3", "前五", "2024-01-02 到 2024-02-01"])
budgets = st.builds(Budget, st.integers(50, 600)) | st.builds(
    Budget, st.integers(200, 2_000), st.just("chars")
)
nested = st.lists(scalars, max_size=3) | st.dictionaries(names, scalars, max_size=3)
tables = st.lists(names, min_size=2, max_size=5, unique=True).flatmap(
    lambda columns: st.lists(
        st.fixed_dictionaries(dict.fromkeys(columns, scalars | nested)), min_size=1, max_size=12
    ).map(lambda rows: rows * 5)
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


@given(tables, budgets, questions)
def test_any_table_is_within_budget_and_its_cells_are_those_of_the_table(
    rows: list[dict[str, Any]], budget: Budget, question: str
) -> None:
    made = compress(table(rows), budget, question)
    assert budget.size(made.text) <= budget.limit
    assert made.tokens == budget.tokens(made.text)
    if not made.rows_shown:
        return
    head = "".join(
        line for line in made.text.splitlines(keepends=True)[:20] if line.startswith("# ")
    )
    body_text = made.text[len(head) :]
    if made.form != "csv":
        decoded = (
            toon_format.decode(body_text)
            if made.form == "toon"
            else [json.loads(line) for line in body_text.split("\n")]
        )
        assert len(decoded) == made.rows_shown
        return
    read = [*csv.reader(io.StringIO(body_text), strict=True)]
    header, body = read[0], read[1:]
    assert len(body) == made.rows_shown
    assert len(header) == made.columns_shown
    originals = [[as_cell(row[name]) for name in rows[0]] for row in rows]
    assert {*header} <= {as_cell(name) for name in rows[0]}
    places = [at for at, name in enumerate(rows[0]) if as_cell(name) in header]
    if len(places) == len(header):
        kept = [[row[at] for at in places] for row in originals]
        assert all(line in kept for line in body)


def as_cell(value: Any) -> str:
    """A cell as the reader of a shortened table sees it."""
    text = cell(read(orjson.dumps(value)))
    return next(iter(next(csv.reader(io.StringIO(text))) or [""])) if text else ""


@given(values, budgets, questions)
def test_any_document_is_within_budget_and_stays_valid(
    value: Any, budget: Budget, question: str
) -> None:
    made = compress(document(value), budget, question)
    assert budget.size(made.text) <= budget.limit
    if made.form == "toon":
        toon_format.decode(made.text)
    if made.form != "json":
        return
    json.loads(made.text)
    there = {*NUMBER.findall(orjson.dumps(value).decode())}
    shown = re.sub(r'"(?:[^"\\]|\\.)*"', "", made.text)
    assert {*NUMBER.findall(shown)} <= there


@given(st.text(max_size=3_000), budgets, st.text(max_size=40))
def test_any_text_is_within_budget(text: str, budget: Budget, question: str) -> None:
    made = compress(document(text * 3), budget, question)
    assert budget.size(made.text) <= budget.limit


@given(values)
def test_toon_is_read_again_as_what_it_was(value: Any) -> None:
    assert toon_format.decode(toon(value)) == value


def test_numbers_in_toon_are_as_they_were_written() -> None:
    assert toon(read(b'{"a":[{"p":1.10,"q":"x, y"},{"p":2e5,"q":null}]}')) == (
        'a[2]{p,q}:\n  1.10,"x, y"\n  2e5,null'
    )


def test_every_process_makes_the_same() -> None:
    code = (
        "import json, sys; from finport import Budget, compress\n"
        "from tests.support.shortened import table\n"
        "rows, question, meanings = json.load(sys.stdin)\n"
        "print(compress(table(rows), Budget(200), question, meanings).text, end='')"
    )
    asked = "最近5个交易日的成交量", MEANINGS
    made = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            input=json.dumps([ROWS, *asked]),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert made == [compress(table(ROWS), Budget(200), *asked).text] * 2
