"""The economy of a world: yield curves, money rates, bonds, and figures that are released.

A curve is that of C. Nelson and A. Siegel, "Parsimonious Modeling of Yield Curves", Journal of
Business 60 (1987), with continuous compounding: its short end, a premium for long terms, and a hump
between. Money rates are the short end and a spread. A bond is worth its payments, discounted on the
curve of its issuer; its yield is found from that price.

A figure has one series. Its changes on the month and on the year follow from that series, and a
period is known once it is released.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from adapters.simulator.world.calendar import FIRST, LAST, Exchange, between, trading_days
from adapters.simulator.world.instruments import CHINA
from adapters.simulator.world.world import ANCHOR, Bar, Floats, History, World

# --- curves and money rates ----------------------------------------------------------------------

_CURVES: Final = {
    "CN": (1.5, 0.9), "US": (3.9, 0.7), "EU": (2.1, 0.6), "DE": (2.0, 0.6), "GB": (4.0, 0.6),
    "JP": (0.6, 1.2), "HK": (3.4, 0.3), "SG": (2.3, 0.4), "AU": (3.8, 0.6), "CA": (2.6, 0.6),
}  # fmt: skip
"""The short rate and the premium of long terms by country, in percent."""

COUNTRY_OF: Final = {
    "CNY": "CN", "CNH": "CN", "USD": "US", "EUR": "EU", "GBP": "GB", "JPY": "JP", "HKD": "HK",
    "SGD": "SG", "AUD": "AU", "CAD": "CA",
}  # fmt: skip
_DECAY: Final = 0.6
"""By year; the hump is at three years."""


def _wave(world: World, name: str, days: Sequence[date]) -> Floats:
    """A walk around 0 of about unit size, whose half-life is a month."""
    return (np.array(world.series(name, days, 1.0, 0.02)) - 1.0) * 10


class Curve:
    """The zero rates of an issuer in a country on some days; `spread` is in percent."""

    def __init__(
        self, world: World, country: str, days: Sequence[date], spread: float = 0.0
    ) -> None:
        short, premium = _CURVES[country]
        name = f"curve {country}"
        self.short = np.array(world.series(f"{name} short", days, short, 0.006)) + spread
        self._premium = np.array(world.series(f"{name} premium", days, premium, 0.01))
        self._hump = -0.5 * self._premium * (1 + 0.3 * _wave(world, f"{name} hump", days))

    def zero(self, years: Floats) -> Floats:
        """The rates by day and term, in percent with continuous compounding. `years` is one row of
        terms, or one for each day.
        """
        years = np.maximum(years, 1e-4)
        decayed = np.exp(-_DECAY * years)
        mean = (1 - decayed) / (_DECAY * years)
        found: Floats = (
            (self.short + self._premium)[:, None]
            - self._premium[:, None] * mean
            + self._hump[:, None] * (mean - decayed)
        )
        return found

    def discount(self, years: Floats) -> Floats:
        found: Floats = np.exp(-self.zero(years) * years / 100)
        return found

    def forward(self, years: float) -> Floats:
        """The rate of a short loan after so many years, in percent a year."""
        decayed = float(np.exp(-_DECAY * years))
        rate = self.short + self._premium * (1 - decayed)
        rate = rate + self._hump * _DECAY * years * decayed
        return _yearly(rate)

    def spot(self, years: float) -> Floats:
        """The zero rate of a term, in percent a year."""
        return _yearly(self.zero(np.array([years]))[:, 0])

    def par(self, years: float) -> Floats:
        """The coupon of a bond at par that pays each year, in percent: what is quoted as the yield
        of a term. It is simple interest for less than a year.
        """
        times = np.arange(max(years, 1 / 365) % 1 or 1.0, years + 1e-9, 1.0)
        times = times if times.size else np.array([max(years, 1 / 365)])
        discounts = self.discount(times)
        earned = 1 - times[0]
        found: Floats = 100 * (1 - discounts[:, -1]) / (discounts.sum(axis=1) - earned)
        return found


def _yearly(continuous: Floats) -> Floats:
    found: Floats = 100 * np.expm1(continuous / 100)
    return found


def yields(
    world: World, country: str, days: Sequence[date], terms: Sequence[float], spread: float = 0.0
) -> list[list[float]]:
    """The yields of an issuer by day and term in years, in percent."""
    curve = Curve(world, country, days, spread)
    found: list[list[float]] = np.round(np.array([curve.par(t) for t in terms]).T, 4).tolist()
    return found


MARKETS: Final = {"repo": 0.05, "FDR": 0.02, "001": 0.12, "002": 0.18, "exchange": 0.1}
"""What is paid above the short end of the curve, in percent: fixed repos, those of banks, Shibor,
Chibor, and repos of the exchanges.
"""


def money(
    world: World, market: str, currency: str, days: Sequence[date], years: float
) -> list[float]:
    """The rate of a money market for a term of at most a year, in percent, as simple interest."""
    name = f"money {market} {currency}"
    spread = MARKETS.get(market) or 0.1 + 0.2 * world.luck(name)
    curve = Curve(world, COUNTRY_OF[currency], days, spread)
    found = curve.par(years) + 0.2 * spread * _wave(world, f"{name} {years:.3f}", days)
    rates: list[float] = np.round(np.maximum(found, 0.01), 4).tolist()
    return rates


# --- bonds ---------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """The bonds of one sort: `first` is the lowest code, and one is issued each `gap` days."""

    name: str
    first: int
    gap: int
    terms: tuple[int, ...]
    spread: float
    issuers: str


KINDS: Final = {
    "treasury": Kind("国债", 19500, 28, (3, 5, 10, 30), 0.0, "中华人民共和国财政部"),
    "local": Kind(
        "地方政府债", 170000, 12, (5, 7, 10), 0.2, "广东省人民政府 江苏省人民政府 四川省人民政府"
    ),
    "corporate": Kind("公司债", 155000, 10, (3, 5), 0.7, " ".join(one.name for one in CHINA[:24])),
    "note": Kind(
        "短期融资券", 130000000, 9, (1,), 0.5, " ".join(one.name for one in CHINA[24:])
    ),
}  # fmt: skip
_SINCE: Final = date(2012, 1, 9)
"""A Monday, on which the first bond of each kind is issued."""


@dataclass(frozen=True, slots=True)
class Bond:
    """A bond of 100 yuan. `rates` are its coupons by year, in percent, and `paid_back` is what its
    holder gets at the end; `spread` is what its issuer pays above the treasury's curve, in percent.
    """

    code: str
    name: str
    kind: str
    issuer: str
    issued: date
    matures: date
    rates: tuple[float, ...]
    spread: float
    size: float
    """What is issued, in hundred million yuan."""

    paid_back: float = 100.0
    share: str = ""
    """The key of the share into which it converts."""

    strike: float = 0.0
    """The conversion price when it is issued."""

    @property
    def dates(self) -> list[date]:
        """The days of its payments."""
        last, number = self.matures, len(self.rates)
        return [_later(last, -n) for n in range(number)][::-1]

    def left(self, days: Sequence[date]) -> tuple[Floats, Floats]:
        """The years to each payment by day, and the payments; those of the past are 0."""
        ends = np.array([day.toordinal() for day in self.dates], dtype=np.float64)
        at = np.array([day.toordinal() for day in days], dtype=np.float64)
        years = (ends - at[:, None]) / 365
        amounts = np.array(self.rates) + np.array([0.0] * (len(ends) - 1) + [self.paid_back])
        return np.maximum(years, 0.0), np.where(years > 0, amounts, 0.0)

    def accrued(self, days: Sequence[date]) -> Floats:
        """The interest since the last payment."""
        years, amounts = self.left(days)
        place = np.argmax(amounts > 0, axis=1)
        ahead = years[np.arange(len(days)), place]
        due = np.where(amounts.any(axis=1), np.array(self.rates)[place], 0.0)
        found: Floats = due * np.clip(1 - ahead, 0.0, 1.0)
        return found

    def worth(self, world: World, days: Sequence[date]) -> Floats:
        """What its payments are worth, with accrued interest."""
        years, amounts = self.left(days)
        found: Floats = (amounts * Curve(world, "CN", days, self.spread).discount(years)).sum(1)
        return found

    def yields(self, days: Sequence[date], full: Floats) -> Floats:
        """The yields to maturity by the prices with accrued interest, in percent a year."""
        years, amounts = self.left(days)
        rate = np.full(len(days), 0.02)
        for _ in range(12):  # Newton's method; the price is convex in the rate
            parts = amounts * (1 + rate[:, None]) ** -years
            slope = (parts * years).sum(1) / (1 + rate)
            rate = np.clip(rate + (parts.sum(1) - full) / np.maximum(slope, 1e-9), -0.9, 10.0)
        found: Floats = rate * 100
        return found

    def strikes(self, world: World, days: Sequence[date]) -> Floats:
        """The conversion prices by day, lowered by what the share paid out."""
        made = world.history(self.share)
        factor = made.factor[_places(made.days, [self.issued, *days])]
        found: Floats = np.round(self.strike * factor[0] / factor[1:], 2)
        return found

    def converted(self, world: World, days: Sequence[date]) -> Floats:
        """What the shares are worth that the holder may take instead."""
        made = world.history(self.share)
        closes = made.close[_places(made.days, days)]
        found: Floats = np.round(100 * closes / self.strikes(world, days), 4)
        return found

    def closes(self, world: World, days: Sequence[date]) -> Floats:
        """The clean prices by day; a convertible bond's are above both of its values."""
        worth = self.worth(world, days)
        if not self.share:
            return np.round(worth - self.accrued(days), 3)
        swap = self.converted(world, days)
        years = self.left(days)[0][:, -1]
        half, open_ = (swap - worth) / 2, 0.06 * worth * np.sqrt(years)
        return np.round((swap + worth) / 2 + np.hypot(half, open_), 3)

    def bars(self, world: World, first: date | None = None) -> list[Bar]:
        """The bars of its days on the exchange, from `first` on."""
        every = world.days("CN")
        end = min(self.matures - timedelta(1), world.now)
        days = every[between(every, max(first or FIRST, self.issued), end)]
        if not days:
            return []
        before = every[max(between(every, None, days[0]).stop - 2, 0)]
        closes = self.closes(world, [max(before, self.issued), *days])
        return _bars(world, days, closes, (1000 if self.share else 20) * self.size)


