"""InvestorBench's files: what is read from them, and what a malformed one is answered with."""

import json
import os
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.market import prices as prices_module
from adapters.market.prices import (
    CRYPTO_WINDOWS,
    STOCK_WINDOWS,
    Market,
    MarketDay,
    MarketError,
    Window,
    common_days,
    read_markets,
)
from tests.support.checkout import INVESTORBENCH

MONDAY = date(2021, 3, 1)
PRICES = st.lists(st.floats(0.01, 1e5), min_size=1, max_size=12)


def market(*prices: float, symbol: str = "HON", start: date = MONDAY) -> Market:
    """A market with a price on each day from `start`."""
    days = (start + timedelta(days=n) for n in range(len(prices)))
    return Market(symbol, tuple(map(MarketDay, days, prices)))


def file_of(folder: Path, value: object, name: str = "hon.json") -> Path:
    file = folder / name
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    return file


DAY: dict[str, Any] = {"prices": 10.5, "news": ["a", "b"], "10k": ["k"], "10q": []}


def test_a_file_gives_price_news_and_filings_by_day(tmp_path: Path) -> None:
    file = file_of(tmp_path, {"2021-03-02": {"prices": 11}, "2021-03-01": DAY})
    found = Market.read(file)
    assert found.symbol == "HON"
    assert found.days == (date(2021, 3, 1), date(2021, 3, 2))
    assert found.on(date(2021, 3, 1)) == MarketDay(date(2021, 3, 1), 10.5, ("a", "b"), ("k",), ())
    assert found.on(date(2021, 3, 2)) == MarketDay(date(2021, 3, 2), 11.0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("{", ": not JSON: "),
        ("[" * 100_000, ": not JSON: "),
        ("[]", ": not an object from dates to days"),
        ({}, ": there are no days"),
        ({"2021-02-30": DAY}, ": '2021-02-30' is no date; write it as 2020-10-01"),
        ({"20210301": DAY}, ": '20210301' is no date; write it as 2020-10-01"),
        ({"2021-W09-1": DAY}, ": '2021-W09-1' is no date; write it as 2020-10-01"),
        ({"2021-03-01 00:00:00": DAY}, ": '2021-03-01 00:00:00' is no date; "),
        ({"2021-03-01": None}, ": 2021-03-01: not an object with the day's prices"),
        ({"2021-03-01": {"news": []}}, ": 2021-03-01: prices: missing"),
        ({"2021-03-01": {"prices": None}}, ": 2021-03-01: prices: missing"),
        ({"2021-03-01": {"prices": "10"}}, ": 2021-03-01: prices: not a number"),
        ({"2021-03-01": {"prices": True}}, ": 2021-03-01: prices: not a number"),
        ('{"2021-03-01": {"prices": NaN}}', ": 2021-03-01: prices: nan is no price"),
        ('{"2021-03-01": {"prices": 1e999}}', ": 2021-03-01: prices: inf is no price"),
        ('{"2021-03-01": {"prices": 1%s}}' % ("0" * 400), ": 2021-03-01: prices: inf is no price"),
        ({"2021-03-01": {"prices": 0}}, ": 2021-03-01: prices: 0.0 is no price; it must be above"),
        ({"2021-03-01": {"prices": -1.5}}, ": 2021-03-01: prices: -1.5 is no price"),
        ({"2021-03-01": {"prices": 1, "news": "a"}}, ": 2021-03-01: news: not a list of texts"),
        ({"2021-03-01": {"prices": 1, "10k": [1]}}, ": 2021-03-01: 10k.0: not a text"),
        ({"2021-03-01": {"prices": 1, "10q": ["a", "\ud800"]}}, ": 2021-03-01: 10q.1: not Unicode"),
        ('{"2021-03-01": {"prices": 1, "prices": 2}}', ": 2021-03-01: 'prices' is there twice"),
        (
            '{"2021-03-01": {"prices": 1}, "2021-03-01": {"prices": 2}}',
            ": 2021-03-01 is there twice",
        ),
    ],
)
def test_a_malformed_file_is_named_with_place_and_reason(
    tmp_path: Path, value: object, said: str
) -> None:
    file = file_of(tmp_path, value)
    with pytest.raises(MarketError) as raised:
        Market.read(file)
    assert str(raised.value).startswith(f"{file}{said}")


def test_what_is_no_file_of_bearable_size_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(MarketError, match=r"pipe\.json: .*not a regular file"):
        Market.read(tmp_path / "pipe.json")
    with pytest.raises(MarketError, match=r"none\.json: No such file"):
        Market.read(tmp_path / "none.json")
    monkeypatch.setattr(prices_module, "FILE_BYTES", 10)
    with pytest.raises(MarketError, match=r"hon\.json: it is over 10 bytes"):
        Market.read(file_of(tmp_path, {"2021-03-01": DAY}))


