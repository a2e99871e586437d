"""Which columns of a table a question names: by name, by meaning, by a synonym in two languages."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import fsum

from gateway.compress.numerals import in_digits
from gateway.compress.question import Question
from gateway.compress.words import STOP, places, words_of

_SYNONYMS = tuple(
    tuple(line.split("|"))
    for line in (
        "close|closing price|close price|closing level|closed at|settled at|收盘价|收盘|收盘价格",
        "open|opening price|open price|opening level|opened at|开盘价|开盘|开盘价格",
        "high|highest price|high price|intraday high|day's high|最高价|最高",
        "low|lowest price|low price|intraday low|day's low|最低价|最低",
        "price|prices|latest price|last price|trading at|quote|最新价|现价|价格|当前价",
        "volume|trading volume|traded volume|shares traded|成交量|总手|交易量|成交数量",
        "amount|turnover value|trading value|value traded|turnover|成交额|成交金额|交易额|交易金额",
        "turnover rate|turnover ratio|换手率|换手",
        "change percent|percent change|pct change|change pct|percentage change|pct chg|chg pct|"
        "change %|% change|change in percent|daily return|涨跌幅|涨幅|跌幅|涨跌百分比",
        "change|price change|change in price|涨跌额|涨跌|价格变动|变动额",
        "amplitude|price range|振幅",
        "previous close|prev close|prior close|previous closing price|prior closing price|"
        "yesterday's close|昨收|昨收价|昨日收盘价|昨日收盘|前收盘|前收盘价|前一日收盘价",
        "name|company name|short name|名称|简称|股票名称|证券简称|股票简称|公司名称",
        "code|symbol|ticker|stock code|代码|股票代码|证券代码",
        "market cap|market capitalization|market capitalisation|market value|总市值|市值",
        "pe ratio|pe|price to earnings|p/e|市盈率",
        "pb ratio|pb|price to book|p/b|市净率",
        "dividend yield|股息率",
        "dividend|dividends|payout|分红|股息|派息",
        "net value|net asset value|nav|单位净值|净值",
        "accumulated net value|cumulative nav|累计净值",
        "rate|interest rate|利率",
        "yield|收益率",
        "revenue|sales|operating revenue|营业收入|营收|营业总收入",
        "net profit|net income|earnings|净利润",
        "eps|earnings per share|每股收益",
        "actual|actual value|current value|今值|现值|实际值",
        "forecast|expected|consensus|预测值|预期|预期值",
        "previous|previous value|prior|prior value|前值",
        "yoy|year on year|year over year|annual growth|同比|同比增长",
        "mom|month on month|month over month|环比|环比增长",
        "country|nation|国家|地区",
        "industry|sector|行业|板块",
        "rank|ranking|排名|序号",
        "ps ratio|ps|price to sales|p/s|p/s ratio|市销率",
        "pcf ratio|pcf|price to cash flow|p/cf|市现率",
        "roe|return on equity|净资产收益率",
        "roa|return on assets|总资产收益率",
        "gross margin|gross profit margin|毛利率",
        "net margin|net profit margin|净利率|销售净利率",
        "total assets|assets|总资产|资产总计",
        "total liabilities|liabilities|总负债|负债合计",
        "operating profit|operating income|营业利润",
        "float market cap|free float market cap|流通市值",
        "total shares|shares outstanding|总股本",
        "weight|weighting|share of portfolio|权重|占比",
        "maturity|maturity date|到期日",
        "bid|bid price|买入价|买价|买一",
        "ask|ask price|offer price|卖出价|卖价|卖一",
        "manager|fund manager|基金经理",
        "rating|评级",
        "target price|price target|目标价",
        "holdings|shares held|持股数|持股数量|持仓",
        "founded|founding year|year founded|成立年份|成立时间",
        "employees|number of employees|headcount|staff|员工数|员工人数",
    )
)
_GROUPS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    name: tuple(group for group in _SYNONYMS if name in group)
    for group in _SYNONYMS
    for name in group
}
_AVERAGE = re.compile(
    r"(?:ma|sma)[ _-]?(\d+)|(\d+)[- ]?日(?:移动)?(?:均线|平均)(?:值|价)?"
    r"|(\d+)-day (?:simple )?(?:moving )?average"
)
_AVERAGES = (
    *("ma{0}", "ma {0}", "{0}日均线", "{0}日移动平均", "{0}日平均", "{0}天均线"),
    *("{0}-day moving average", "{0}-day average", "{0}-day ma", "{0}-day mean"),
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|[_\-./]+")
_CODES = {"code", "symbol", "ticker", "id", "uuid", "isin", "cusip", "sedol", "figi", "lei", "cik"}
_CODE_ENDS = ("secid", "代码", "编号", "编码", "代号", "序号")
_UNIT = re.compile(r"[(（\[:：]")
_STOP = STOP | {"value", "values", "record", "records", "number", "data", "数据"}

MOST = 5_000
"""The most columns, or fields of a document, that are compared with a question."""

OCCURRENCES, FOUND = 4, 300
"""How often the same name is found in a question, and the most names that are compared with one
another.
"""

ALIKE, WHOLE = 0.3, 0.5
"""The least share of its words by which a column is alike to a question, and the sureness of one
that shares all of them.
"""

SURE = 0.6
"""The least sureness of a column that is certainly meant."""


@dataclass(frozen=True, slots=True)
class Named:
    """A column that a question names, from where to where it does, and how surely, from 0 to 1."""

    column: str
    place: int
    end: int
    sureness: float


def named_columns(
    question: Question, columns: Sequence[str], meanings: Mapping[str, str]
) -> list[Named]:
    """The columns that a question names, the surest first. Where it asks for what is highest, for a
    fall or by a comparison without a name, that of prices or changes is meant.
    """
    columns = columns[:MOST]
    every = (one for column in columns for one in _named(question.text, column, meanings))
    best: dict[str, Named] = {}
    for one in sorted(_longest([*islice(every, FOUND)], question), key=lambda one: -one.sureness):
        best.setdefault(one.column, one)
    if best:
        return [*best.values()]
    alike = _alike(question.text, columns, meanings)
    if alike and alike[0].sureness >= WHOLE:
        return alike
    kind = "change percent" if question.of_falls else "close"
    asked = [*(e.place for e in question.extremes), *(c.place for c in question.comparisons)][:1]
    usual = [name for name in columns if kind in _spellings(*_labels(name, meanings))][:1]
    return [Named(name, place, place, SURE) for name in usual for place in asked] or alike


def is_code(name: str) -> bool:
    """Whether a column is named like one of codes, whose numbers measure nothing."""
    words = _CAMEL.sub(" ", name).lower().split()
    return bool(words) and (words[-1] in _CODES or name.endswith(_CODE_ENDS))


def sure(named: Sequence[Named]) -> list[Named]:
    """Those that are sure enough; without such ones the surest."""
    least = min(SURE, max((one.sureness for one in named), default=0.0))
    return [one for one in named if one.sureness >= least]


def _labels(column: str, meanings: Mapping[str, str]) -> tuple[str, str]:
    """A column's name and meaning in plain words."""
    plain = in_digits(_CAMEL.sub(" ", column).lower().strip())
    return plain, meanings.get(column, "").lower()


