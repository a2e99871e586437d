"""The companies of a world: statements, holders, capital flows, margin balances and events.

A company's earnings follow the price of its share over two years, at the ratio that is usual in its
industry, so that its price is a plausible multiple of them whatever the seed. The share's currency
is that of its exchange; amounts are whole units of it. The number of shares is that of the
instrument.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapters.simulator.world.calendar import FIRST, LAST, between
from adapters.simulator.world.instruments import CHINA, INDUSTRIES, Instrument, lot_of
from adapters.simulator.world.world import Floats, World

FIRST_YEAR: Final = 2010
FREE: Final = 0.8
"""The part of the shares that is traded freely."""

CURRENCIES: Final[Mapping[str, str]] = {"CN": "CNY", "HK": "HKD", "US": "USD"}


class Industry(NamedTuple):
    """What is usual in an industry: price by earnings and by equity, net and gross margin, assets
    by equity.
    """

    sector: str
    earnings: float
    book: float
    net: float
    gross: float
    leverage: float


_KINDS: Final[Mapping[str, Industry]] = {
    "银行": Industry("Financials", 6, 0.7, 0.36, 0.6, 12),
    "保险": Industry("Financials", 9, 1.1, 0.10, 0.25, 9),
    "证券": Industry("Financials", 17, 1.4, 0.30, 0.5, 4.5),
    "酿酒行业": Industry("Consumer Staples", 26, 6.0, 0.36, 0.75, 1.4),
    "食品饮料": Industry("Consumer Staples", 22, 4.0, 0.12, 0.4, 1.9),
    "农牧饲渔": Industry("Consumer Staples", 24, 3.0, 0.07, 0.18, 2.2),
    "电力行业": Industry("Utilities", 18, 2.2, 0.25, 0.45, 2.5),
    "石油行业": Industry("Energy", 9, 1.0, 0.05, 0.2, 1.8),
    "化学制药": Industry("Health Care", 32, 5.0, 0.17, 0.7, 1.4),
    "医疗服务": Industry("Health Care", 30, 4.5, 0.16, 0.42, 1.6),
    "医疗器械": Industry("Health Care", 28, 5.0, 0.28, 0.62, 1.4),
    "光伏设备": Industry("Industrials", 18, 2.6, 0.10, 0.22, 2.3),
    "电池": Industry("Industrials", 22, 4.0, 0.10, 0.23, 2.8),
    "工程建设": Industry("Industrials", 6, 0.7, 0.03, 0.11, 4.0),
    "工程机械": Industry("Industrials", 15, 1.9, 0.09, 0.27, 2.2),
    "物流行业": Industry("Industrials", 20, 2.2, 0.04, 0.13, 2.1),
    "旅游酒店": Industry("Consumer Discretionary", 28, 3.5, 0.11, 0.32, 1.6),
    "家电行业": Industry("Consumer Discretionary", 12, 2.6, 0.10, 0.28, 2.7),
    "汽车整车": Industry("Consumer Discretionary", 20, 3.6, 0.05, 0.19, 3.2),
    "化学制品": Industry("Materials", 15, 2.6, 0.10, 0.2, 2.4),
    "有色金属": Industry("Materials", 15, 2.6, 0.08, 0.16, 2.4),
    "半导体": Industry("Technology", 45, 4.0, 0.18, 0.42, 1.7),
    "软件开发": Industry("Technology", 42, 7.0, 0.20, 0.7, 1.6),
    "计算机设备": Industry("Technology", 22, 3.8, 0.16, 0.45, 1.8),
    "通信设备": Industry("Technology", 18, 1.9, 0.08, 0.38, 2.6),
    "消费电子": Industry("Technology", 22, 4.5, 0.09, 0.24, 2.4),
    "光学光电子": Industry("Technology", 24, 1.4, 0.05, 0.16, 2.0),
    "房地产开发": Industry("Real Estate", 9, 0.8, 0.06, 0.2, 4.5),
}

_ABROAD: Final[Mapping[str, str]] = {
    code: industry
    for industry, codes in {
        "银行": "00005 00939 JPM",
        "证券": "00388 V",
        "保险": "01299 02318",
        "石油行业": "00883 XOM",
        "软件开发": "00700 09988 MSFT GOOGL META IBM NFLX",
        "旅游酒店": "03690 AMZN DIS",
        "通信设备": "00941",
        "消费电子": "01810 AAPL",
        "汽车整车": "01211 TSLA",
        "半导体": "NVDA AMD INTC",
        "食品饮料": "KO PG WMT",
        "化学制药": "JNJ",
        "工程机械": "BA",
    }.items()
    for code in codes.split()
}
"""The industries of the listed shares of Hong Kong and New York."""

_DUE: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    "CN": ((4, 30), (8, 31), (10, 31), (4, 30)),
    "HK": ((5, 15), (8, 31), (11, 15), (3, 31)),
    "US": ((5, 10), (8, 9), (11, 9), (3, 1)),
}
"""By when the first, second, third and last quarter of a year are published, as month and day; the
last one is due in the next year.
"""

_NUMBER: Final = 4 * (LAST.year - FIRST_YEAR + 1)

Amounts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Statement:
    """What a company published about a quarter.

    `quarter` has the flows of three months, `total` those since the start of the year, `sheet` what
    there was at the end of the `period`. The names of the items are the keys of `FLOWS` and
    `SHEET`.
    """

    period: date
    published: date
    quarter: Mapping[str, int]
    total: Mapping[str, int]
    sheet: Mapping[str, int]
    shares: int

    @property
    def is_annual(self) -> bool:
        return self.period.month == 12


FLOWS: Final = (
    *("revenue", "cost", "surcharge", "selling", "administration", "research", "finance"),
    *("operating_profit", "nonoperating", "profit", "tax", "net_profit", "operating_cash"),
    *("investing_cash", "financing_cash", "dividends", "raised", "borrowed", "cash_change"),
)
SHEET: Final = (
    *("cash", "receivables", "inventories", "other_current", "current_assets", "fixed_assets"),
    *("other_assets", "assets", "payables", "advances", "borrowings", "other_liabilities"),
    *("current_liabilities", "liabilities", "capital", "surplus", "retained", "equity"),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """What a company is."""

    name: str
    industry: str
    sector: str
    country: str
    listed: date
    employees: int


class Holder(NamedTuple):
    """One of the largest holders: shares, percent of all, and the change on the quarter before."""

    name: str
    kind: str
    shares: int
    percent: float
    change: int


class Flow(NamedTuple):
    """What a day's orders of each size bought less sold; the four sum to zero."""

    day: date
    super_large: int
    large: int
    medium: int
    small: int
    amount: int

    @property
    def main(self) -> int:
        return self.super_large + self.large