def _bars(world: World, days: Sequence[date], closes: Floats, volume: float) -> list[Bar]:
    """The bars of these days; the first close is that of the day before."""
    found = list[Bar]()
    gaps, deals = (_wave(world, f"bonds {what}", days).tolist() for what in ("open", "volume"))
    lasts = closes.tolist()
    for day, last, close, gap, busy in zip(days, lasts, lasts[1:], gaps, deals, strict=False):
        opened = round(last + (close - last) * min(max(0.5 + 0.3 * gap, 0.0), 1.0), 3)
        room = 0.1 * abs(close - last) + 0.001
        high, low = round(max(opened, close) + room, 3), round(min(opened, close) - room, 3)
        number = round(volume * float(np.exp(0.5 * busy))) + 1
        found.append(Bar(day, opened, high, low, close, last, number))
    return found


_REPOS: Final = {
    "sh204001": 1, "sh204002": 2, "sh204003": 3, "sh204004": 4, "sh204007": 7, "sh204014": 14,
    "sh204028": 28, "sh204091": 91, "sh204182": 182, "sz131810": 1, "sz131811": 2, "sz131800": 3,
    "sz131809": 4, "sz131801": 7, "sz131802": 14, "sz131803": 28, "sz131805": 91, "sz131806": 182,
}  # fmt: skip
"""The days of the repos that are traded on the exchanges."""


