"""Which columns of a table a question names: by name, by meaning, by a synonym in two languages."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gateway.compress.words import STOP

_SYNONYMS = tuple(
    tuple(line.split("|"))
    for line in (
        "close|closing price|closed at|settled at|收盘价|收盘",
        "open|opening price|opened at|开盘价|开盘",
        "high|highest price|intraday high|day's high|最高价|最高",
        "low|lowest price|intraday low|day's low|最低价|最低",
        "price|latest price|last price|trading at|quote|最新价|现价|价格|当前价",
        "adjusted close|adj close|adjusted closing price|复权收盘价",
        "volume|trading volume|shares traded|成交量|总手",
        "amount|turnover value|trading value|value traded|成交额|成交金额",
        "turnover rate|turnover ratio|换手率|换手",
        "change percent|percent change|pct change|percentage change|pct chg|涨跌幅|涨幅|跌幅",
        "change|price change|涨跌额|涨跌",
        "amplitude|振幅",
        "previous close|prev close|昨收",
        "name|company name|short name|名称|简称|股票名称|证券简称",
        "code|symbol|ticker|代码|股票代码|证券代码",
        "date|day|日期|时间|交易日",
        "market cap|market capitalization|market capitalisation|总市值|市值",
        "pe ratio|price to earnings|p/e|市盈率",
        "pb ratio|price to book|p/b|市净率",
        "dividend yield|股息率",
        "dividend|dividends|payout|分红|股息|派息",
        "net value|net asset value|nav|单位净值|净值",
        "accumulated net value|cumulative nav|累计净值",
        "rate|interest rate|利率",
        "yield|收益率",
        "revenue|sales|营业收入|营收|营业总收入",
        "net profit|net income|earnings|净利润",
        "eps|earnings per share|每股收益",
        "actual|actual value|current value|今值|现值|实际值",
        "forecast|expected|consensus|预测值|预期",
        "previous|previous value|prior|前值",
        "yoy|year on year|year over year|annual growth|同比|同比增长",
        "mom|month on month|month over month|环比|环比增长",
        "country|nation|国家|地区",
        "industry|sector|行业|板块",
        "rank|ranking|排名|序号",
        "holdings|shares held|持股数|持股数量|持仓",
    )
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|[_\-./]+")
_UNIT = re.compile(r"[(（\[:：]")
_WORD = re.compile(r"[a-z][a-z0-9]*|[\u4e00-\u9fff]+")


_STOP = STOP | {"value", "values", "record", "records", "number"}

MOST = 5_000
"""The most columns, or fields of a document, that are compared with a question."""


SURE = 0.6
"""The least sureness of a column that is certainly meant."""


@dataclass(frozen=True, slots=True)
class Named:
    """A column that a question names, where it names it, and how surely, from 0 to 1."""

    column: str
    place: int
    sureness: float


def named_columns(
    question: str, columns: Sequence[str], meanings: Mapping[str, str]
) -> list[Named]:
    """The columns that a question in lower case names, the surest first."""
    found = [_named(question, column, meanings.get(column, "")) for column in columns[:MOST]]
    named = [one for one in found if one is not None]
    return sorted(named, key=lambda one: -one.sureness)


def sure(named: Sequence[Named]) -> list[Named]:
    """Those that are sure enough; without such ones the surest."""
    least = min(SURE, max((one.sureness for one in named), default=0.0))
    return [one for one in named if one.sureness >= least]


def _named(question: str, column: str, meaning: str) -> Named | None:
    plain = _CAMEL.sub(" ", column).lower().strip()
    if (place := _find(question, plain)) >= 0 and len(plain) > 1:
        return Named(column, place, 1.0)
    if meaning and (place := _find(question, meaning.lower())) >= 0:
        return Named(column, place, 0.95)
    best: Named | None = None
    for spelling in _spellings(plain, meaning.lower()):
        place = _find(question, spelling)
        sureness = 0.6 + min(len(spelling.encode()), 24) / 100
        if place >= 0 and (best is None or sureness > best.sureness):
            best = Named(column, place, sureness)
    if best is not None:
        return best
    words = [word for word in _WORD.findall(f"{plain} {meaning.lower()}") if word not in _STOP]
    there = [place for word in dict.fromkeys(words) if (place := _find(question, word)) >= 0]
    share = len(there) / len({*words}) if words else 0.0
    return Named(column, there[0], share / 2) if share >= 0.5 else None


@lru_cache(4_096)
def _spellings(*labels: str) -> tuple[str, ...]:
    """All synonyms of a label, which may have a unit behind it."""
    plain = {*labels, *(_UNIT.split(label)[0].strip() for label in labels)} - {""}
    return tuple(one for group in _SYNONYMS if not plain.isdisjoint(group) for one in group)


def _find(text: str, word: str) -> int:
    """Where a text has a word; words of letters are not found inside others."""
    if not word or word not in text:
        return -1
    if not word.isascii():
        return text.find(word)
    found = _pattern(word).search(text)
    return found.start() if found else -1


@lru_cache(4_096)
def _pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z0-9]){re.escape(word)}(?:s|es)?(?![a-z0-9])")
