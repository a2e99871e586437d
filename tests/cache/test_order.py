"""When a table counts as ordered by date, and that finding out is bounded."""

from collections.abc import Callable
from datetime import date, timedelta
from itertools import pairwise
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.dates import date_of
from cache.order import LONGEST, READ, DateOrder, date_order

Rows = list[dict[str, Any]]
FIRST = date(1990, 1, 1)


def ordered(rows: Rows) -> DateOrder | None:
    data = b"[" + b",\n".join(map(orjson.dumps, rows)) + b"]"
    return date_order(data, [*dict.fromkeys(name for row in rows for name in row)], len(rows))


def series(numbers: Any, column: str = "日期", **more: Callable[[int], Any]) -> Rows:
    return [
        {
            column: str(FIRST + timedelta(days=number)),
            **{n: make(number) for n, make in more.items()},
        }
        for number in numbers
    ]


UP = DateOrder("日期", rises=True)
DOWN = DateOrder("日期", rises=False)


@pytest.mark.parametrize("rows", [2, 3, READ, READ + 1, 5_000])
def test_dates_that_rise_or_fall_order_a_table(rows: int) -> None:
    assert ordered(series(range(rows))) == UP
    assert ordered(series(reversed(range(rows)))) == DOWN
    assert ordered(series(n // 3 for n in range(rows + 3))) == UP, "equal neighbours are in order"
    assert ordered(series([5] * rows)) is None


@given(st.lists(st.integers(0, 9), min_size=2, max_size=12))
def test_a_short_table_is_ordered_just_when_its_rows_are(days: list[int]) -> None:
    ups, downs = (all(a <= b for a, b in pairwise(way)) for way in (days, days[::-1]))
    expected = None if ups == downs else UP if ups else DOWN
    assert ordered(series(days)) == expected


@pytest.mark.parametrize("length", [2, 7, 39, 40, 78, 79, 80, 117, 250])
def test_no_length_of_blocks_is_in_step_with_the_rows_that_are_read(length: int) -> None:
    assert ordered(series(n % length for n in range(10_000))) is None
    assert ordered(series((n % length for n in range(10_001)), id=lambda n: "x" * (n % 40))) is None


def test_the_first_column_whose_dates_rise_or_fall_decides() -> None:
    shuffled = Random(1).sample(range(300), 300)
    rows = [
        {
            "name": f"n{n}",
            "listed": str(FIRST + timedelta(days=shuffled[n])),
            "same": "2024-01-01",
            "published": str(FIRST - timedelta(days=n)),
            "日期": str(FIRST + timedelta(days=n)),
        }
        for n in range(300)
    ]
    assert ordered(rows) == DateOrder("published", rises=False)
    assert ordered([{k: v for k, v in row.items() if k != "published"} for row in rows]) == UP
    assert ordered([{**row, "日期": None, "published": ""} for row in rows]) is None


@pytest.mark.parametrize("count", [200, 5_000])
def test_numbers_and_names_that_happen_to_rise_are_no_dates(count: int) -> None:
    for make in (
        lambda n: n,
        lambda n: 1990 + n,
        lambda n: 20_240_101 + n,
        lambda n: f"{600_000 + n}",
        lambda n: 1_700_000_000 + n,
        lambda n: n / 7,
        lambda n: f"Bond {n:05}",
        lambda n: f"{n // 60:02}:{n % 60:02}",
        lambda n: n % 2 == 1,
    ):
        for column in ("id", "代码", "volume", "近1年", "成交量"):
            assert ordered([{column: make(n)} for n in range(count)]) is None
    assert ordered([{"date": 1_700_000_000 + n} for n in range(count)]) is not None
    assert ordered([{"时间": f"{n // 600:02}:{n // 10 % 60:02}"} for n in range(count)]) is not None


@pytest.mark.parametrize(
    "wrong", [None, "", "合计", "2024-13-01", 5, True, [], {}, "x" * 99, "09:30"]
)
@pytest.mark.parametrize("place", [0, 50, 99])
def test_each_row_that_is_read_has_a_date_of_the_same_kind(wrong: object, place: int) -> None:
    rows = series(range(100))
    assert ordered(rows) == UP
    rows[place]["日期"] = wrong
    assert ordered(rows) is None
    del rows[place]["日期"]
    assert ordered(rows) is None


def test_a_date_within_a_text_or_another_name_is_not_taken_for_one() -> None:
    def text(n: int) -> str:
        return f'"日期":"{FIRST + timedelta(days=n)}"'

    assert ordered([{"note": text(n), "日期": None} for n in range(100)]) is None
    assert (
        ordered(
            [{"note": text(-n), "日期": row["日期"]} for n, row in enumerate(series(range(100)))]
        )
        == UP
    )
    odd = 'a"b\\c\n'
    assert ordered(series(range(100), odd)) == DateOrder(odd, rises=True)


def test_tables_of_no_rows_one_row_or_no_columns_have_no_order() -> None:
    assert date_order(b"[]", ["日期"], 0) is None
    assert ordered(series([1])) is None
    assert ordered([{}, {}]) is None
    assert date_order(b"[{}", ["日期"], 5) is None, "what is damaged has none either"


def test_what_is_read_is_bounded_whatever_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def counted(text: str, *, named: bool) -> object:
        read.append(text)
        return date_of(text, named=named)

    monkeypatch.setattr("cache.order.date_of", counted)
    assert ordered(series(range(40_000))) == UP
    assert len(read) <= READ + 4
    read.clear()
    tail = {f"d{n}": "2024-01-01" for n in range(500)}  # none of these is followed
    assert ordered([{**tail, "日期": day["日期"]} for day in series(range(1_000))]) is None
    assert len(read) < 2 * READ


def test_rows_longer_than_are_read_leave_a_table_without_an_order() -> None:
    wide = {"text": "x" * LONGEST}
    assert ordered([{**wide, **row} for row in series(range(300))]) is None
    assert ordered([{**row, **wide} for row in series(range(300))]) is None
    assert ordered([{**row, **wide} for row in series(reversed(range(10)))]) == DOWN


def test_a_date_within_another_value_orders_nothing() -> None:
    rows = [
        {"info": {"日期": up["日期"]}} | down
        for up, down in zip(series(range(300)), series(range(300, 0, -1)), strict=True)
    ]
    assert ordered(rows) is None
