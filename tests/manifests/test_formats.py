"""Every spelling in use of dates, codes, lists and values becomes the one that upstream wants."""

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import ArgumentError, Catalog, Scalar, Signature
from manifests.formats import FORMATS
from tests.support.tools import manifest
from tests.support.tools import tool as tool_named


def bind(format_: str, value: object, *, name: str = "p", example: str = "x") -> Scalar:
    parameter = {"name": name, "type": "string", "format": format_, "example": example}
    return Signature(manifest(parameter)).bind({name: value})[name]


DAYS = st.dates(date(1900, 1, 1), date(2100, 12, 31))


@given(DAYS, st.sampled_from(["yyyymmdd", "date"]))
def test_every_spelling_of_a_day_is_one_value(day: date, format_: str) -> None:
    spellings = [
        day.isoformat(),
        day.strftime("%Y%m%d"),
        day.strftime("%Y/%m/%d"),
        day.strftime("%Y.%m.%d"),
        f"{day.year}-{day.month}-{day.day}",
        f"{day.isoformat()}T09:30:00",
        f"{day.isoformat()} 23:59",
        f"{day.isoformat()}T12:00:00.5+08:00",
        int(day.strftime("%Y%m%d")),
    ]
    wanted = day.strftime("%Y%m%d") if format_ == "yyyymmdd" else day.isoformat()
    assert {bind(format_, spelling) for spelling in spellings} == {wanted}


@pytest.mark.parametrize(
    "text", ["2024-02-30", "2024-13-01", "20240131x", "2024-1", "31.01.2024", ""]
)
@pytest.mark.parametrize("format_", ["yyyymmdd", "date", "date-time", "unix-seconds"])
def test_what_is_no_day_is_refused(format_: str, text: str) -> None:
    with pytest.raises(ArgumentError, match="no date"):
        bind(format_, text)


