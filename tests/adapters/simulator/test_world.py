"""The simulated market: its views agree, whatever is asked, and it looks like a market."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import islice, pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.simulator.akshare import PAYLOADS
from adapters.simulator.keys import UnknownError
from adapters.simulator.rapidapi import document
from adapters.simulator.shapes import Luck
from adapters.simulator.world import companies, derivatives
from adapters.simulator.world.calendar import trading_days
from adapters.simulator.world.check import LEAST_FACTS, facts, identities
from adapters.simulator.world.economy import COUNTRIES, bond, figures, series
from adapters.simulator.world.instruments import LISTED
from adapters.simulator.world.world import NOW, VERSION, History, World
from gateway.settings import WORLD, GatewaySettings
from tests.support.commands import finport
from tests.support.gateways import HIST
from tests.support.installed import NEEDS_AKSHARE

KLINE = PAYLOADS["push2his.eastmoney.com", "/api/qt/stock/kline/get"]
MADE = World()
SHARES = [key for key, one in LISTED.items() if one.kind == "share" and one.exchange == "CN"]
DAYS = st.dates(date(2005, 1, 1), date(2026, 12, 31))


def bars(world: World, key: str, **asked: str) -> dict[str, list[str]]:
    query = {"secid": f"{int(key.startswith('sh'))}.{key[2:]}", **asked}
    lines = json.loads(KLINE(query, Luck("", world)).body)["data"]["klines"]
    return {line[:10]: line.split(",")[1:] for line in lines}


def test_all_views_tell_the_same_and_returns_are_like_real_ones() -> None:
    assert [one for one in identities(MADE) if one.wrong or not one.checked] == []
    assert sum(is_so for _, _, is_so in facts(MADE)) >= LEAST_FACTS


@pytest.mark.soak
def test_twenty_seeds_hold() -> None:
    done = finport("world", "check", "--seeds", "20", "--json")
    assert [one["seed"] for one in json.loads(done.stdout) if not one["ok"]] == []
    assert done.returncode == 0


@settings(max_examples=25, deadline=None)
@given(key=st.sampled_from([*SHARES, "sh000300", "sz159915"]), first=DAYS, last=DAYS)
def test_any_range_reads_the_same_numbers(key: str, first: date, last: date) -> None:
    first, last = min(first, last), max(first, last)
    whole = bars(MADE, key, beg="20050104")
    found = bars(MADE, key, beg=f"{first:%Y%m%d}", end=f"{last:%Y%m%d}")
    if first <= NOW:
        assert set(found) == {day for day in whole if str(first) <= day <= str(last)}
    assert found.items() <= whole.items()


@settings(max_examples=20, deadline=None)
@given(now=st.dates(date(2024, 1, 2), date(2026, 12, 31)), key=st.sampled_from([*LISTED]))
def test_nothing_lies_after_the_worlds_day_and_no_day_changes_later(now: date, key: str) -> None:
    earlier = World(0, now)
    days = earlier.bars(key)
    assert days[-1].day == trading_days(LISTED[key].exchange, now)[-1] <= now
    until = min(now, NOW)
    a, b = earlier.bars(key, None, until), MADE.bars(key, None, until)
    assert [bar[:6] for bar in a] == [bar[:6] for bar in b]


@settings(max_examples=20, deadline=None)
@given(
    key=st.sampled_from([*SHARES, "sh000300", "hk00700", "us:AAPL", "coin:BTC", "future:RB0"]),
    place=st.integers(0, 5000),
    size=st.sampled_from([1, 5, 15, 30, 60]),
)
def test_the_minutes_of_a_day_are_the_day(key: str, place: int, size: int) -> None:
    day = MADE.bars(key)[place]
    found = MADE.minutes(key, day.day, size)
    assert [bar.day for bar in found] == sorted({bar.day for bar in found})
    assert all(bar.low <= min(bar.open, bar.close) <= bar.high for bar in found)
    assert all(a.close == b.open == b.before for a, b in pairwise(found))
    whole = (found[0].open, max(bar.high for bar in found), min(bar.low for bar in found))
    assert (*whole, found[-1].close) == day[1:5]
    assert sum(bar.volume for bar in found) == day.volume
    assert MADE.minutes(key, date(2024, 2, 11), size) == [] or key.startswith("coin")


@pytest.mark.parametrize("fqt", ["0", "1", "2"])
def test_minutes_are_adjusted_as_their_days(fqt: str) -> None:
    days = bars(MADE, "sh600519", beg="20260601", fqt=fqt)
    query = {"secid": "1.600519", "klt": "60", "fqt": fqt}
    lines = json.loads(KLINE(query, Luck("", MADE)).body)["data"]["klines"]
    closes = {line[:10]: line.split(",")[2] for line in lines}
    assert {day: cells[1] for day, cells in days.items()}.items() <= closes.items()


@settings(max_examples=15, deadline=None)
@given(
    product=st.sampled_from(["RB", "AU", "TA", "IF", "SI"]),
    year=st.integers(2010, 2026),
    number=st.integers(1, 12),
    now=st.dates(date(2024, 1, 2), date(2026, 12, 31)),
)
def test_a_future_meets_its_spot_and_does_not_know_the_future(
    product: str, year: int, number: int, now: date
) -> None:
    month = derivatives.Month(year, number)
    key, spot = f"future:{product}{month}", derivatives.spot_of(product)
    earlier, later = World(0, now), MADE
    for world in (earlier, later):
        days = world.bars(key)
        assert all(bar.day <= world.now for bar in days)
        if days and derivatives.expiry(product, month) <= world.now:
            assert days[-1].close == world.close(spot, days[-1].day)
    until = min(now, NOW)
    assert earlier.bars(key, None, until) == later.bars(key, None, until)


@pytest.mark.parametrize("family", ["510050", "IO", "AU", "us.AAPL"])
def test_a_chain_of_options_is_ordered_and_keeps_its_prices(family: str) -> None:
    month = derivatives.option_months(family, NOW)[1]
    options = derivatives.chain(MADE, family, month)
    calls = [MADE.close(one.key) for one in options if one.is_call]
    puts = [MADE.close(one.key) for one in options if not one.is_call]
    assert calls == sorted(calls, reverse=True)
    assert puts == sorted(puts)
    one = options[len(calls) // 2]
    earlier = World(0, NOW - timedelta(20))
    assert earlier.bars(one.key) == MADE.bars(one.key, None, earlier.now)
    if family == "510050":
        assert derivatives.option_by_code(MADE, one.code) == one


@pytest.mark.parametrize("now", [date(2024, 1, 2), date(2026, 4, 29), date(2026, 12, 31)])
@pytest.mark.parametrize("key", ["sh600519", "sz123456", "hk00700", "us:AAPL", "us:NOBODY"])
def test_every_share_has_statements_of_which_none_is_published_later(key: str, now: date) -> None:
    world = World(3, now)
    parts = companies.statements(world, key)
    periods = [part.period for part in parts]
    assert periods == sorted(set(periods))
    assert periods[0] == date(2010, 3, 31)
    assert now - timedelta(190) < periods[-1] < now
    assert all(part.period < part.published <= now for part in parts)
    assert companies.statements(World(4, now), key) != parts
    multiples = [each.earnings for each in companies.valuations(world, key)]
    assert 1 < min(multiples) <= max(multiples) < 300


def test_a_report_has_what_was_published_by_the_worlds_day() -> None:
    report = PAYLOADS["datacenter-web.eastmoney.com", "/api/data/v1/get"]
    asked = {"reportName": "RPT_DMSK_FN_INCOME", "filter": "(REPORT_DATE='2025-12-31')"}
    found = []
    for day in (date(2026, 3, 1), date(2026, 4, 2), date(2026, 4, 30)):
        rows = json.loads(report(asked, Luck("", World(0, day))).body)["result"]["data"]
        found.append({row["F0"]: row for row in rows})
        assert all(row["F12"][:10] <= str(day) for row in rows)
    none, some, every = found
    assert none == {}
    assert 0 < len(some) < len(every) == len(SHARES)
    assert some.items() <= every.items()


@pytest.mark.parametrize("symbol", ["600519.SS", "0700.HK", "AAPL", "NOBODY"])
def test_hosts_tell_the_same_of_a_company(symbol: str) -> None:
    income: Any = document("/v3/income-statement", {"symbol": symbol}, MADE)
    sheet: Any = document(f"/balance-sheet/{symbol}", {}, MADE)
    assert income == sheet
    last = income["periods"][0]
    assert last["fiscalYear"] == 2025
    assert last["totalAssets"] == last["totalLiabilities"] + last["totalEquity"]
    news: Any = document("/news", {"symbol": symbol}, MADE)
    moments = [one["publishedAt"] for one in news["data"]]
    assert moments == sorted(moments, reverse=True)
    assert moments[0][:10] <= str(NOW)
    held: Any = document("/holdings", {"symbol": symbol}, MADE)
    assert len(held["holdings"]) == 10
    assert sum(one["weight"] for one in held["holdings"]) < 100


def test_a_search_finds_what_is_listed_and_a_fund_holds_shares() -> None:
    found: Any = document("/auto-complete", {"q": "tesla"}, MADE)
    assert [one["symbol"] for one in found] == ["TSLA"]
    named: Any = document("/search", {"query": "茅台"}, MADE)
    assert named[0]["name"] == "贵州茅台"
    fund: Any = document("/etf/holdings", {"symbol": "SPY"}, MADE)
    assert sum(one["weight"] for one in fund["holdings"]) == pytest.approx(100, abs=0.01)


def test_another_seed_is_another_market() -> None:
    a, b = (World(seed).bars("sh600519", date(2024, 5, 1)) for seed in (0, 1))
    assert [bar.day for bar in a] == [bar.day for bar in b]
    assert all(one.close != other.close for one, other in zip(a, b, strict=True))
    assert a == World(0).bars("sh600519", date(2024, 5, 1))


@pytest.mark.parametrize("subject", ["600519.SS", "AAPL", "BTC-USD", "EURUSD", "0700.HK"])
def test_hosts_agree_on_a_subject(subject: str) -> None:
    quote: Any = document("/v1/quote", {"symbol": subject}, MADE)
    chart: Any = document("/other/chart", {"ticker": subject}, MADE)
    assert quote["price"] == chart["bars"][-1]["close"]
    assert chart == document("/third/history", {"symbol": subject}, MADE)


def test_the_settings_know_the_world_and_keep_its_answers_apart() -> None:
    assert WORLD == VERSION
    default = GatewaySettings(upstream="simulated")
    assert default.simulated_now == NOW
    names = {
        default.cache_name,
        GatewaySettings(upstream="simulated", simulated_seed=1).cache_name,
        GatewaySettings(upstream="simulated", simulated_now=NOW - timedelta(1)).cache_name,
    }
    assert len(names) == 3


@NEEDS_AKSHARE
def test_real_akshare_code_reads_the_market_up_to_its_day() -> None:
    asked = [f"{name}={value}" for name, value in {**HIST, "symbol": "600519"}.items()]
    now = ("--simulated-now", "2024-01-15")
    done = finport("call", "stock_zh_a_hist", *asked, "--upstream", "simulated", *now)
    last = json.loads(done.stdout)["data"][-1]
    assert last["日期"] == "2024-01-15"
    assert last["收盘"] == MADE.close("sh600519", date(2024, 1, 15))


def test_the_world_is_shown() -> None:
    done = finport("world", "show", "600519", "--from", "2024-01-02", "--to", "20240104")
    assert done.returncode == 0, done.stderr
    assert "sh600519 贵州茅台, share, made up (seed 0, to 2026-06-30)" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines() if "2024-" in line] == [
        "2024-01-02",
        "2024-01-03",
        "2024-01-04",
    ]
    said = json.loads(finport("world", "show", "AAPL", "--json", "--now", "2024-02-01").stdout)
    assert said["simulated"] is True
    assert said["days"][-1]["day"] == "2024-02-01"
    closed = finport("world", "show", "600519", "--from", "2024-02-10", "--to", "2024-02-11")
    assert "no day of trading in this range" in closed.stdout
    listed = json.loads(finport("world", "show", "--json").stdout)
    assert {"key": "fx:USD", "name": "USD", "kind": "currency", "close": 1.0} in listed


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("show", "600519", "--now", "1999-01-01"), "a day from 2024-01-02 to 2026-12-31"),
        (("show", "600519", "--from", "soon"), "does not match the format"),
        (("check", "--seeds", "0"), "is not in the range"),
        *((("show", text), "is no instrument") for text in ("us:", ":", "foo:bar", "a\nb")),
    ],
)
def test_what_the_world_can_not_be_is_a_usage_error(
    arguments: tuple[str, ...], wanted: str
) -> None:
    done = finport("world", *arguments)
    assert done.returncode == 2
    assert wanted in done.stderr


def test_a_market_that_contradicts_itself_is_found() -> None:
    class Lying(World):
        def history(self, key: str) -> History:
            told = super().history(key)
            if key == "sh600519":
                return replace(told, high=told.high - 1, close=told.close + 0.5)
            return told

    wrong = {one.name: one.wrong for one in islice(identities(Lying()), 4) if one.wrong}
    ordered = "The low is the lowest of a day's prices, the high the highest"
    assert wrong[ordered][0].startswith("sh600519 2005-01-0")
    adjusted = "An adjusted price is the price times the factor, and its returns have the payouts"
    assert wrong[adjusted][0].startswith("sh600519 Payout")


def test_sources_of_yields_that_contradict_each_other_are_found() -> None:
    class Lying(World):
        def series(self, name: str, days: Sequence[date], level: float, step: float) -> list[float]:
            told = super().series(name, days, level, step)
            return [one + 0.1 for one in told] if len(days) == 1 and "short" in name else told

    found = next(one for one in identities(Lying()) if one.wrong)
    assert found.name == "The yield of a term is one number, and its spread is the difference"


@pytest.mark.parametrize("code", ["019550", "019561", "155300", "170100"])
def test_a_bond_is_at_par_when_issued_and_pays_itself_back(code: str) -> None:
    one = bond(MADE, code)
    last = one.matures - timedelta(1)
    first, end = one.closes(MADE, [one.issued, last]).tolist()
    assert first == pytest.approx(100, abs=0.2)
    assert end == pytest.approx(100, abs=0.05)
    days = [one.issued, one.issued + timedelta(300)]
    full = one.closes(MADE, days) + one.accrued(days)
    rates = one.yields(days, full)
    dearer = one.yields(days, full + 1)
    assert all(dearer < rates)
    assert rates[0] == pytest.approx(one.rates[0], abs=0.1)


@settings(max_examples=15, deadline=None)
@given(now=st.dates(date(2024, 1, 2), date(2026, 12, 31)), country=st.sampled_from([*COUNTRIES]))
def test_a_figure_is_known_once_released_and_does_not_change_later(now: date, country: str) -> None:
    for name in ("CPI", "GDP", "unemployment"):
        known, later = figures(World(0, now), country, name), figures(MADE, country, name)
        until = min(now, NOW)
        assert all(one.released <= now for one in known)
        assert [one for one in known if one.released <= until] == [
            one for one in later if one.released <= until
        ]
        for one, before in zip(known[12:], known, strict=False):
            if series(country, name).months == 1:
                assert one.yoy == round((one.value / before.value - 1) * 100, 2)


def test_terms_of_a_loan_and_a_deposit_give_their_results() -> None:
    loan: Any = document(
        "/v1/mortgagecalculator",
        {"loan_amount": "100000", "interest_rate": "6", "duration_years": "30"},
        MADE,
    )
    assert loan["monthly_payment"]["mortgage"] == 599.55
    asked = {"pa": "100000", "rate": "6.5", "year": "2", "month": "6", "day": "0"}
    deposit: Any = document("/fd", asked, MADE, "fixed_deposit")
    assert deposit["maturity"] == round(100_000 * (1 + 0.065 / 4) ** 10, 2)
    rates: Any = document("/rapid/latest/EUR", {}, MADE)
    one: Any = document("/query", {"from_currency": "EUR", "to_currency": "JPY"}, MADE, "rate")
    assert rates["rates"]["JPY"] == one["rate"]


@pytest.mark.parametrize(
    ("subject", "key"),
    [
        ("sh600519", "sh600519"),
        ("600519.SS", "sh600519"),
        ("000001.SS", "sh000001"),
        ("000001", "sz000001"),
        ("0700.HK", "hk00700"),
        ("^GSPC", "us:SPX"),
        ("aapl", "us:AAPL"),
        ("BTC-USD", "coin:BTC"),
        ("Qwsogvtv82FCd", "coin:BTC"),
        ("600519", "sh600519"),
        ("Kweichow Moutai", "sh600519"),
        ("Apple", "us:AAPL"),
        ("NASDAQ:TSLA", "us:TSLA"),
        ("HP", "us:HP"),  # a ticker, though a company has this name
    ],
)
def test_an_instrument_has_many_spellings(subject: str, key: str) -> None:
    quote: Any = document("/quote", {"symbol": subject}, MADE)
    assert quote["price"] == MADE.close(key)


def test_a_name_that_no_instrument_has_is_not_priced() -> None:
    with pytest.raises(UnknownError, match="is called 'Foo Bar'"):
        document("/quote", {"symbol": "Foo Bar"}, MADE)
    assert document("/search", {"q": "Foo Bar"}, MADE) == []
    assert document("/news", {"query": "Foo Bar"}, MADE) == document("/news", {"query": "?"}, MADE)


def test_pairs_lists_and_other_names_of_arguments_are_read() -> None:
    pair: Any = document("/quote", {"symbol": "EURUSD=X"}, MADE)
    assert pair["price"] == round(MADE.rate("EUR", "USD"), 6)
    many: Any = document("/quotes", {"symbols": "AAPL,MSFT"}, MADE)
    assert [one["price"] for one in many] == [MADE.close("us:AAPL"), MADE.close("us:MSFT")]
    a, b = (document("/realtime", {"ids": one}, MADE, required=["ids"]) for one in ("1", "2"))
    assert a != b


def test_a_chart_has_the_days_that_are_asked_for() -> None:
    asked = {"symbol": "AAPL", "start_date": "2024-01-03", "to": "1704844800"}
    chart: Any = document("/chart", asked, MADE)
    days = [date(2024, 1, day) for day in (3, 4, 5, 8, 9, 10)]
    assert [bar["time"] for bar in chart["bars"]] == [str(day) for day in days]
    assert [bar["close"] for bar in chart["bars"]] == [MADE.close("us:AAPL", day) for day in days]


@pytest.mark.parametrize(
    ("asked", "number", "first", "last"),
    [
        ({"interval": "5min"}, 78, "2026-06-30T09:35:00", "2026-06-30T16:00:00"),
        ({"resolution": "1h"}, 7, "2026-06-30T10:30:00", "2026-06-30T16:00:00"),
        ({"show_by": "month", "start": "2024-01-01"}, 30, "2024-01-31", "2026-06-30"),
        ({"function": "TIME_SERIES_WEEKLY"}, 60, "2025-05-16", "2026-06-30"),
        ({"chart_period": "1Y"}, 252, "2025-06-30", "2026-06-30"),
        ({"interval": "m6"}, 123, "2026-01-02", "2026-06-30"),
    ],
)
def test_a_chart_has_the_interval_that_is_asked_for(
    asked: dict[str, str], number: int, first: str, last: str
) -> None:
    chart: Any = document("/chart", {"symbol": "AAPL", **asked}, MADE)
    assert len(chart["bars"]) == number
    assert (chart["bars"][0]["time"], chart["bars"][-1]["time"]) == (first, last)
    assert chart["bars"][-1]["close"] == MADE.close("us:AAPL", date.fromisoformat(last[:10]))


def test_a_fund_shows_what_it_holds() -> None:
    spy, qqq = cast("list[Any]", document("/get-holdings", {"symbols": "spy,qqq"}, MADE))
    held = {one["symbol"]: one["weight"] for one in spy["holdings"]}
    assert sum(held.values()) == pytest.approx(100, abs=0.2)
    weights = MADE.holdings("us:SPX")
    assert held == {key.removeprefix("us:"): round(100 * w, 4) for key, w in weights.items()}
    assert len(qqq["holdings"]) == 9
    start, now = MADE.close("us:SPY", date(2024, 1, 2)), MADE.close("us:SPY")
    index = MADE.close("us:SPX") / MADE.close("us:SPX", date(2024, 1, 2))
    assert now / start == pytest.approx(index, abs=0.02 * index)


def test_options_are_a_chain_of_one_expiry() -> None:
    ends: Any = document("/symbols/get-option-expirations", {"symbol": "aapl"}, MADE)
    for asked, end in (({}, 0), ({"expiration": ends["expirations"][1]}, 1)):
        chain: Any = document("/op/option", {"symbol": "AAPL", **asked}, MADE)
        assert chain["expiration"] == ends["expirations"][end]
        assert chain["price"] == MADE.close("us:AAPL")
        assert [one["strike"] for one in chain["calls"]] == [one["strike"] for one in chain["puts"]]
    assert len(chain["calls"]) > 5
    none: Any = document("/op/option", {"symbol": "600519"}, MADE)
    assert none["calls"] == []


def test_weeks_do_not_depend_on_the_first_day() -> None:
    whole = bars(MADE, "sh600519", beg="20240101", end="20240131", klt="102")
    cut = bars(MADE, "sh600519", beg="20240104", end="20240131", klt="102")
    assert cut.items() <= whole.items()


def test_what_lies_in_the_future_is_empty_and_an_index_has_one_level() -> None:
    assert bars(MADE, "sh600519", beg="20270101") == {}
    compiled = json.loads(
        PAYLOADS["hq.cnindex.com.cn", "/market/market/getIndexDailyDataWithDataFormat"](
            {"indexCode": "399006", "startDate": "2026-06-01", "endDate": "2026-06-30"},
            Luck("", MADE),
        ).body
    )["data"]["data"]
    assert compiled[0][1] == MADE.close("sz399006")


def test_a_long_range_of_yield_curves_is_cut_to_its_page() -> None:
    curves = PAYLOADS["www.chinamoney.com.cn", "/ags/ms/cm-u-bk-currency/ClsYldCurvHis"]
    asked = {"termId": "0.1", "startDate": "2005-01-04", "endDate": "2026-06-30", "pageSize": "50"}
    found = json.loads(curves(asked, Luck("", MADE)).body)
    assert (len(found["records"]), found["data"]["total"]) == (50, 50)
