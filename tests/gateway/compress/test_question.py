"""What awkward questions ask of a table of prices, and what is said to be understood of them."""

from datetime import date, timedelta
from typing import Any

import pytest

from finport import Budget, compress
from tests.support.shortened import cells, table


def prices() -> list[dict[str, Any]]:
    """The trading days from 2025-05-02 to 2026-06-30."""
    rows: list[dict[str, Any]] = []
    day = date(2025, 5, 2)
    while day <= date(2026, 6, 30):
        at = len(rows)
        close = 100 + at * 37 % 101 + at / 1_000
        rows.append(
            {
                "日期": day.isoformat(),
                "股票代码": "600519",
                "开盘": close - 1.5,
                "收盘": close,
                "最高": close + 2.5,
                "最低": close - 2.5,
                "成交量": at * 1_001 % 99_991,
                "涨跌幅": round((at * 53 % 199) / 20 - 5, 2),
            }
        )
        day += timedelta(days=3 if day.weekday() == 4 else 1)
    return rows


ROWS = prices()
YEAR, MAY, JUNE = "2026", "2026-05", "2026-06"
ALL = ""


def ranked(
    name: str, *, within: str = ALL, to: str = ALL, count: int = 1, highest: bool = True
) -> list[str]:
    """The days of a year, a month or a range with the highest or lowest cells of a column."""
    rows = [row for row in ROWS if within <= row["日期"] <= f"{to or within}~"]
    rows.sort(key=lambda row: row[name], reverse=highest)
    return [row["日期"] for row in rows[:count]]


def before_june(name: str) -> list[str]:
    """The day with the highest cell of a column before June 2026."""
    return ranked(name, to=MAY)


def falls(count: int = 1) -> list[str]:
    return ranked("涨跌幅", count=count, highest=False)


FELL = [row["日期"] for row in ROWS if row["涨跌幅"] < -4.8]
BUSY = [row["日期"] for row in ROWS if row["成交量"] >= 99_900]


