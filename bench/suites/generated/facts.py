"""Facts of the simulated market, and the tools that answer them.

A fact is a series by day of a subject: the closing prices of a share, the yields of a term. It is
read from the world, or from the answer of a tool as `views.toml` says; both must agree.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from adapters.simulator.world.calendar import Exchange, between
from adapters.simulator.world.companies import statements
from adapters.simulator.world.economy import money, yields
from adapters.simulator.world.instruments import LISTED
from adapters.simulator.world.world import World
from bench.suites.generated.program import Leaf, Series, Unknown
from manifests import Catalog

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Subject:
    """What facts are about. `names` are by language; `aliases` are further texts by which people
    name it; `fields` are what arguments of tools are made of.
    """

    key: str
    kind: str
    exchange: Exchange
    names: Mapping[str, str]
    code: str
    aliases: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """How a tool answers facts; see the head of `views.toml`."""

    tool: str
    subjects: tuple[str, ...]
    arguments: Mapping[str, str]
    facts: Mapping[str, str]
    day: str = ""
    rows: str = ""
    reach: int = 0
    refuses: bool = False
    yearly: bool = False
    scales: Mapping[str, float] = field(default_factory=dict)

    def call(self, leaf: Leaf) -> dict[str, str]:
        """The arguments of the call that answers a fact."""
        subject = subjects()[leaf.subject]
        given: dict[str, str | date] = {
            "key": subject.key,
            "code": subject.code,
            "first": leaf.first,
            "last": leaf.last,
        }
        return {
            name: text.format(**given, **subject.fields) for name, text in self.arguments.items()
        }

    def read(self, leaf: Leaf, answer: bytes) -> Series:
        """The fact in an answer. Raises `AnswerError` for an answer without it."""
        subject = subjects()[leaf.subject]
        column = self.facts[leaf.fact].format(code=subject.code, **subject.fields)
        scale, found = self.scales.get(leaf.fact, 1.0), Series()
        try:
            rows = orjson.loads(answer)
            rows = rows[self.rows] if self.rows else rows
            for row in rows if isinstance(rows, list) else [rows]:
                day = _day(row[self.day]) if self.day else leaf.last
                if self.yearly and (day.month, day.day) != (12, 31):
                    continue
                if leaf.first <= day <= leaf.last and row[column] is not None:
                    found.append((day, float(row[column]) * scale))
        except (KeyError, TypeError, ValueError) as error:
            raise AnswerError(f"{self.tool} does not answer {leaf.text}: {error!r}") from error
        return sorted(found)


class AnswerError(Exception):
    """An answer of a tool does not hold the fact that it was asked for."""


def _day(text: object) -> date:
    """A day written as 2024-01-31, 20240131, at the start of a time, or as a year, whose last day
    it is.
    """
    written = str(text)[:10]
    return date.fromisoformat(f"{written}-12-31" if len(written) == 4 else written)


# --- subjects ------------------------------------------------------------------------------------

_ENGLISH: Final = """
600519 Kweichow Moutai;601398 ICBC;600036 China Merchants Bank;601318 Ping An Insurance
600900 China Yangtze Power;601857 PetroChina;600028 Sinopec;601288 Agricultural Bank of China
601988 Bank of China;600276 Hengrui Pharma;600030 CITIC Securities;601012 LONGi Green Energy
600887 Yili;603259 WuXi AppTec;600809 Shanxi Fenjiu;601888 China Tourism Group Duty Free
600309 Wanhua Chemical;601166 Industrial Bank;600000 SPD Bank;601668 China State Construction
601899 Zijin Mining;600031 Sany Heavy Industry;688981 SMIC;688111 Kingsoft Office
000001 Ping An Bank;000002 Vanke;000333 Midea Group;000651 Gree Electric;000858 Wuliangye
000725 BOE Technology;002415 Hikvision;002594 BYD;002475 Luxshare;002714 Muyuan Foods
000568 Luzhou Laojiao;002304 Yanghe Brewery;300750 CATL;300059 East Money;300760 Mindray
300015 Aier Eye Hospital;300274 Sungrow;002230 iFlytek;000063 ZTE;002352 SF Holding
00700 Tencent;09988 Alibaba;03690 Meituan;00941 China Mobile;00005 HSBC;00388 HKEX;01299 AIA
00939 China Construction Bank;01810 Xiaomi;00883 CNOOC
000001.sh SSE Composite Index;000016 SSE 50 Index;000300 CSI 300 Index;000905 CSI 500 Index
000688 STAR 50 Index;399001 SZSE Component Index;399006 ChiNext Index
"""
_CHINESE: Final = """
AAPL 苹果;MSFT 微软;GOOGL 谷歌;AMZN 亚马逊;NVDA 英伟达;META Meta;TSLA 特斯拉;JPM 摩根大通;V Visa
KO 可口可乐;JNJ 强生;WMT 沃尔玛;IBM IBM;PG 宝洁;XOM 埃克森美孚;NFLX 奈飞;AMD AMD;INTC 英特尔
DIS 迪士尼;BA 波音
"""
_NASDAQ: Final = "AAPL MSFT GOOGL AMZN NVDA META TSLA NFLX AMD INTC"
_ETFS: Final = """
510300 沪深300ETF CSI 300 ETF;510500 中证500ETF CSI 500 ETF;159915 创业板ETF ChiNext ETF
512880 证券ETF Securities ETF;588000 科创50ETF STAR 50 ETF;512010 医药ETF Healthcare ETF
159928 消费ETF Consumer ETF;512800 银行ETF Bank ETF
"""
_FUNDS: Final = "000001 110022 161725 005827 003095 260108 163406 040025"
_FUTURES: Final = """
RB 螺纹钢 Shanghai rebar;CU 沪铜 Shanghai copper;AL 沪铝 Shanghai aluminium;ZN 沪锌 Shanghai zinc
I 铁矿石 Dalian iron ore;M 豆粕 Dalian soybean meal;Y 豆油 Dalian soybean oil;C 玉米 Dalian corn
P 棕榈油 Dalian palm oil;TA PTA Zhengzhou PTA;MA 甲醇 Zhengzhou methanol;A 豆一 Dalian soybean
"""
_MONEY: Final = """
USD 美元 US dollar;EUR 欧元 euro;GBP 英镑 British pound;HKD 港币 Hong Kong dollar
CHF 瑞士法郎 Swiss franc;SGD 新加坡元 Singapore dollar;CAD 加拿大元 Canadian dollar
AUD 澳大利亚元 Australian dollar;NZD 新西兰元 New Zealand dollar;SEK 瑞典克朗 Swedish krona
NOK 挪威克朗 Norwegian krone;DKK 丹麦克朗 Danish krone
"""
_PAIRS: Final = "EURUSD GBPUSD USDCNY EURGBP USDCHF AUDUSD USDCAD EURCHF GBPCHF USDSGD"
TERMS: Final = (2, 5, 10, 30)
_COUNTRIES: Final = {"CN": ("中国", "Chinese"), "US": ("美国", "US")}
_REPOS: Final = {"FR001": 1, "FR007": 7, "FR014": 14}


def _named(text: str) -> dict[str, str]:
    rows = (row.partition(" ") for line in text.split("\n") for row in line.split(";") if row)
    return {code: name for code, _, name in rows}


@cache
def subjects() -> Mapping[str, Subject]:
    """All subjects by their keys."""
    english, chinese = _named(_ENGLISH), _named(_CHINESE)
    found: list[Subject] = []
    for one in LISTED.values():
        name = english.get(f"{one.code}.sh" if one.key == "sh000001" else one.code)
        if one.kind == "share" and one.exchange == "US":
            market = "105" if one.code in _NASDAQ.split() else "106"
            names = {"zh": chinese[one.code], "en": one.name}
            found.append(
                Subject(one.key, "states", "US", names, one.code, fields={"market": market})
            )
        elif one.kind in ("share", "index") and one.exchange in ("CN", "HK") and name:
            kinds = {"CN": "share", "HK": "hong_kong"}
            kind = "index" if one.kind == "index" else kinds[one.exchange]
            own = f"the {name}" if one.kind == "index" else name
            names = {"zh": one.name.removesuffix("-W"), "en": own}
            fields = {"sec": one.key.upper(), "dotted": f"{one.code}.{one.key[:2].upper()}"}
            found.append(Subject(one.key, kind, one.exchange, names, one.code, fields=fields))
    for code, name in _named(_ETFS).items():
        own, _, other = name.partition(" ")
        key = f"{'sh' if code[0] == '5' else 'sz'}{code}"
        found.append(Subject(key, "etf", "CN", {"zh": own, "en": f"the {other}"}, code, (other,)))
    for code in _FUNDS.split():
        names = {"zh": f"基金{code}", "en": f"fund {code}"}
        found.append(Subject(f"of{code}", "fund", "CN", names, code, (code,)))
    for code, name in _named(_FUTURES).items():
        own, _, other = name.partition(" ")
        names = {"zh": f"{own}主力合约", "en": f"the main {other} futures contract"}
        aliases = (own, other, f"{code}0") if len(code) == 1 else (own, other, f"{code}0", code)
        found.append(
            Subject(f"future:{code}0", "future", "CN", names, f"{code}0", aliases, {"zh_name": own})
        )
    for code, name in _named(_MONEY).items():
        own, _, other = name.partition(" ")
        names = {"zh": own, "en": f"the {other}"}
        found.append(
            Subject(f"fx:{code}", "currency", "CN", names, code, (other, code), {"money": own})
        )
    for pair in _PAIRS.split():
        base, quote = pair[:3], pair[3:]
        names = dict.fromkeys(("zh", "en"), f"{base}/{quote}")
        fields = {"base": base, "quote": quote}
        found.append(Subject(f"pair:{pair}", "pair", "ALL", names, pair, (pair,), fields))
    for country, (own, other) in _COUNTRIES.items():
        for term in TERMS:
            names = {"zh": f"{own}{term}年期国债", "en": f"{term}-year {other} government bonds"}
            column = f"{own}国债收益率{term}年"
            key = f"{country}{term}Y"
            aliases = (f"{own}{term}年", f"{other} {term}-year", f"{term}-year {other}")
            found.append(Subject(key, "treasury", "CN", names, key, aliases, {"column": column}))
    found += (
        Subject(code, "repo", "CN", dict.fromkeys(("zh", "en"), code), code) for code in _REPOS
    )
    return {one.key: one for one in found}


@cache
def kinds_of(subject: str) -> frozenset[str]:
    """The kinds under which views name a subject: also by who makes an index."""
    one = subjects()[subject]
    maker = "cni" if one.code.startswith("399") else "csi"
    return frozenset({one.kind, maker} if one.kind == "index" else {one.kind})


@cache
def views() -> Mapping[str, View]:
    """All views by their tools."""
    text = (_HERE / "views.toml").read_text("utf-8")
    return {tool: View(tool, **about) for tool, about in tomllib.loads(text).items()}


def share_served() -> tuple[int, int]:
    """How many tools have a view, and how many there are."""
    return len(views()), len(Catalog.load())


# --- the world -----------------------------------------------------------------------------------

ANNUAL: Final = {
    "revenue": "revenue", "net_income": "net_profit", "eps": "net_profit", "assets": "assets",
    "liabilities": "liabilities",
}  # fmt: skip
"""Facts of yearly statements, by the items of the world."""

_PRICES: Final = ("open", "high", "low", "close", "volume", "value")


class WorldFacts:
    """Reads facts from the world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._read = lru_cache(4096)(self._read_anew)

    def days(self, leaf: Leaf) -> tuple[date, ...]:
        """The days of a subject's exchange in the range of a fact."""
        days = self.world.days(subjects()[leaf.subject].exchange)
        return days[between(days, leaf.first, leaf.last)]

    def __call__(self, leaf: Leaf) -> Series:
        return self._read(leaf)

    def _read_anew(self, leaf: Leaf) -> Series:
        subject, world = subjects()[leaf.subject], self.world
        if leaf.fact in ANNUAL:
            return self._statements(leaf)
        if leaf.fact in ("quote", "rate"):
            return [(leaf.last, self._now(leaf.fact, subject))]
        days = self.days(leaf)
        if not days:
            raise Unknown(leaf.text)
        if leaf.fact in _PRICES:
            name = "close" if leaf.fact == "value" else leaf.fact
            by = 100 if name == "volume" and subject.kind in ("share", "etf") else 1
            bars = world.bars(subject.key, days[0], days[-1])
            return [(bar.day, float(getattr(bar, name) * by)) for bar in bars]
        return list(zip(days, _ECONOMY[leaf.fact](world, subject, days), strict=True))

    def _statements(self, leaf: Leaf) -> Series:
        item, found = ANNUAL[leaf.fact], Series()
        for part in statements(self.world, leaf.subject):
            if part.is_annual and leaf.first <= part.period <= leaf.last:
                amount = part.total.get(item) or part.sheet.get(item) or 0
                value = round(amount / part.shares, 4) if leaf.fact == "eps" else float(amount)
                found.append((part.period, value))
        return found

    def _now(self, fact: str, subject: Subject) -> float:
        if fact == "quote":
            return self.world.close(subject.key)
        return round(self.world.rate(subject.code[:3], subject.code[3:]), 6)