def test_a_folder_is_read_by_symbol(tmp_path: Path) -> None:
    with pytest.raises(MarketError, match=r"has no \.json file"):
        read_markets(tmp_path)
    with pytest.raises(MarketError, match="is no folder"):
        read_markets(tmp_path / "none")
    file_of(tmp_path, {"2021-03-01": DAY})
    file_of(tmp_path, {"2021-03-06": DAY}, "mine.json")
    found = read_markets(tmp_path)
    assert sorted(found) == ["HON", "MINE"]
    file_of(tmp_path, {"2021-03-01": DAY}, "HON.json")
    with pytest.raises(MarketError, match=r"hon\.json: another file is of HON as well"):
        read_markets(tmp_path)


def test_crypto_assets_are_known_by_symbol_or_by_prices_on_weekends() -> None:
    assert market(1, 2, symbol="BTC").is_crypto
    assert market(1, 2, 3, 4, 5, 6, symbol="MINE").is_crypto  # Monday to Saturday
    stock = market(1, 2, 3, 4, 5, symbol="MINE")
    assert not stock.is_crypto
    assert (stock.year_days, stock.windows) == (252, STOCK_WINDOWS)
    bitcoin = market(1, symbol="BTC")
    assert (bitcoin.year_days, bitcoin.windows) == (365, CRYPTO_WINDOWS)


def test_a_window_includes_both_ends_and_needs_two_days() -> None:
    found = market(1, 2, 3, 4)
    window = Window(MONDAY + timedelta(days=1), MONDAY + timedelta(days=2))
    assert [record.price for record in found.during(window)] == [2, 3]
    with pytest.raises(MarketError, match=r"HON has 1 of its days from 2021-03-04 to 2021-03-09"):
        found.during(Window(date(2021, 3, 4), date(2021, 3, 9)))
    with pytest.raises(ValueError, match="before it starts"):
        Window(date(2021, 3, 4), date(2021, 3, 3))


def test_a_day_without_trading_is_answered_with_its_neighbours() -> None:
    found = Market("HON", (MarketDay(MONDAY, 1), MarketDay(MONDAY + timedelta(days=4), 2)))
    with pytest.raises(
        MarketError, match="2021-03-03 is no trading day of HON; the nearest: 2021-03-01 and"
    ):
        found.on(date(2021, 3, 3))
    with pytest.raises(MarketError, match="the nearest: 2021-03-05"):
        found.momentum(date(2021, 4, 1))


def test_days_out_of_order_are_no_market() -> None:
    with pytest.raises(MarketError, match="days must be in order"):
        Market("HON", (MarketDay(MONDAY, 1), MarketDay(MONDAY, 2)))
    with pytest.raises(MarketError, match="there are no days"):
        Market("HON", ())


def test_momentum_is_the_sign_of_three_differences() -> None:
    found = market(10, 9, 9, 11, 9, 9, 8, 9)
    # +1 of 10 9 9 11; 0 of 9 9 11 9 and 9 11 9 9; -3 of 11 9 9 8; 0 of 9 9 8 9
    assert [found.momentum(day) for day in found.days] == [0, 0, 0, 1, 0, 0, -1, 0]


@given(PRICES, PRICES, st.integers(0, 11))
def test_no_later_price_changes_what_is_known_of_a_day(
    prices: list[float], others: list[float], at: int
) -> None:
    at = min(at, len(prices) - 1)
    found, changed = market(*prices), market(*prices[: at + 1], *others)
    day = found.days[at]
    assert found.momentum(day) == changed.momentum(day) == market(*prices[: at + 1]).momentum(day)
    assert found.on(day) == changed.on(day)


def test_common_days_are_those_of_all_markets() -> None:
    window = Window(MONDAY, date(2021, 12, 31))
    late = market(1, 2, 3, start=MONDAY + timedelta(days=2))
    assert common_days([market(1, 2, 3), late], window) == (date(2021, 3, 3),)
    assert common_days([], window) == ()


def test_the_published_files_cover_the_published_windows() -> None:
    if not INVESTORBENCH.is_dir():
        pytest.skip("needs InvestorBench's files beside the checkout")
    markets = read_markets(INVESTORBENCH)
    tested = {name: len(found.during(found.windows.test)) for name, found in markets.items()}
    warmed = {name: len(found.during(found.windows.warm_up)) for name, found in markets.items()}
    stocks = dict.fromkeys(("HON", "JNJ", "MSFT", "UVV"), 150)
    assert tested == {**stocks, "BTC": 215, "ETH": 187, "NFLX": 126}
    assert warmed == {**dict.fromkeys(stocks, 64), "BTC": 53, "ETH": 44, "NFLX": 47}
    assert {name for name, found in markets.items() if found.is_crypto} == {"BTC", "ETH"}