def _named(question: str, column: str, meanings: Mapping[str, str]) -> Iterator[Named]:
    plain, meaning = _labels(column, meanings)
    labels = {name: 1.0 for name in (column.lower().strip(), plain) if len(name) > 1}
    labels.setdefault(meaning, 0.95)
    for spelling in _spellings(plain, meaning):
        labels.setdefault(spelling, SURE + min(len(spelling.encode()), 24) / 100)
    for label, sureness in labels.items():
        for start, end in islice(places(question, label), OCCURRENCES):
            yield Named(column, start, end, sureness)


def _longest(found: Sequence[Named], question: Question) -> list[Named]:
    """Without names that are a part of another column's name in the question ("close" in "previous
    close"), and without `highest` and the like where other columns are named.
    """
    kept = [
        one
        for one in found
        if not any(
            other.place <= one.place
            and one.end <= other.end
            and (other.end - other.place, other.sureness) > (one.end - one.place, one.sureness)
            and other.column != one.column
            for other in found
        )
    ]
    plain = [
        one
        for one in kept
        if not any(e.place <= one.place and one.end <= e.end for e in question.extremes)
    ]
    return plain or kept


def _alike(question: str, columns: Sequence[str], meanings: Mapping[str, str]) -> list[Named]:
    """The columns that share words with the question; a word of few columns counts most."""
    labels = [
        (column, {*words_of(label)} - _STOP)
        for column in columns
        for label in (_CAMEL.sub(" ", column), meanings.get(column, ""))
        if label
    ]
    spread = Counter(word for _, label in labels for word in label)
    asked = {*words_of(question)}
    best: dict[str, float] = {}
    for column, label in labels:
        # `fsum`, since the order of a set, and so a plain sum, differs between processes.
        whole = fsum(1 / spread[word] for word in label)
        there = fsum(1 / spread[word] for word in label & asked)
        share = there / whole if whole else 0.0
        if share >= ALIKE:
            best[column] = max(share, best.get(column, 0.0))
    found = [Named(column, 0, 0, share / 2) for column, share in best.items()]
    return sorted(found, key=lambda one: -one.sureness)


@lru_cache(4_096)
def _spellings(*labels: str) -> tuple[str, ...]:
    """All synonyms of a label, which may have a unit behind it."""
    plain = {*labels, *(_UNIT.split(label)[0].strip() for label in labels)} - {""}
    found = {one: 1 for label in sorted(plain) for group in _GROUPS.get(label, ()) for one in group}
    for label in sorted(plain):
        if average := _AVERAGE.fullmatch(label):
            days = next(filter(None, average.groups()))
            found |= {form.format(days): 1 for form in _AVERAGES}
    return tuple(found)