def history(world: World, key: str) -> History:
    """The days of a bond, or of a repo by its rate in percent a year."""
    if key in _REPOS:
        days = world.days("CN")
        rates = money(world, "exchange", "CNY", [days[0], *days], _REPOS[key] / 365)
        bars = _bars(world, days, np.round(np.array(rates), 3), 5e6 / _REPOS[key])
    else:
        bars = bond(world, key[2:]).bars(world)
    columns = [[bar[n] for bar in bars] for n in range(1, 6)]
    opened, high, low, close, before = (np.array(column) for column in columns)
    volume = np.array([bar.volume for bar in bars], dtype=np.int64)
    days = tuple(bar.day for bar in bars)
    return History(days, opened, high, low, close, before, volume, np.ones(len(bars)), ())


def _places(known: tuple[date, ...], days: Sequence[date]) -> list[int]:
    """The places of the last known days up to these."""
    ordinals = np.array([day.toordinal() for day in known])
    asked = [day.toordinal() for day in days]
    found: list[int] = np.maximum(np.searchsorted(ordinals, asked, "right") - 1, 0).tolist()
    return found


def _opened(day: date) -> date:
    """This day, or the next one on which Shanghai trades."""
    days = trading_days("CN", LAST)
    return days[min(bisect_left(days, day), len(days) - 1)]


