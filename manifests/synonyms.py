"""Synonyms of allowed values and of parameter names, in one readable table each.

A caller's value maps to an allowed value if both are in the same group, and that group has no
other allowed value. Names mean parameters by the same rule.
"""

import re
from collections.abc import Collection

LONGEST = 64
"""The most characters of a value or name that is looked up as a synonym."""

_BETWEEN_NUMBERS = re.compile(r"(?<=\d)\W+(?=\d)")
_NUMBER_AND_UNIT = re.compile(r"\d+[mM]")

VALUES: tuple[tuple[str, ...], ...] = (
    ("daily", "day", "d", "日", "日线", "日频", "每日"),
    ("weekly", "week", "w", "周", "周线", "每周"),
    ("monthly", "month", "m", "月", "月线", "每月", "月度", "月度数据"),
    ("quarterly", "quarter", "q", "季", "季度", "按季度", "季度数据"),
    ("yearly", "annual", "annually", "year", "y", "年", "年度", "按年度", "年度数据", "年报"),
    ("qfq", "forward", "forward adjusted", "前复权"),
    ("hfq", "backward", "backward adjusted", "后复权"),
    ("", "none", "unadjusted", "不复权"),
    ("asc", "ascending", "升序"),
    ("desc", "descending", "降序"),
    ("call", "看涨期权", "认购", "认购期权"),
    ("put", "看跌期权", "认沽", "认沽期权"),
    ("balance sheet", "balance-sheet", "资产负债表"),
    ("income statement", "income-statement", "profit", "利润表"),
    ("cash flow statement", "cash-flow-statement", "cash flow", "现金流量表"),
    ("all", "全部"),
    ("shanghai", "上海", "沪市", "上证"),
    ("shenzhen", "深圳", "深市", "深证"),
    ("beijing", "北京", "北交所", "京市"),
    ("hong kong", "hk", "hkex", "香港", "港股"),
    ("us", "usa", "united states", "美国", "美股"),
    ("china", "cn", "中国"),
    ("buy", "买入", "买盘"),
    ("sell", "卖出", "卖盘"),
    ("treasury", "government bond", "国债"),
    ("futures", "期货"),
    ("options", "期权"),
    ("stock", "stocks", "股票"),
    ("fund", "funds", "基金"),
    ("index", "指数"),
    ("bond", "bonds", "债券"),
    ("industry", "sector", "行业"),
    ("concept", "概念"),
    ("region", "地域", "地区"),
    ("today", "今日", "当日"),
    ("3 days", "3日", "近3日"),
    ("5 days", "5日", "近5日"),
    ("10 days", "10日", "近10日"),
    ("20 days", "20日", "近20日"),
    ("1 month", "近一月", "近1月"),
    ("3 months", "近三月", "近3月"),
    ("6 months", "近六月", "近6月"),
    ("1 year", "近一年", "近1年"),
    ("3 years", "近三年", "近3年"),
    ("5 years", "近五年", "近5年"),
)

NAMES: tuple[tuple[str, ...], ...] = (
    (
        *("symbol", "ticker", "code", "stock", "stock_code", "ts_code"),
        *("security", "symbols", "tickers"),
    ),
    ("period", "interval", "frequency", "freq"),
    ("adjust", "adjustment", "adj"),
    ("page", "page_number", "page_index"),
    ("limit", "size", "page_size", "count", "per_page"),
    ("indicator", "metric"),
    ("base", "base_currency"),
    ("quote", "quote_currency"),
    ("query", "q", "keyword", "search"),
)

DATE_NAMES: tuple[tuple[str, ...], ...] = (
    ("start_date", "start", "begin", "begin_date", "from", "from_date", "date_from", "since"),
    ("end_date", "end", "to", "to_date", "date_to", "until"),
    ("date", "trade_date"),
)
"""These apply to date parameters only: `to` may also be a currency, and `begin` a page."""


def fold(text: str) -> str:
    """The text without case and without marks between words. Marks between numbers count (1-3 is
    not 13), and so does the case of a single unit (1M is a month, 1m a minute).
    """
    if _NUMBER_AND_UNIT.fullmatch(text):
        return text
    marked = _BETWEEN_NUMBERS.sub("|", text.casefold())
    return "".join(c for c in marked if c.isalnum() or c == "|")


def _groups(table: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    return {_key(word): number for number, group in enumerate(table) for word in group}


def _key(word: str) -> str:
    return fold(word) or word


_VALUE_GROUPS = _groups(VALUES)
_NAME_GROUPS = _groups(NAMES)
_DATE_NAME_GROUPS = _groups(DATE_NAMES)


def meant_value(text: str, allowed: tuple[str, ...]) -> str | None:
    """The one of `allowed` that `text` means, or None."""
    meant = _meant(text, allowed, _VALUE_GROUPS)
    is_adjustment = "qfq" in allowed or text == ""
    return None if meant == "" and not is_adjustment else meant


def meant_name(name: str, names: Collection[str], dates: Collection[str]) -> str | None:
    """The one of the parameter names `names` that `name` means, or None. `dates` are the names of
    date parameters.
    """
    return _meant(name, names, _NAME_GROUPS) or _meant(name, dates, _DATE_NAME_GROUPS)


def _meant(text: str, allowed: Collection[str], groups: dict[str, int]) -> str | None:
    if text in allowed:
        return text
    if len(text) > LONGEST:
        return None
    key = _key(text)
    same = [a for a in allowed if _key(a) == key]
    if not same:
        group = groups.get(key)
        same = [a for a in allowed if group is not None and groups.get(_key(a)) == group]
    return same[0] if len(same) == 1 else None
