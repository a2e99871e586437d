"""Ranges: which parameters bound one, and calls whose end is before their start."""

from typing import Any

import pytest

from manifests import ArgumentError, Catalog, Manifest, Signature
from manifests.ranges import ranges
from tests.support.tools import tool as tool_named


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        (
            "stock_zh_a_hist",
            {"start_date": "20240601", "end_date": "2024-05-01"},
            "end_date: '20240501' is before start_date '20240601', expected start_date <= end_date",
        ),
        (
            "stock_zh_a_hist_tx",
            {"symbol": "sz000001", "start_date": "2024-06-01", "end_date": "20240501"},
            "end_date: '2024-05-01' is before start_date '20240601'",
        ),
        (
            "bond_china_yield",
            {"start_date": "20240601"},
            "end_date: '20210124' (its default) is before start_date '20240601'",
        ),
        (
            "bond_china_yield",
            {"end_date": "20100601", "start_date": None},
            "end_date: '20100601' is before start_date '20200204' (its default)",
        ),
        (
            "fund_etf_hist_min_em",
            {"start_date": "2024-03-20 10:00", "end_date": "2024-03-20 09:59"},
            "end_date: '2024-03-20 09:59:00' is before start_date '2024-03-20 10:00:00'",
        ),
        ("stock_zh_ah_daily", {"start_year": "2022", "end_year": "2021"}, "end_year: '2021'"),
        ("amac_fund_info", {"start_page": "10", "end_page": "9"}, "end_page: '9' is before"),
        ("stock_zh_kcb_report_em", {"from_page": 10, "to_page": 9}, "to_page: 9 is before"),
        (
            "calendars_get_earning_calendar",
            {"is_from": 1661619600, "to": "2022-08-01"},
            "to: 1659398399 is before is_from 1661619600",
        ),
        (
            "stock_zh_a_hist_pre_min_em",
            {"start_time": "15:00:00", "end_time": "09:30"},
            "end_time: '09:30' is before start_time '15:00:00'",
        ),
        (
            "web_candles",
            {"start": "2020-05-18 00:00", "end": "2020-05-17 23:00"},
            "end: '2020-05-17 23:00' is before start '2020-05-18 00:00'",
        ),
        (
            "getpaymentinitiationinstructionsummary",
            {"creation_from_date": "2022-05-31", "creation_to_date": "2022-05-30"},
            "creation_to_date: '2022-05-30' is before creation_from_date '2022-05-31'",
        ),
    ],
)
def test_an_end_before_its_start_is_a_problem_that_names_both(
    catalog: Catalog, tool: str, arguments: dict[str, Any], told: str
) -> None:
    manifest = tool_named(catalog, tool)
    given = {**manifest.sample(), **arguments}
    with pytest.raises(ArgumentError) as caught:
        Signature(manifest).bind(given)
    assert told in str(caught.value)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("stock_zh_a_hist", {"start_date": "20240601", "end_date": "20240601"}),
        ("stock_zh_a_hist", {"start_date": "20240601"}),
        ("amac_fund_info", {"start_page": "9", "end_page": "10"}),
        ("web_candles", {"start": "2020-05-18 09:00", "end": "2020-05-18"}),
        ("web_candles", {"start": "last monday", "end": "2020-05-18"}),
        ("symbols_news", {"date_start": "2023-01-01", "date_end": "today"}),
        ("symbols_news", {"date_end": "2023-01-01"}),
        ("get_qhkc_index_profit_loss", {"start_date": "20240101"}),
        ("currency_exchange_rate", {"from_currency": "USD", "to_currency": "EUR"}),
        ("currencies_get_rate", {"fromcurrency": 189, "tocurrency": 12}),
        ("estimate_gas", {"is_from": "0x9", "to": "0x1"}),
    ],
)
def test_what_is_in_order_or_has_none_binds(
    catalog: Catalog, tool: str, arguments: dict[str, Any]
) -> None:
    manifest = tool_named(catalog, tool)
    assert Signature(manifest).bind({**manifest.sample(), **arguments})


def test_two_names_of_one_parameter_make_no_difference(catalog: Catalog) -> None:
    signature = Signature(tool_named(catalog, "stock_zh_a_hist"))
    with pytest.raises(ArgumentError, match="'20240501' is before start_date '20240601'"):
        signature.bind({"start": "20240601", "to": "20240501"})


def test_defaults_and_examples_of_every_tool_are_in_order(catalog: Catalog) -> None:
    paired = [manifest for manifest in catalog if Signature(manifest).ranges]
    assert len(paired) == 93
    for manifest in paired:
        for bounds in ranges(manifest.parameters):
            for field in ("default", "example"):
                told = {p.name: value for p, value in fields(manifest, field)}
                assert not bounds.is_reversed(told), manifest.name


def fields(manifest: Manifest, field: str) -> list[tuple[Any, Any]]:
    told = ((p, getattr(p, field)) for p in manifest.parameters)
    return [(p, value) for p, value in told if value is not None]
