"""Wrong calls and the message that each gets, word for word."""

import math
from typing import Any

import pytest

from manifests import ArgumentError, Catalog, Signature
from tests.support.tools import tool as tool_named

WRONG_CALLS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "stock_zh_a_hist": [
        (
            {},
            "symbol: is missing (it names the instrument, so it has no default), expected A-share code, such as 600000 (the sample is '000001')",
        ),
        (
            {"symbol": "sh000001"},
            "symbol: 'sh000001' is no mainland stock, expected A-share code, such as 600000",
        ),
        (
            {"symbol": "AAPL"},
            "symbol: 'AAPL' is no code of six digits, expected A-share code, such as 600000",
        ),
        ({"symbol": ["600519"]}, "symbol: is an array, expected A-share code, such as 600000"),
        (
            {"symbol": "600519", "start_date": "31.01.2024"},
            "start_date: '31.01.2024' is no date, expected date, such as 2024-01-31 or 20240131",
        ),
        (
            {"symbol": "600519", "end_date": True},
            "end_date: is a boolean, expected date, such as 2024-01-31 or 20240131",
        ),
        (
            {"symbol": "600519", "period": "hourly"},
            "period: 'hourly' is not allowed, expected string, one of 'daily', 'weekly', 'monthly'",
        ),
        (
            {"symbol": "600519", "adjust": 1},
            "adjust: 1 is not allowed, expected string, one of 'qfq', 'hfq', ''",
        ),
        ({"symbol": "600519", "timeout": 3}, "timeout: is set by the gateway, leave it out"),
        (
            {"symbol": "600519", "code": "600000"},
            "code: is no argument of this tool, allowed: symbol, period, start_date, end_date, adjust",
        ),
    ],
    "stock_hk_hist": [
        (
            {"symbol": "TENCENT"},
            "symbol: 'TENCENT' is no Hong Kong stock code, expected Hong Kong stock code, such as 00700",
        ),
    ],
    "stock_zh_index_daily": [
        (
            {"symbol": "000001"},
            "symbol: '000001' does not say which exchange, expected code with its exchange, such as sh510050",
        ),
    ],
    "stock_szse_area_summary": [
        (
            {"date": "2024-01-31"},
            "date: '2024-01-31' is no month, expected month, such as 2024-01 or 202401",
        ),
    ],
    "fund_etf_hist_min_em": [
        (
            {"symbol": "511220", "start_date": "2024-03-20T09:30:00Z"},
            "start_date: '2024-03-20T09:30:00Z' names a time zone, but upstream uses its own, expected date and time, such as 2024-01-31 09:30:00",
        ),
    ],
    "macro_china_nbs_nation": [
        ({"kind": "年度数据"}, "path: is missing, expected string"),
    ],
    "get_coin": [
        ({"uuid": ""}, "uuid: '' is no path segment, expected string"),
        ({"uuid": {"id": 1}}, "uuid: is an object, expected string"),
    ],
    "v1_mortgagecalculator": [
        ({"interest_rate": "five"}, "interest_rate: 'five' is no number, expected number"),
        ({"interest_rate": math.nan}, "interest_rate: nan is no finite number, expected number"),
        (
            {"interest_rate": 1152921504606846976},
            "interest_rate: 1152921504606846976 is beyond 2^53 - 1, expected number",
        ),
    ],
    "get_latest_price": [
        ({"info": "yes"}, "info: 'yes' is no boolean, expected boolean"),
    ],
    "futures_spot_price": [
        (
            {"vars_list": "CU"},
            "vars_list: is no longer taken by the upstream, it takes a list, which no scalar argument can be; all products are given",
        ),
    ],
    "index_detail_hist_cni": [
        (
            {"symbol": "399001", "date": "202404"},
            "date: is no longer taken by the upstream, AkShare 1.19.5 no longer takes it",
        ),
    ],
}


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [(tool, *call) for tool, calls in WRONG_CALLS.items() for call in calls],
)
def test_a_wrong_call_is_told_what_would_be_right(
    catalog: Catalog, tool: str, arguments: dict[str, Any], message: str
) -> None:
    manifest = tool_named(catalog, tool)
    with pytest.raises(ArgumentError) as caught:
        Signature(manifest).bind(arguments)
    assert str(caught.value) == message