class Margin(NamedTuple):
    """A day's purchases on credit: owed at its end, borrowed and paid back on it; and shares lent:
    at its end, sold and given back.
    """

    day: date
    owed: int
    bought: int
    repaid: int
    lent: int
    sold: int
    returned: int


class Valuation(NamedTuple):
    """A day's market value and its multiples of what was published up to then."""

    day: date
    close: float
    value: float
    earnings: float
    earnings_of_year: float
    book: float
    sales: float
    cash: float
    growth: float


class Event(NamedTuple):
    """What happened to a company on a day, as a heading says it."""

    day: date
    kind: str
    title: str
    english: str


def issued(one: Instrument) -> int:
    """The shares of a company."""
    return one.shares or 1_000_000_000


def free_shares(one: Instrument) -> int:
    """The shares of a company that are traded freely."""
    return round(issued(one) * FREE)


def turnover(one: Instrument, volume: float) -> float:
    """Percent of the free shares that a volume is; 0 for what has no shares, as a future."""
    return volume * lot_of(one) * 100 / (one.shares * FREE) if one.shares else 0.0


def industry_of(world: World, one: Instrument) -> str:
    known = INDUSTRIES.get(one.code) if one.exchange == "CN" else _ABROAD.get(one.code)
    names = [*_KINDS]
    return known or names[int(world.luck("industry", one.key) * len(names))]