@given(st.datetimes(datetime.fromisoformat("1990-01-01"), datetime.fromisoformat("2100-01-01")))
def test_times_go_out_in_the_form_of_the_example(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    for example, pattern in (
        ("2024-03-20 09:30:00", "%Y-%m-%d %H:%M:%S"),
        ("2023-05-01T00:00:00", "%Y-%m-%dT%H:%M:%S"),
        ("2020-05-18 00:00", "%Y-%m-%d %H:%M"),
    ):
        bound = bind("date-time", moment.isoformat(), example=example)
        assert bound == moment.strftime(pattern)
        assert bind("date-time", bound, example=example) == bound


def test_a_day_is_a_range_edge_where_the_name_says_which() -> None:
    example = "2024-03-20 09:30:00"
    start = bind("date-time", "2024-03-20", name="start_date", example=example)
    end = bind("date-time", "2024-03-20", name="end_date", example=example)
    assert (start, end) == ("2024-03-20 00:00:00", "2024-03-20 23:59:59")
    with pytest.raises(ArgumentError, match="has no time of day"):
        bind("date-time", "2024-03-20", name="at", example=example)
    with pytest.raises(ArgumentError, match="names a time zone"):
        bind("date-time", "2024-03-20T09:30:00Z", example=example)


@pytest.mark.parametrize(
    ("name", "value", "seconds"),
    [
        ("p", "1700000000", "1700000000"),
        ("since", "2024-01-31", "1706659200"),
        ("until", "2024-01-31", "1706745599"),
        ("p", "2024-01-31T00:00:00", "1706659200"),
        ("p", "2024-01-31T08:00:00+08:00", "1706659200"),
    ],
)
def test_unix_seconds_are_utc(name: str, value: str, seconds: str) -> None:
    assert bind("unix-seconds", value, name=name) == seconds


@pytest.mark.parametrize(
    ("format_", "value", "bound"),
    [
        ("yyyymm", "2024-01", "202401"),
        ("yyyymm", "2024/1", "202401"),
        ("yyyymm", 202401, "202401"),
        ("yyyy", 2024, "2024"),
        ("hk-code", "700", "00700"),
        ("hk-code", "0700.HK", "00700"),
        ("hk-code", "hk00700", "00700"),
        ("us-code", "106.brk_a", "106.BRK_A"),
        ("fund-code", "sh510300", "510300"),
        ("fund-code", "510300.SH", "510300"),
        ("fund-code", "000001", "000001"),
        ("exchange-prefixed", "510050.SH", "sh510050"),
        ("exchange-prefixed", "SH510050", "sh510050"),
        ("csv", ["AAPL", "MSFT "], "AAPL,MSFT"),
        ("csv", "AAPL, MSFT", "AAPL,MSFT"),
        ("csv", "AAPL", "AAPL"),
        ("hk-code", "００７００", "00700"),
        ("a-share-code", " 600000 ", "600000"),
        ("csv", "AAPL，MSFT", "AAPL,MSFT"),
        ("currency-code", "usd", "USD"),
    ],
)
def test_other_formats(format_: str, value: object, bound: str) -> None:
    assert bind(format_, value, example="X") == bound
    assert bind(format_, bound, example="X") == bound


@pytest.mark.parametrize(
    ("format_", "value"),
    [
        ("yyyymm", "2024-13"),
        ("yyyymm", "2024-01-31"),
        ("yyyy", "24"),
        ("hk-code", "AAPL"),
        ("hk-code", "000700"),
        ("us-code", "AAPL"),
        ("fund-code", "51030"),
        ("exchange-prefixed", "000001"),
        ("a-share-code", "sh000001"),
        ("a-share-code", "60000"),
        ("a-share-code", "sh600000.SH"),
        ("a-share-prefixed", "510300"),
        ("csv", [["a"]]),
        ("date", "0001-01-01"),
        ("currency-code", "us dollars"),
        ("country-code", ""),
    ],
)
def test_what_would_need_a_guess_is_refused(format_: str, value: object) -> None:
    with pytest.raises(ArgumentError):
        bind(format_, value)


CODES = st.sampled_from(["600000", "688981", "000001", "002594", "300750", "430047", "920002"])


@given(CODES)
def test_every_spelling_of_a_stock_code_is_the_form_the_tool_wants(code: str) -> None:
    exchange = {"6": "sh", "0": "sz", "3": "sz"}.get(code[0], "bj")
    spellings = {
        code,
        f"{exchange}{code}",
        f"{exchange.upper()}{code}",
        f"{exchange}.{code}",
        f"{code}.{exchange.upper()}",
    }
    for format_, wanted in (
        ("a-share-code", code),
        ("a-share-prefixed", f"{exchange}{code}"),
        ("a-share-suffixed", f"{code}.{exchange.upper()}"),
    ):
        assert {bind(format_, spelling) for spelling in spellings} == {wanted}


@pytest.mark.parametrize(
    ("enum", "value", "bound"),
    [
        (["daily", "weekly"], "Daily", "daily"),
        (["daily", "weekly"], "周线", "weekly"),
        (["", "qfq", "hfq"], "前复权", "qfq"),
        (["", "qfq", "hfq"], "none", ""),
        (["月度数据", "年度数据"], "annual", "年度数据"),
        (["按报告期", "按年度"], "yearly", "按年度"),
        (["资产负债表", "利润表"], "balance sheet", "资产负债表"),
    ],
)
def test_allowed_values_match_without_case_and_by_synonym(
    enum: list[str], value: str, bound: str
) -> None:
    signature = Signature(manifest({"name": "p", "type": "string", "enum": enum}))
    assert signature.bind({"p": value}) == {"p": bound}
    with pytest.raises(ArgumentError, match="is not allowed, expected string, one of"):
        signature.bind({"p": "something else"})


@pytest.mark.parametrize(
    ("enum", "value"),
    [
        (["3-6个月", "1-3年"], "36个月"),
        (["1m", "1d"], "1M"),
        (["SH", "SR"], "上海"),
        (["沪市主板", "科创板"], "沪市"),
        (["", "年报"], "unadjusted"),
        (["全部", "股票型"], "全部股票"),
        (["月", "月度"], "monthly"),
        (["a"], "x" * 2**20),
    ],
)
def test_what_only_looks_alike_is_refused(enum: list[str], value: str) -> None:
    signature = Signature(manifest({"name": "p", "type": "string", "enum": enum}))
    with pytest.raises(ArgumentError, match="not allowed"):
        signature.bind({"p": value})


def test_null_under_its_own_name_leaves_room_for_another_name(catalog: Catalog) -> None:
    tool = tool_named(catalog, "stock_zh_a_hist")
    bound = Signature(tool).bind({"symbol": None, "code": "600000"})
    assert bound["symbol"] == "600000"


@pytest.mark.parametrize(
    ("tool", "given_", "aliases"),
    [
        ("stock_zh_a_hist", {"ticker": "600000"}, {"ticker": "symbol"}),
        (
            "stock_zh_a_hist",
            {"symbol": "600000", "startDate": "20240101"},
            {"startDate": "start_date"},
        ),
        ("stock_zh_a_hist", {"symbol": "600000", "from": "20240101"}, {"from": "start_date"}),
        ("stock_v2_get_dividends", {"performanceId": "x"}, {"performanceId": "performanceid"}),
        ("market_get_full", {"id": "aapl:us"}, {"id": "is_id"}),
        ("get_coin", {"UUID": "x"}, {"UUID": "uuid"}),
    ],
)
def test_a_unique_other_name_is_mapped_and_reported(
    catalog: Catalog, tool: str, given_: dict[str, Any], aliases: dict[str, str]
) -> None:
    found = tool_named(catalog, tool)
    signature = Signature(found)
    assert signature.aliases(given_) == aliases
    named = {aliases.get(name, name): value for name, value in given_.items()}
    assert signature.bind(given_) == signature.bind(named)


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("currency_convert", "end_date"),
        ("estimate_gas", "until"),
        ("bank_fjcf_table_detail", "start_date"),
        ("futures_zh_spot", "exchange"),
    ],
)
def test_a_name_of_a_date_means_no_currency_and_no_page(
    catalog: Catalog, tool: str, name: str
) -> None:
    found = tool_named(catalog, tool)
    assert Signature(found).aliases({name: "x"}) == {}


