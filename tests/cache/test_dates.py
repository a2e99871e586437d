"""Which cells hold a date, and which of two comes first."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.dates import date_of, is_time_name

# Each line rises from left to right.
IN_ANY_COLUMN = (
    ("2024-01-02", "2024-01-02 15:00", "2024-01-02 15:00:00.25", "2024-01-03T00:00:00"),
    ("2024-01-02T23:30:00+08:00", "2024-01-02T15:31:00Z", "2024-01-02T10:32:00-05:00"),
    ("2024/1/2", "2024/01/12", "2024.02.01", "2024年2月3日", "2024年2月3日 9:30"),
    ("2023年12月", "2024年01月份", "2024-02", "2024/3", "2024-W14"),
    ("2023年", "2024年第1季度", "2024Q2", "2024-q3", "Q4 2024", "2025年一季度", "2025年第1-2季度"),
    ("Jan 2, 2024", "3 January 2024", "Mon, 08 Jan 2024 15:00:00 GMT", "12-Feb-2024", "March 2024"),
)
IN_A_COLUMN_OF_TIMES = (
    ("20240102", "20240103", "20241101"),
    ("202311", "202401", "202412"),
    ("1998", "2024", "2025.0"),
    ("202401021530", "202401021531"),
    ("20240102153000", "20240102153001"),
    ("999999999", "1704067200", "1704067200.5", "1704067201"),
    ("1704067200000", "1704067200001"),
    ("1704067200000000000", "1704067200000000001"),
    ("9:30", "09:30:01", "09:30:01.5", "15:00"),
)


@pytest.mark.parametrize("texts", IN_ANY_COLUMN)
def test_a_text_that_can_be_nothing_else_is_a_date_in_any_column(texts: tuple[str, ...]) -> None:
    for named in (False, True):
        dates = [date_of(text, named=named) for text in texts]
        assert None not in dates
        assert dates == sorted(set(filter(None, dates)))


@pytest.mark.parametrize("texts", IN_A_COLUMN_OF_TIMES)
def test_digits_are_a_date_in_a_column_that_is_named_like_a_time(texts: tuple[str, ...]) -> None:
    assert [date_of(text, named=False) for text in texts] == [None] * len(texts)
    dates = [date_of(text, named=True) for text in texts]
    assert None not in dates
    assert dates == sorted(set(filter(None, dates)))


NO_DATES = (
    *("", "-", "--", "本月", "next year", "600519", "1234", "12", "1.5", "1e9", "2024.5"),
    *("²", "٢٠٢٤"),
    *("01/02/2024", "2024-13", "2024-06-31", "2024年13月", "2024Q5", "2024-", "Foo 2, 2024"),
    *("0092500", "20241301", "12345678901", "9" * 400, "." * 9, "25:00:00:00"),
)


@pytest.mark.parametrize("text", NO_DATES)
def test_what_is_no_date(text: str) -> None:
    assert date_of(text, named=True) is None


times = st.datetimes(datetime(1700, 1, 1), datetime(2199, 12, 31))  # noqa: DTZ001 - read as UTC


@given(times, times)
def test_later_is_later_however_it_is_written(one: datetime, other: datetime) -> None:
    one, other = sorted(time.replace(microsecond=0) for time in (one, other))
    for form in (
        "%Y-%m-%d %H:%M:%S",
        "%Y/%m/%d %H:%M:%S",
        "%Y年%m月%d日 %H:%M:%S",
        "%d %b %Y %H:%M:%S",
    ):
        first, second = (date_of(time.strftime(form), named=False) for time in (one, other))
        assert first is not None
        assert second is not None
        assert (first < second) == (one < other)
        assert (first == second) == (one == other)


TIMES = (
    *("date", "Date", "REPORT_DATE", "tradeDate", "closeTime", "timestamp", "t", "published_at"),
    *("fiscalYear", "Month", "date_utc"),
    *("日期", "净值日期", "时间", "季度", "月份", "交易日", "年"),
)
NO_TIMES = (
    *("volume", "dayHigh", "time_to_maturity", "id", "", "timely", "attitude", "52WeekLow"),
    *("代码", "近1年", "持股市值变化-1日", "当日成交金额", "公告日后涨跌幅-10个交易日", "日增长率"),
)


def test_columns_named_like_a_time() -> None:
    assert [name for name in TIMES if not is_time_name(name)] == []
    assert [name for name in NO_TIMES if is_time_name(name)] == []


def test_a_day_is_a_day_in_every_year() -> None:
    day, before = date(1998, 12, 30), date_of("1998-12-29", named=False)
    for _ in range(800):
        found = date_of(day.isoformat(), named=False)
        assert found is not None
        assert before is not None
        assert found.at - before.at == 86_400
        assert found.at == datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
        day, before = day + timedelta(days=1), found