def listing_day(world: World, one: Instrument) -> date:
    return date(1991 + int(14 * world.luck("listed", one.key)), 6, 18)


def profile(world: World, key: str) -> Profile:
    one = world.instrument(key)
    industry = industry_of(world, one)
    year = sum(part.quarter["revenue"] for part in statements(world, key)[-4:])
    head = (4 + 8 * world.luck("revenue per head", key)) * 250_000
    return Profile(
        one.name,
        industry,
        _KINDS[industry].sector,
        {"CN": "CN", "HK": "HK"}.get(one.exchange, "US"),
        listing_day(world, one),
        max(round(year / head), 20),
    )


# --- statements ----------------------------------------------------------------------------------


def _quarter(number: int) -> date:
    """The last day of a quarter, counted from the start of `FIRST_YEAR`."""
    year, quarter = divmod(number, 4)
    month = 3 * quarter + 3
    return date(FIRST_YEAR + year, month, 31 if month in (3, 12) else 30)


def _published(one: Instrument, number: int, luck: float) -> date:
    """The day on which a quarter is published; a year comes out before the quarter after it."""
    month, day = _DUE[one.exchange][number % 4]
    due = date(_quarter(number).year + (number % 4 == 3), month, day)
    return due - timedelta(int(20 * luck) + (20 if number % 4 == 3 else 0))