def _later(day: date, years: int) -> date:
    return day.replace(year=day.year + years, day=min(day.day, 28))


def bond(world: World, code: str) -> Bond:
    """The bond of a code: of a kind by its number, else a convertible one. A code that has no
    number among those issued is a treasury bond.
    """
    number = int(code) if code.isdecimal() else sum(code.encode())
    for kind, sort in KINDS.items():
        place = number - sort.first
        if place >= 0 and sort.first // 1000 == number // 1000:
            return _issue(world, kind, place)
    if code[:2] in {"11", "12"}:
        return _convertible(world, code)
    return _issue(world, "treasury", number % 100, code)


def issued(world: World, kind: str, first: date, last: date) -> list[Bond]:
    """The bonds of a kind that are issued in a range of days, up to now."""
    if kind == "convertible":
        every = [bond(world, code) for code in convertibles()]
        return [one for one in every if first <= one.issued <= min(last, world.now)]
    gap = KINDS[kind].gap
    low = max(0, (first - _SINCE).days // gap - 1)
    high = (min(last, world.now) - _SINCE).days // gap
    every = [_issue(world, kind, n) for n in range(low, high + 1)]
    return [one for one in every if first <= one.issued <= min(last, world.now)]


def convertibles() -> list[str]:
    """The codes of the listed convertible bonds, one for each share."""
    return [f"{113 if one.key[:2] == 'sh' else 127}{900 + at}" for at, one in enumerate(CHINA)]


def _issue(world: World, kind: str, place: int, code: str = "") -> Bond:
    """A bond's coupon is the yield of its term on the day on which it is issued."""
    sort = KINDS[kind]
    day = _opened(_SINCE + timedelta(sort.gap * place))
    term = sort.terms[place % len(sort.terms)]
    spread = sort.spread * (0.6 + 0.8 * world.luck("spread", kind, place)) if sort.spread else 0.0
    ((rate,),) = yields(world, "CN", [day], [term], spread)
    issuers = sort.issuers.split()
    issuer = issuers[place % len(issuers)]
    short = sort.name if kind == "treasury" else issuer.removesuffix("省人民政府")
    name = f"{day:%y}{short}{'CP' if kind == 'note' else ''}{place % 100:02}"
    size = round(20 + 80 * world.luck("size", kind, place), 1) * (10 if kind == "treasury" else 1)
    code = code or f"{sort.first + place:06}"
    rates = (round(rate, 2),) * term
    return Bond(code, name, kind, issuer, day, _later(day, term), rates, spread, size)


def _convertible(world: World, code: str) -> Bond:
    """Its conversion price is a little above the share's on the day on which it is issued."""
    one = CHINA[(int(code[-3:]) - 900) % len(CHINA)]
    day = _opened(date(2021, 2, 1) + timedelta(int(1000 * world.luck("issued", code))))
    strike = round(world.close(one.key, day) * (1 + 0.15 * world.luck("strike", code)), 2)
    size, spread = round(3 + 60 * world.luck("size", code), 1), 0.8 + world.luck("spread", code)
    name, rates = f"{one.name[:2]}转债", (0.2, 0.4, 0.6, 1.2, 1.6, 2.0)
    details = (_later(day, 6), rates, round(spread, 2), size, 108.0, one.key, strike)
    return Bond(code, name, "convertible", one.name, day, *details)


# --- figures that are released -------------------------------------------------------------------


class Series(NamedTuple):
    """A figure of every so many `months`: an index or amount that grows by `growth` percent a year
    from its `level` at the end of 2023, or a level without growth. `spread` is the size of a
    period's surprise in percent, or that of the level's moves. China releases it `lag` days after
    the period, other countries a few days later.
    """

    name: str
    unit: str
    months: int
    lag: int
    level: float
    growth: float
    spread: float


COUNTRIES: Final = {
    "CN": "中国", "US": "美国", "EU": "欧元区", "GB": "英国", "JP": "日本", "DE": "德国",
    "AU": "澳大利亚", "CA": "加拿大",
}  # fmt: skip
_EVERYWHERE: Final = {
    "CPI": Series("消费者物价指数", "指数", 1, 12, 100.0, 2.2, 0.15),
    "PPI": Series("生产者物价指数", "指数", 1, 13, 100.0, 1.5, 0.4),
    "GDP": Series("国内生产总值", "亿", 3, 18, 60_000.0, 2.0, 0.5),
    "production": Series("工业产出", "指数", 1, 16, 100.0, 1.6, 0.5),
    "retail": Series("零售销售", "亿", 1, 17, 5_000.0, 3.2, 0.6),
    "unemployment": Series("失业率", "%", 1, 8, 4.6, 0.0, 0.3),
    "PMI": Series("制造业PMI", "", 1, 1, 50.2, 0.0, 1.2),
    "exports": Series("出口", "亿", 1, 9, 2_000.0, 3.0, 1.5),
    "imports": Series("进口", "亿", 1, 9, 1_900.0, 3.0, 1.5),
    "confidence": Series("消费者信心指数", "", 1, 3, 95.0, 0.0, 4.0),
    "policy": Series("政策利率", "%", 1, 0, 0.0, 0.0, 0.25),
}
_CHINA: Final = {
    "GDP": Series("国内生产总值", "亿元", 3, 17, 310_000.0, 4.9, 0.4),
    "CPI": Series("居民消费价格指数", "指数", 1, 9, 100.0, 1.0, 0.25),
    "PPI": Series("工业生产者出厂价格指数", "指数", 1, 9, 100.0, 0.3, 0.45),
    "retail": Series("社会消费品零售总额", "亿元", 1, 16, 39_000.0, 4.0, 0.5),
    "production": Series("规模以上工业增加值", "指数", 1, 16, 100.0, 5.2, 0.4),
    "policy": Series("一年期LPR", "%", 1, 0, 1.5, 0.0, 0.05),
    "M0": Series("流通中货币", "亿元", 1, 12, 113_000.0, 9.0, 0.6),
    "M1": Series("货币", "亿元", 1, 12, 680_000.0, 4.0, 0.5),
    "M2": Series("货币和准货币", "亿元", 1, 12, 2_920_000.0, 7.5, 0.3),
    "reserves": Series("外汇储备", "亿美元", 1, 7, 32_300.0, 0.0, 300.0),
    "population": Series("年末总人口", "万人", 12, 17, 140_967.0, -0.1, 0.01),
    "income": Series("居民人均可支配收入", "元", 3, 17, 10_300.0, 5.2, 0.3),
    "house": Series("新建商品住宅价格指数", "指数", 1, 16, 100.0, 1.5, 0.35),
    "used": Series("二手住宅价格指数", "指数", 1, 16, 100.0, 0.8, 0.4),
}
_ENDS: Final = tuple(
    date(month // 12, month % 12 + 1, 1) - timedelta(1)
    for month in range(2005 * 12 + 1, (LAST.year + 1) * 12 + 1)
)
"""The last days of all months."""


class Figure(NamedTuple):
    """A period's figure; `period` is its last day. Changes are in percent, `None` before the first
    year or month.
    """

    period: date
    released: date
    value: float
    before: float | None
    year_before: float | None
    total: float
    """That of the year up to its end."""

    total_before: float | None
    """That of the same part of the year before."""

    def told(self, way: str) -> float | None:
        """What the end of a title says: the change on the year (`同比`) or on the period before
        (`环比`), the year so far (`累计`) or its change (`累计增长`), else the value.
        """
        ways = {"同比": self.yoy, "环比": self.mom, "累计": self.total, "累计增长": self.total_yoy}
        return ways.get(way[-2:] if way[-4:] not in ways else way[-4:], self.value)

    @property
    def mom(self) -> float | None:
        """The change on the period before."""
        return None if self.before is None else round((self.value / self.before - 1) * 100, 2)

    @property
    def yoy(self) -> float | None:
        """The change on the year."""
        year_before = self.year_before
        return None if year_before is None else round((self.value / year_before - 1) * 100, 2)

    @property
    def total_yoy(self) -> float | None:
        """The change of the year up to its end on that of the year before."""
        before = self.total_before
        return None if before is None else round((self.total / before - 1) * 100, 2)


def series(country: str, name: str) -> Series:
    """What a figure is. `KeyError` if there is none."""
    return (_CHINA.get(name) if country == "CN" else None) or _EVERYWHERE[name]


def figures(
    world: World, country: str, name: str, where: str = "", since: date = FIRST
) -> list[Figure]:
    """The figures of a country, or of a place in it, that are released from `since` on."""
    what = series(country, name)
    ends = [end for end in _ENDS[what.months - 1 :: what.months] if end <= world.now]
    key = f"figure {country} {name} {where}"
    moves, moved = list[float](), 0.0
    for one in np.clip(world.shocks(len(_ENDS) // what.months, "noise", key), -3, 3).tolist():
        moved = 0.6 * moved + 0.8 * one
        moves.append(moved)
    walk = np.array(moves[: len(ends)])
    if name == "policy":  # the short end of the curve, `level` higher, in steps
        short = Curve(world, country, ends).short + what.level
        values = np.round(short / what.spread) * what.spread
    elif what.growth:
        steps = what.growth * what.months / 1200 + what.spread * walk / 100
        anchor = len([end for end in ends if end.year < ANCHOR.year]) - 1
        path = np.cumsum(steps)
        scale = 0.7 + 0.6 * world.luck(key) if where and what.unit != "指数" else 1.0
        if where and name == "GDP":
            scale /= 31  # there are as many provinces
        values = what.level * scale * np.exp(path - path[anchor])
    else:
        values = what.level + what.spread * walk
    digits = 2 if name == "policy" else {"%": 1, "": 1, "指数": 4}.get(what.unit, 2)
    told: list[float] = np.round(values, digits).tolist()
    back = 12 // what.months
    totals = [round(sum(told[at // back * back : at + 1]), 2) for at in range(len(told))]
    lag = what.lag + 2 * [*COUNTRIES].index(country)
    return [
        Figure(
            end,
            end + timedelta(lag),
            value,
            told[at - 1] if at else None,
            told[at - back] if at >= back else None,
            totals[at],
            totals[at - back] if at >= back else None,
        )
        for at, (end, value) in enumerate(zip(ends, told, strict=True))
        if since <= end + timedelta(lag) <= world.now
    ]


class Event(NamedTuple):
    """What a calendar tells of a release: the values of its period and of the one before."""

    day: date
    country: str
    title: str
    actual: float | None
    previous: float | None

    @property
    def expected(self) -> float | None:
        """What was thought before: between the two values."""
        if self.actual is None or self.previous is None:
            return self.actual
        return round(0.7 * self.actual + 0.3 * self.previous, 4)


_EVENTS: Final = {
    "CPI": "CPI同比 CPI环比", "PPI": "PPI同比", "GDP": "GDP同比", "production": "工业产出同比",
    "retail": "零售销售同比", "unemployment": "失业率", "PMI": "制造业PMI", "exports": "出口同比",
    "imports": "进口同比", "confidence": "消费者信心指数", "M2": "M2同比", "reserves": "外汇储备",
    "policy": "政策利率",
}  # fmt: skip
"""What calendars tell of a figure."""


def events(world: World, first: date, last: date) -> list[Event]:
    """The releases of a range of days, and the yields of ten years of its days of trading."""
    found = list[Event]()
    exchanges: tuple[tuple[str, Exchange], ...] = (("CN", "CN"), ("US", "US"))
    for country, exchange in exchanges:
        days = world.days(exchange)
        days = days[between(days, first - timedelta(12), last)]
        rates = [round(rate, 3) for (rate,) in yields(world, country, days, [10])]
        for before, rate, day in zip(rates, rates[1:], days[1:], strict=False):
            if first <= day:
                found.append(Event(day, country, "10年期国债收益率", rate, before))
    for country in COUNTRIES:
        for name, titles in _EVENTS.items():
            if (country != "CN" and name not in _EVERYWHERE) or (country, name) == ("DE", "policy"):
                continue
            known = figures(world, country, name, since=first - timedelta(200))
            for past, one in pairwise(known):
                if first <= one.released <= last:
                    for title in titles.split():
                        found.append(
                            Event(one.released, country, title, one.told(title), past.told(title))
                        )
    return sorted(found, key=lambda event: event.day)