@pytest.mark.parametrize(
    ("question", "days", "understood"),
    [
        ("跌幅最大的一天", falls(), ["lowest 涨跌幅"]),
        ("最大跌幅是哪天", falls(), ["lowest 涨跌幅"]),
        ("跌得最多的三天", falls(3), ["3 lowest 涨跌幅"]),
        ("the day with the biggest drop", falls(), ["lowest 涨跌幅"]),
        ("biggest one-day fall", falls(), ["lowest 涨跌幅"]),
        ("biggest loss", falls(), ["lowest 涨跌幅"]),
        ("On which day did it fall the most?", falls(), ["lowest 涨跌幅"]),
        ("three worst days", falls(3), ["3 lowest 涨跌幅"]),
        ("跌幅超过4.8%的日子", FELL, ["涨跌幅 < -4.8"]),
        ("days on which it fell more than 4.8 %", FELL, ["涨跌幅 < -4.8"]),
        ("When did the close fall below 100.2?", ["2025-05-02"], ["收盘 < 100.2"]),
        ("When did the close rise above 200?", ranked("收盘"), ["收盘 > 200"]),
        ("涨幅最大的一天", ranked("涨跌幅"), ["highest 涨跌幅"]),
        ("涨跌幅最大的一天", ranked("涨跌幅"), ["highest 涨跌幅"]),
        (
            "6月成交量最大的三天",
            ranked("成交量", within=JUNE, count=3),
            [JUNE, "3 highest 成交量"],
        ),
        ("highest close in May", ranked("收盘", within=MAY), [MAY, "highest 收盘"]),
        ("今年六月最高收盘价", ranked("收盘", within=JUNE), [JUNE, "highest 收盘"]),
        (
            "highest close in June last year",
            ranked("收盘", within="2025-06"),
            ["2025-06", "highest 收盘"],
        ),
        (
            "highest close from March to May",
            ranked("收盘", within="2026-03", to=MAY),
            ["2026-03-01 to 2026-05-31", "highest 收盘"],
        ),
        ("When did the price peak?", ranked("收盘"), ["highest 收盘"]),
        ("When did it bottom out?", ranked("收盘", highest=False), ["lowest 收盘"]),
        ("六月十五日的收盘价", ["2026-06-15"], ["2026-06-15"]),
        ("二〇二六年六月十五日的收盘价", ["2026-06-15"], ["2026-06-15"]),
        ("close of the last two trading days", ["2026-06-29", "2026-06-30"], ["2 newest rows"]),
        ("本月初的收盘价", ["2026-06-01"], ["2026-06"]),
        ("close at the beginning of this month", ["2026-06-01"], ["2026-06"]),
        ("close year-to-date", ["2026-01-01", "2026-06-30"], ["2026"]),
        ("ytd change", ["2026-01-01", "2026-06-30"], ["2026"]),
        ("今年以来的收盘价", ["2026-01-01", "2026-06-30"], ["2026"]),
        ("年初至今涨跌幅", ["2026-01-01", "2026-06-30"], ["2026"]),
        ("month-to-date volume", ["2026-06-01"], ["2026-06"]),
        (
            "close on the last trading day of March 2026",
            ["2026-03-31"],
            ["2026-03", "newest row"],
        ),
        ("3月最后一个交易日的收盘价", ["2026-03-31"], ["2026-03", "newest row"]),
        ("this month's highest close", ranked("收盘", within=JUNE), [JUNE, "highest 收盘"]),
        ("本月最高收盘价", ranked("收盘", within=JUNE), [JUNE, "highest 收盘"]),
        ("上个月最高收盘价", ranked("收盘", within=MAY), [MAY, "highest 收盘"]),
        (
            "lowest close last month",
            ranked("收盘", within=MAY, highest=False),
            [MAY, "lowest 收盘"],
        ),
        ("What is the closing price?", [], []),
        ("highest close excluding June 2026", before_june("收盘"), ["highest 收盘"]),
        ("highest close, June 2026 excluded", before_june("收盘"), ["highest 收盘"]),
        (
            "highest close in 2026 other than in May and June 2026",
            ranked("收盘", within=YEAR, to="2026-04"),
            ["2026", "highest 收盘"],
        ),
        (
            "2026年除了6月以外收盘最高",
            ranked("收盘", within=YEAR, to=MAY),
            ["2026", "highest 收盘"],
        ),
        (
            "no June, just the lowest May 2026 close",
            ranked("收盘", within=MAY, highest=False),
            ["2026-05", "lowest 收盘"],
        ),
        (
            "不包括今年6月，收盘最高",
            before_june("收盘"),
            ["highest 收盘"],
        ),
        ("close no later than 2025-05-05", ["2025-05-02", "2025-05-05"], ["to 2025-05-05"]),
        ("days when volume was not below 99900", BUSY, ["成交量 >= 99900"]),
        ("closes not above 100.2", ["2025-05-02"], ["收盘 <= 100.2"]),
        ("收盘没有超过100.2的日子", ["2025-05-02"], ["收盘 <= 100.2"]),
        ("收盘未超过100.2的日子", ["2025-05-02"], ["收盘 <= 100.2"]),
        ("收盘并非高于100.2的日子", ["2025-05-02"], ["收盘 <= 100.2"]),
        ("成交量不是低于99900的日子", BUSY, ["成交量 >= 99900"]),
        ("有没有成交量超过99900的日子？", BUSY, ["成交量 > 99900"]),
        ("days on which it did not fall more than 3 %", [], ["涨跌幅 >= -3"]),
        ("close of the last trading day", ["2026-06-30"], ["newest row"]),
        ("跌幅超过百分之四点八的日子", FELL, ["涨跌幅 < -4.8"]),
        ("今天收盘价", ["2026-06-30"], ["newest row"]),
        ("highest close before June 2026", before_june("收盘"), ["to 2026-05-31", "highest 收盘"]),
        ("highest close before June", before_june("收盘"), ["to 2026-05-31", "highest 收盘"]),
        (
            "highest close after May 2026",
            ranked("收盘", within=JUNE),
            ["from 2026-06-01", "highest 收盘"],
        ),
        ("close on Saturday 2026-06-20", ["2026-06-19", "2026-06-22"], ["2026-06-20"]),
        ("close on 2027-01-04", ["2026-06-30"], ["2027-01-04"]),
        (
            "highest close since May 2026",
            ranked("收盘", within=MAY, to=JUNE),
            ["from 2026-05-01", "highest 收盘"],
        ),
        (
            "highest close of the last two trading days",
            ranked("收盘", within="2026-06-29", to=JUNE),
            ["2 newest rows", "highest 收盘"],
        ),
        ("close on 05/06/2026", [], []),
        ("close on 31 June 2026", [], []),
        ("2026年6月31日的收盘价", [], []),
        ("close on 30 February", [], []),
        ("closes of at most 100.2", ["2025-05-02"], ["收盘 <= 100.2"]),
        ("days on which it fell by at least 4.8 percent", FELL, ["涨跌幅 <= -4.8"]),
        ("May I see how the market declines 5 places?", [], []),
    ],
)
def test_an_awkward_question_is_understood(
    question: str, days: list[str], understood: list[str]
) -> None:
    made = compress(table(ROWS), Budget(200), question)
    assert [*made.understood] == understood
    assert {*days} <= {row["日期"] for row in cells(made)}, made.text