@lru_cache(64)
def statements(world: World, key: str) -> tuple[Statement, ...]:
    """What a company published up to the world's day, the oldest first, from 2010 on."""
    one, made = world.instrument(key), world.history(key)
    kind = _KINDS[industry_of(world, one)]
    dues = world.uniforms(_NUMBER, "published", key).tolist()
    days = [_published(one, number, luck) for number, luck in enumerate(dues)]
    number = sum(day <= world.now for day in days)
    ends = [_quarter(at) for at in range(-1, number)]
    price = _smoothed(made.close, [between(made.days, None, day).stop for day in ends])
    shares = issued(one)

    def noise(name: str, size: float, own: float = 0.0) -> Floats:
        """Around 1: by the quarter up to `size`, by the company up to `own`."""
        quarterly = 2 * world.uniforms(_NUMBER + 1, name, key)[: number + 1] - 1
        return np.exp(size * quarterly + own * (2 * world.luck(name, "own", key) - 1))

    def whole(values: NDArray[np.floating]) -> Amounts:
        found: Amounts = np.rint(values).astype(np.int64)
        return found

    season = 0.22 * (2 * world.uniforms(4, "season", key) - 1)
    season = 1 + season - season.mean()
    by_quarter = season[(np.arange(number + 1) + 3) % 4]
    worth = price * shares
    flows, sheet = dict[str, Amounts](), dict[str, Amounts]()
    flows["net_profit"] = whole(
        worth / kind.earnings / 4 * by_quarter * noise("profit", 0.10, 0.25)
    )
    net = flows["net_profit"].astype(np.float64)
    revenue = net / (kind.net * noise("margin", 0.08, 0.2))
    flows["revenue"] = whole(revenue)
    flows["tax"] = whole(net * 0.18 / 0.82 * noise("tax", 0.08))
    flows["profit"] = flows["net_profit"] + flows["tax"]
    flows["nonoperating"] = whole(net * 0.03 * (noise("nonoperating", 0.4) - 1))
    flows["operating_profit"] = flows["profit"] - flows["nonoperating"]
    least = flows["operating_profit"] / flows["revenue"] + 0.01
    gross = np.clip(kind.gross * noise("gross", 0.03, 0.1), least, 0.95)
    flows["cost"] = whole(revenue * (1 - gross))
    spent = flows["revenue"] - flows["cost"] - flows["operating_profit"]
    for name, part in (("surcharge", 0.08), ("selling", 0.36), ("research", 0.22)):
        flows[name] = whole(spent * part * noise(name, 0.05, 0.1))
    flows["finance"] = whole(spent * 0.05 * (noise("finance", 0.3, 0.3) - 0.5))
    named = ("surcharge", "selling", "research", "finance")
    flows["administration"] = spent - sum(flows[name] for name in named)

    sheet["equity"] = whole(worth / kind.book * noise("equity", 0.02, 0.25))
    equity = sheet["equity"].astype(np.float64)
    leverage = 1 + (kind.leverage - 1) * noise("leverage", 0.04, 0.1)
    sheet["assets"] = whole(equity * leverage)
    assets = sheet["assets"].astype(np.float64)
    sheet["liabilities"] = sheet["assets"] - sheet["equity"]
    owed = sheet["liabilities"].astype(np.float64)
    for name, part in (("cash", 0.18), ("receivables", 0.12), ("inventories", 0.14)):
        sheet[name] = whole(assets * part * noise(name, 0.08, 0.3))
    sheet["other_current"] = whole(assets * 0.06 * noise("other current", 0.1, 0.2))
    sheet["current_assets"] = sum(
        (sheet[name] for name in ("cash", "receivables", "inventories", "other_current")),
        start=np.zeros(number + 1, np.int64),
    )
    rest = sheet["assets"] - sheet["current_assets"]
    sheet["fixed_assets"] = whole(rest * 0.6 * noise("fixed assets", 0.03, 0.2))
    sheet["other_assets"] = rest - sheet["fixed_assets"]
    for name, part in (("payables", 0.24), ("advances", 0.1), ("borrowings", 0.3)):
        sheet[name] = whole(owed * part * noise(name, 0.06, 0.3))
    known = sheet["payables"] + sheet["advances"] + sheet["borrowings"]
    sheet["other_liabilities"] = sheet["liabilities"] - known
    short = sheet["payables"] + sheet["advances"]
    sheet["current_liabilities"] = short + (sheet["liabilities"] - short) // 2
    sheet["capital"] = np.minimum(np.full(number + 1, shares), sheet["equity"] // 3)
    sheet["retained"] = whole((sheet["equity"] - sheet["capital"]) * 0.6)
    sheet["surplus"] = sheet["equity"] - sheet["capital"] - sheet["retained"]

    paid = [
        sum(round(p.cash * shares) for p in made.payouts if before < p.day <= day)
        for before, day in pairwise(ends)
    ]
    flows["dividends"] = np.array([0, *paid], dtype=np.int64)
    grown = np.diff(sheet["equity"], prepend=sheet["equity"][:1])
    flows["raised"] = grown - flows["net_profit"] + flows["dividends"]
    flows["operating_cash"] = whole(net * 1.1 * noise("operating cash", 0.3, 0.15))
    flows["investing_cash"] = -whole(net * 0.6 * noise("investing cash", 0.4, 0.3))
    flows["cash_change"] = np.diff(sheet["cash"], prepend=sheet["cash"][:1])
    used = flows["operating_cash"] + flows["investing_cash"]
    flows["financing_cash"] = flows["cash_change"] - used
    flows["borrowed"] = flows["financing_cash"] - flows["raised"] + flows["dividends"]

    totals = {name: _since_january(values) for name, values in flows.items()}
    quarters, years, sheets = (
        [dict(zip(names, row, strict=True)) for row in np.array([of[n] for n in names]).T.tolist()]
        for of, names in ((flows, FLOWS), (totals, FLOWS), (sheet, SHEET))
    )
    rows = list(zip(ends, [world.now, *days], quarters, years, sheets, strict=False))
    return tuple(Statement(*row, shares) for row in rows[1:])


def _smoothed(close: Floats, stops: Sequence[int]) -> Floats:
    """The geometric mean of two years of closes up to each place."""
    sums = np.concatenate(([0.0], np.cumsum(np.log(close))))
    ends = np.maximum(np.array(stops), 1)
    starts = np.maximum(ends - 500, 0)
    means: Floats = np.exp((sums[ends] - sums[starts]) / (ends - starts))
    return means


def _since_january(values: Amounts) -> Amounts:
    """Sums by year of quarters, of which the first is the last of a year."""
    later = values[1:]
    padded = np.concatenate((later, np.zeros(-len(later) % 4, np.int64)))
    sums = np.cumsum(padded.reshape(-1, 4), axis=1).ravel()[: len(later)]
    return np.concatenate((values[:1], sums))


def of_period(world: World, key: str, period: date) -> Statement | None:
    """The statement of a quarter, unless it is not yet published."""
    return next((one for one in statements(world, key) if one.period == period), None)


def year_before(parts: Sequence[Statement], part: Statement) -> Statement | None:
    """The statement of the same quarter one year earlier."""
    return next((p for p in parts if p.period == part.period.replace(part.period.year - 1)), None)


def growth(new: float, old: float) -> float | None:
    """Percent change, unless there was nothing before."""
    return round((new / old - 1) * 100, 4) if old else None


# --- by day --------------------------------------------------------------------------------------


def valuations(
    world: World, key: str, first: date | None = None, last: date | None = None
) -> list[Valuation]:
    """The multiples of the days of a range, from the day on which there is a year of statements."""
    made, shares = world.history(key), issued(world.instrument(key))
    parts, found = statements(world, key), list[Valuation]()
    known = range(4, len(parts))
    if not known:
        return found
    starts = [between(made.days, None, parts[at].published - timedelta(1)).stop for at in known]
    days = between(made.days, first, last)
    for place, at in enumerate(known):
        year = parts[at - 3 : at + 1]
        income = sum(part.quarter["net_profit"] for part in year)
        sales = sum(part.quarter["revenue"] for part in year)
        cash = sum(part.quarter["operating_cash"] for part in year)
        annual = next(part for part in reversed(parts[: at + 1]) if part.is_annual)
        earlier = sum(part.quarter["net_profit"] for part in parts[max(at - 7, 0) : at - 3])
        rise = max((income / earlier - 1) * 100, 0.01) if earlier else 10.0
        stop = starts[place + 1] if place + 1 < len(known) else len(made.days)
        for day_at in range(max(starts[place], days.start), min(stop, days.stop)):
            close = float(made.close[day_at])
            value = round(close * shares, 2)
            by = (income, annual.total["net_profit"], parts[at].sheet["equity"], sales, cash)
            pe, lyr, pb, ps, pcf = (round(value / amount, 4) for amount in by)
            peg = round(value / income / rise, 4)
            found.append(Valuation(made.days[day_at], close, value, pe, lyr, pb, ps, pcf, peg))
    return found


def valuation(world: World, key: str) -> Valuation | None:
    """The multiples of a share's last day, unless there is no year of statements yet; none of what
    is no share.
    """
    if world.instrument(key).kind != "share":
        return None
    return next(iter(valuations(world, key, world.history(key).days[-1])), None)


@lru_cache(16)
def index_earnings(world: World, key: str) -> Floats:
    """What the members of an index are worth by their earnings of a year, by day of its history; 0
    as long as a member has no year of statements.
    """
    worth = income = np.zeros(len(world.history(key).days))
    for member in world.weights(key):
        made, parts = world.history(member), statements(world, member)
        earned = np.full(len(made.days), np.inf)
        for at in range(4, len(parts)):
            start = between(made.days, None, parts[at].published - timedelta(1)).stop
            earned[start:] = sum(part.quarter["net_profit"] for part in parts[at - 3 : at + 1])
        worth, income = worth + made.close * issued(world.instrument(member)), income + earned
    found: Floats = worth / income
    return found


def flows(world: World, key: str, number: int = 120) -> list[Flow]:
    """The capital flows of the last days, so many."""
    bars, size = world.latest(key, number), len(world.history(key).days)
    lot = 100 if world.instrument(key).exchange == "CN" else 1
    draws = world.uniforms(3 * size, "capital flow", key).reshape(size, 3)[-len(bars) :]
    found = list[Flow]()
    for bar, three in zip(bars, draws.tolist(), strict=True):
        amount = round(bar.volume * lot * (bar.open + bar.close) / 2)
        drift = max(-0.05, min(0.05, bar.change / 100))
        a, b, c = (
            round(amount * (drift * of + 0.12 * (luck - 0.5)))
            for of, luck in zip((0.8, 0.5, -0.3), three, strict=True)
        )
        found.append(Flow(bar.day, a, b, c, -(a + b + c), amount))
    return found


def _wave(world: World, days: Sequence[date], *names: object) -> Floats:
    """A number from 0 to 1 for each day, which moves slowly from month to month."""
    months = world.uniforms(12 * (LAST.year - FIRST.year + 1) + 2, *names)
    places = [12 * (day.year - FIRST.year) + day.month - 1 + (day.day - 1) / 31 for day in days]
    found: Floats = np.interp(places, np.arange(len(months)), months)
    return found


def margins(world: World, key: str, first: date, last: date) -> list[Margin]:
    """The margin balances of the days of a range; each follows from the one before."""
    made, shares = world.history(key), issued(world.instrument(key))
    where = between(made.days, first, last)
    start = max(where.start - 1, 0)
    days = made.days[start : where.stop]
    mean = _smoothed(made.close, [start + at + 1 for at in range(len(days))])
    level = (0.008 + 0.015 * world.luck("margin", key)) * FREE * shares
    worth = level * mean * (0.7 + 0.6 * _wave(world, days, "margin", key))
    owed = np.rint(worth).astype(np.int64).tolist()
    lent = np.rint(0.01 * level * (0.5 + _wave(world, days, "lent", key))).astype(np.int64).tolist()
    traded = (
        0.03 + 0.06 * world.uniforms(len(made.days), "bought", key)[start : where.stop]
    ).tolist()
    found = list[Margin]()
    for at in range(1, len(days)):
        more, sold = max(owed[at] - owed[at - 1], 0), max(lent[at] - lent[at - 1], 0)
        more, sold = more + round(owed[at] * traded[at]), sold + lent[at] // 12
        repaid, returned = more - owed[at] + owed[at - 1], sold - lent[at] + lent[at - 1]
        found.append(Margin(days[at], owed[at], more, repaid, lent[at], sold, returned))
    return found


def northbound(world: World, key: str, days: Sequence[date]) -> list[int]:
    """The shares that are held through the links from Hong Kong, by day."""
    shares = issued(world.instrument(key))
    part = 0.01 + 0.08 * world.luck("northbound", key)
    held = shares * part * (0.7 + 0.6 * _wave(world, days, "northbound", key))
    found: list[int] = np.rint(held).astype(np.int64).tolist()
    return found


DEPARTMENTS: Final = (
    *("机构专用", "中信证券股份有限公司总部", "国泰君安证券股份有限公司总部"),
    *("华泰证券股份有限公司总部", "招商证券股份有限公司深圳分公司", "中国银河证券股份有限公司总部"),
    *("海通证券股份有限公司上海分公司", "广发证券股份有限公司广州分公司", "中金公司上海分公司"),
)
"""Departments of brokers, through which blocks are traded."""


class Block(NamedTuple):
    """A trade of a block of shares away from the order book."""

    day: date
    key: str
    price: float
    close: float
    volume: int
    buyer: str
    seller: str

    @property
    def amount(self) -> float:
        return round(self.price * self.volume, 2)


def blocks(world: World, day: date) -> list[Block]:
    """The block trades of a day of trading: six shares, one or two trades of each."""
    order = np.argsort(world.uniforms(len(CHINA), "blocks", day))[:6].tolist()
    found = list[Block]()
    for place in order:
        one = CHINA[place]
        close = world.close(one.key, day)
        lucks = world.uniforms(5, "block", day, one.key).tolist()
        for number in range(1 + (lucks[0] < 0.4)):
            price = round(close * (0.9 + 0.12 * lucks[1]), 2)
            volume = round(one.shares * 2e-5 * (1 + 4 * lucks[2 + number])) // 100 * 100 + 100
            buyer = int(lucks[3] * len(DEPARTMENTS))
            seller = int(lucks[4] * len(DEPARTMENTS))
            names = (DEPARTMENTS[buyer], DEPARTMENTS[seller])
            found.append(Block(day, one.key, price, close, volume, *names))
    return found


class Seat(NamedTuple):
    """What a department of a broker traded of a share on the list of a day."""

    department: str
    bought: float
    sold: float


class Board(NamedTuple):
    """A share on the list of a day's most traded, with the five departments that bought most and
    the five that sold most.
    """

    day: date
    key: str
    amount: float
    buyers: tuple[Seat, ...]
    sellers: tuple[Seat, ...]

    @property
    def bought(self) -> float:
        return round(sum(seat.bought for seat in self.buyers), 2)

    @property
    def sold(self) -> float:
        return round(sum(seat.sold for seat in self.sellers), 2)


def board(world: World, key: str, day: date) -> Board:
    """The departments that traded a share most on a day of trading."""
    (bar,) = world.bars(key, day, day)
    amount = round(bar.volume * 100 * (bar.open + bar.close) / 2, 2)
    sides = list[tuple[Seat, ...]]()
    for side in ("buyers", "sellers"):
        order = np.argsort(world.uniforms(len(DEPARTMENTS), side, key, day))[:5].tolist()
        parts = np.sort(0.002 + 0.04 * world.uniforms(5, side, "parts", key, day))[::-1].tolist()
        traded = [
            (DEPARTMENTS[place], round(amount * p, 2))
            for place, p in zip(order, parts, strict=True)
        ]
        sides.append(
            tuple(Seat(n, v, 0.0) if side == "buyers" else Seat(n, 0.0, v) for n, v in traded)
        )
    return Board(day, key, amount, sides[0], sides[1])


@lru_cache(4)
def _leaders(world: World) -> NDArray[np.int64]:
    """The places of the five listed shares that rose most, by day of trading in China."""
    rises = [made.close / made.before for made in (world.history(one.key) for one in CHINA)]
    found: NDArray[np.int64] = np.argsort(-np.array(rises), axis=0, kind="stable")[:5].T
    return found


def listed_of(world: World, day: date) -> list[str]:
    """The shares on the list of a day: the five that rose most."""
    return [CHINA[place].key for place in _leaders(world)[world.days("CN").index(day)].tolist()]


# --- holders and events --------------------------------------------------------------------------

_HOLDERS: Final = (
    ("中央汇金资产管理有限责任公司", "其它"),
    ("中国证券金融股份有限公司", "其它"),
    ("全国社保基金一零三组合", "社保"),
    ("全国社保基金一一三组合", "社保"),
    ("基本养老保险基金八零二组合", "社保"),
    ("华泰柏瑞沪深300交易型开放式指数证券投资基金", "基金"),
    ("易方达沪深300交易型开放式指数发起式证券投资基金", "基金"),
    ("华夏上证50交易型开放式指数证券投资基金", "基金"),
    ("嘉实沪深300交易型开放式指数证券投资基金", "基金"),
    ("中国人寿保险股份有限公司", "保险"),
    ("泰康人寿保险有限责任公司", "保险"),
    ("新华人寿保险股份有限公司", "保险"),
    ("瑞银集团", "QFII"),
    ("摩根士丹利国际股份有限公司", "QFII"),
)
_WORLDWIDE: Final = (
    *("Vanguard", "BlackRock", "State Street", "Fidelity", "Geode Capital", "Capital Group"),
    *("Morgan Stanley", "T. Rowe Price", "Norges Bank", "Northern Trust", "JPMorgan", "UBS"),
)


_PEOPLE: Final = ("王建国", "李志强", "陈丽华", "张伟民", "刘国栋", "赵永康")


def holders(world: World, key: str, period: date) -> list[Holder]:
    """The ten largest holders at the end of a quarter, the largest first."""
    number = (period.year - FIRST_YEAR) * 4 + period.month // 3
    before = {name: held for name, _, held in _holding(world, key, number - 1)}
    shares = issued(world.instrument(key))
    found = [
        Holder(name, kind, held, round(held / shares * 100, 4), held - before.get(name, 0))
        for name, kind, held in _holding(world, key, number)
    ]
    return sorted(found, key=lambda holder: -holder.shares)


def _holding(world: World, key: str, number: int) -> list[tuple[str, str, int]]:
    """Ten holders, their kinds and shares. The first never trades, the others in three quarters of
    ten; in China the last is a person, who changes now and then.
    """
    one, shares = world.instrument(key), issued(world.instrument(key))
    if is_chinese := one.exchange == "CN":
        pool, first = [*_HOLDERS], (f"{one.name}集团有限公司", "其它")
    else:
        first, *pool = [(name, "Institution") for name in _WORLDWIDE]
    order = np.argsort(world.uniforms(len(pool), "holders", key)).tolist()
    names = [first, *(pool[place] for place in order[:9])]
    if is_chinese:
        turn = (number + int(3 * world.luck("turn", key))) // 3
        names[9] = (_PEOPLE[int(world.luck("person", key, turn) * len(_PEOPLE))], "个人")
    top = 0.20 + 0.30 * world.luck("holder", key) if is_chinese else 0.08
    moved = world.uniforms(20, "held", key, number).tolist()
    found = list[tuple[str, str, int]]()
    for rank, (name, kind) in enumerate(names):
        share = top if rank == 0 else 0.06 * 0.78**rank
        if rank and moved[rank] < 0.3:
            share *= 0.98 + 0.04 * moved[10 + rank]
        found.append((name, kind, round(shares * share / 100) * 100))
    return found


def holder_number(world: World, key: str, period: date) -> int:
    """How many accounts hold a company's shares at the end of a quarter."""
    shares = issued(world.instrument(key))
    each = 2000 + 18000 * world.luck("shares of an account", key)
    return round(shares / each * (0.9 + 0.2 * world.luck("accounts", key, period)))


def events(world: World, key: str, first: date, last: date, *, move: float = 4.0) -> list[Event]:
    """What happened in these days, the newest first: statements, payouts and moves of at least so
    many percent.
    """
    one, found = world.instrument(key), list[Event]()
    parts = statements(world, key)
    for part in parts:
        if first <= part.published <= last:
            quarter = ("一季报", "半年报", "三季报", "年报")[part.period.month // 3 - 1]
            profit, before = part.total["net_profit"], year_before(parts, part)
            text = f"{one.name}:{part.period.year}年{quarter}净利润{profit / 1e8:.2f}亿元"
            rise = growth(profit, before.total["net_profit"]) if before else None
            text += f",同比{'增长' if rise >= 0 else '下降'}{abs(rise):.2f}%" if rise else ""
            span = f"the year {part.period.year}" if part.is_annual else f"{part.period:%B %Y}"
            english = f"{one.name}: net income up to {span} is {profit / 1e6:,.0f} million"
            found.append(Event(part.published, "财务报告", text, english))
    made = world.history(key)
    for payout in made.payouts:
        if first <= payout.day <= last:
            bonus = f"送{payout.bonus * 10:g}股" if payout.bonus else ""
            cash = f"派{payout.cash * 10:.2f}元" if payout.cash else ""
            text = f"{one.name}:每10股{bonus}{cash},除权除息日{payout.day}"
            english = f"{one.name} goes ex-dividend: {payout.cash:g} per share"
            found.append(Event(payout.day, "分红派息", text, english))
    where = between(made.days, first, last)
    change = (made.close[where] / made.before[where] - 1) * 100
    for place in np.flatnonzero(abs(change) >= move).tolist():
        day, close = made.days[where][place], float(made.close[where][place])
        verb = "涨" if change[place] > 0 else "跌"
        text = f"{one.name}收{verb}{abs(change[place]):.2f}%,报{close:.{one.digits}f}"
        moved = "rises" if change[place] > 0 else "falls"
        english = f"{one.name} {moved} {abs(change[place]):.2f}% to {close:.{one.digits}f}"
        found.append(Event(day, "股价异动", text, english))
    return sorted(found, key=lambda event: (event.day, event.title), reverse=True)


def peers(world: World, key: str) -> list[str]:
    """The listed shares of Shanghai and Shenzhen of a company's industry, and the company."""
    industry = industry_of(world, world.instrument(key))
    found = [one.key for one in CHINA if industry_of(world, one) == industry]
    return found if key in found else [*found, key]