@pytest.mark.parametrize(
    "given_", [{"symbol": "600000", "ticker": "600001"}, {"ticker": "1", "code": "2"}, {"foo": 1}]
)
def test_an_ambiguous_or_unknown_name_is_refused(catalog: Catalog, given_: dict[str, Any]) -> None:
    tool = tool_named(catalog, "stock_zh_a_hist")
    with pytest.raises(ArgumentError, match="is no argument of this tool, allowed: symbol"):
        Signature(tool).bind(given_)


def test_every_example_of_the_catalogue_binds_and_stays(catalog: Catalog) -> None:
    for tool in catalog:
        examples = {
            p.name: p.example
            for p in tool.parameters
            if p.example is not None and p.filled_by == "agent" and p.withdrawn is None
        }
        bound = Signature(tool).bind(examples)
        assert Signature(tool).bind(bound) == bound, tool.name


def test_every_format_in_use_is_known(catalog: Catalog) -> None:
    used = {p.format for tool in catalog for p in tool.parameters} - {None}
    assert used - set(FORMATS) <= {"futures-contract", "url"}


def test_two_spellings_of_one_call_are_equal(catalog: Catalog) -> None:
    tool = tool_named(catalog, "stock_zh_a_hist")
    day = date(2024, 1, 31)
    one = {"symbol": "sh600000", "period": "WEEKLY", "start_date": day.isoformat()}
    two = {
        "start": int(day.strftime("%Y%m%d")),
        "period": "周线",
        "ticker": "600000.SH",
        "end_date": "20500101",
    }
    bound = Signature(tool).bind(one)
    assert Signature(tool).bind(two) == bound
    assert bound["start_date"] == "20240131"