def test_a_month_alone_shows_rows_of_the_newest_one() -> None:
    made = compress(table(ROWS), Budget(500), "收盘价，6月")
    shown = [row["日期"] for row in cells(made)]
    assert {row["日期"] for row in ROWS if row["日期"].startswith(JUNE)} <= {*shown}


def test_what_a_question_excludes_is_not_asked_for() -> None:
    rise = compress(table(ROWS), Budget(200), "days on which it did not fall more than 3 %")
    assert all(float(row["涨跌幅"]) >= -3 for row in cells(rise)[1:-1])


@pytest.mark.parametrize("question", ["highest price except sh600300", "除了SH600300以外价格最高"])
def test_a_name_that_is_excluded_is_not_asked_for(question: str) -> None:
    rows = [{"code": f"SH{600_001 + n}", "价格": n / 4, "note": "x" * 40} for n in range(300)]
    made = compress(table(rows), Budget(120), question)
    assert made.understood == ("highest 价格",)
    assert "SH600300" in made.text


def test_names_of_cells_are_said_as_they_are_written() -> None:
    rows = [{"code": f"SH{600_000 + n}", "price": n / 4, "note": "x" * 40} for n in range(300)]
    made = compress(table(rows), Budget(120), "price of sh600123")
    assert made.understood == ("code = SH600123",)


def test_falls_that_are_positive_numbers_are_ranked_as_they_are() -> None:
    rows: list[dict[str, Any]] = [
        {"名称": f"公司{n:03}", "跌幅": n * 7 % 100 / 10, "note": "x" * 40} for n in range(99)
    ]
    made = compress(table(rows), Budget(120), "跌幅最大的公司")
    assert made.understood == ("highest 跌幅",)
    assert max(rows, key=lambda row: row["跌幅"])["名称"] in made.text


def test_a_count_of_rows_and_their_numbers_look_different() -> None:
    many = compress(table(ROWS), Budget(200), "highest close in June 2026")
    assert many.text.startswith(f"# {many.rows_shown} of 303 rows")
    wide = [{"日期": row["日期"], "note": "a long note; " * 22} for row in ROWS]
    one = compress(table(wide), Budget(100), "2026-06-15")
    assert one.text.startswith("# row 292 of 303")
    few = compress(table(wide), Budget(165), "note on 2026-06-15 and 2026-06-18")
    assert few.text.startswith("# rows 292, 295 of 303")


def test_codes_have_no_statistics() -> None:
    made = compress(table(ROWS), Budget(600), "收盘价")
    assert "# 收盘: min" in made.text
    assert "# 股票代码" not in made.text