Days = tuple[date, ...]


def _parity(world: World, subject: Subject, days: Days) -> list[float]:
    """What 100 units of a currency are worth in yuan."""
    return [round(100 * world.rate(subject.code, "CNY", day), 2) for day in days]


def _yield(world: World, subject: Subject, days: Days) -> list[float]:
    country, term = subject.code[:2], int(subject.code[2:-1])
    digits = 2 if country == "US" else 4
    return [round(found[0], digits) for found in yields(world, country, days, [float(term)])]


def _fixing(world: World, subject: Subject, days: Days) -> list[float]:
    return money(world, "repo", "CNY", days, _REPOS[subject.code] / 365)


_ECONOMY: Final[Mapping[str, Callable[[World, Subject, Days], list[float]]]] = {
    "parity": _parity,
    "bond_yield": _yield,
    "fixing": _fixing,
}


def answers_reader(answers: Mapping[str, bytes]) -> Callable[[Leaf], Series]:
    """Reads facts from answers of tools, by the texts of the leaves that they answer."""

    @lru_cache(64)
    def read(leaf: Leaf) -> Series:
        if (answer := answers.get(leaf.text)) is None:
            raise AnswerError(f"{leaf.tool} was not asked for {leaf.text}")
        return views()[leaf.tool].read(leaf, answer)

    return read


def call_of(leaf: Leaf) -> tuple[str, dict[str, Any]]:
    """The call of a tool that answers a leaf."""
    return leaf.tool, views()[leaf.tool].call(leaf)
