"""Futures and options of the world.

A future of a month is its spot at a constant carry, `F = S exp(c T)`, so that all months meet the
spot at their expiry. An option is worth what F. Black ("The pricing of commodity contracts",
Journal of Financial Economics 3, 1976) gives for the future price of its underlying, with the
volatility of the 60 days before and a smile: a call and a put of one strike have one volatility,
and their parity holds up to the tick.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapters.simulator.world.calendar import FIRST, LAST, Exchange, between, trading_days
from adapters.simulator.world.instruments import FUTURES, Instrument

if TYPE_CHECKING:
    from adapters.simulator.world.world import History, World

Floats = NDArray[np.float64]

_AHEAD: Final = 13
"""How many months of a future are traded at most."""

_LISTED_FOR: Final = timedelta(240)
_OF_INDEX: Final = {"IF": "sh000300", "IH": "sh000016", "IC": "sh000905", "IM": "sh000852"}
_OPTIONS_OF_INDEX: Final = {"IO": "IF", "HO": "IH", "MO": "IM"}
"""The futures that share an underlying with these options."""

OPTION_FUNDS: Final = {
    "510050": "50ETF",
    "510300": "300ETF",
    "510500": "500ETF",
    "588000": "科创50",
}
"""Funds of Shanghai with options, and what Sina calls them."""


class Month(NamedTuple):
    """A month in which a contract expires."""

    year: int
    month: int

    @classmethod
    def read(cls, digits: str, now: date) -> "Month | None":
        """Read `2609`, or `609` as Zhengzhou writes it: of the decade that is nearest to now."""
        number = int(digits[-2:])
        if not 1 <= number <= 12:
            return None
        year = int(digits[:-2])
        if len(digits) == 3:
            year += (now.year - year + 5) // 10 * 10
        else:
            year += 2000
        return cls(year, number)

    def __str__(self) -> str:
        return f"{self.year % 100:02}{self.month:02}"


def _month(number: int) -> Month:
    return Month(number // 12, number % 12 + 1)


def _traded(day: date) -> date:
    """The day, or the next one on which exchanges trade."""
    days = trading_days("CN", LAST)
    return next(iter(days[between(days, day, None)]), day)


def _nth(year: int, month: int, weekday: int, number: int) -> date:
    first = date(year, month, 1)
    return first + timedelta((weekday - first.weekday()) % 7 + 7 * (number - 1))


# --- futures -------------------------------------------------------------------------------------


def future_of(key: str, now: date) -> tuple[str, Month | None] | None:
    """The product and the month of a key such as `future:RB2610`; no month for the main contract,
    `future:RB0`.
    """
    found = re.fullmatch(r"future:([A-Z]+)(\d{3,4}|0)", key)
    if found is None:
        return None
    month = None if found[2] == "0" else Month.read(found[2], now)
    return None if month is None and found[2] != "0" else (found[1], month)


def spot_of(product: str) -> str:
    """The key of what a future is about."""
    return _OF_INDEX.get(product, f"future:{product}")


def expiry(product: str, month: Month) -> date:
    """The last day of trading: the third Friday for an index, else the middle of the month."""
    if product in _OF_INDEX:
        return _traded(_nth(*month, 4, 3))
    return _traded(date(*month, 15))


def carry(world: "World", product: str) -> float:
    """What a future costs more for each year to its expiry, as a share of the spot."""
    return (world.luck("carry", product) - 0.5) * (0.03 if product in _OF_INDEX else 0.10)


@cache
def _shares(product: str) -> tuple[NDArray[np.int64], Floats]:
    """For each day of the calendar and the months from its own on: the days that are left, and the
    contract's share of trading and of open positions.
    """
    days = trading_days("CN", LAST)
    start, count = FIRST.year * 12, (LAST.year - FIRST.year + 2) * 12
    ends = np.array([expiry(product, _month(start + n)).toordinal() for n in range(count)])
    ordinals = np.array([day.toordinal() for day in days])
    first = np.array([day.year * 12 + day.month - 1 - start for day in days])
    places = first[None, :] + np.arange(_AHEAD)[:, None]
    left = ends[places] - ordinals
    numbers = places % 12 + 1
    if product in _OF_INDEX:
        nearest = np.cumsum(left >= 0, axis=0)
        is_listed = (left >= 0) & ((nearest <= 2) | ((numbers % 3 == 0) & (left < 270)))
        weights = np.exp(-left / 30.0) * np.minimum(1, (left + 1) / 5)
    else:
        is_listed = (left >= 0) & (left < 365)
        main = FUTURES[product].main if product in FUTURES else (1, 5, 9)
        popular = np.where(np.isin(numbers, main), 1.0, 0.06)
        weights = popular * np.exp(-(((left - 110) / 75.0) ** 2)) * np.minimum(1, (left + 1) / 30)
    weights = np.where(is_listed, np.maximum(weights, 1e-4), 0.0)
    return np.where(is_listed, left, -1), weights / weights.sum(axis=0)


def months(product: str, day: date) -> list[tuple[Month, float]]:
    """The months that are traded on a day, and the share of each in the trading."""
    days = trading_days("CN", LAST)
    at = max(between(days, None, day).stop - 1, 0)
    left, shares = _shares(product)
    start = days[at].year * 12 + days[at].month - 1
    return [(_month(start + n), float(shares[n, at])) for n in range(_AHEAD) if left[n, at] >= 0]


def main_month(product: str, day: date) -> Month:
    """The month that is traded most."""
    return max(months(product, day), key=lambda one: one[1])[0]


def future(world: "World", product: str, month: Month | None) -> "History":
    """The days of one month of a future, or those of the contract that is traded most."""
    spot, by = world.history(spot_of(product)), carry(world, product)
    number = len(spot.days)
    left, shares = (made[:, :number] for made in _shares(product))
    if month is None:
        main = np.argmax(shares, axis=0)
        places = np.arange(number)
        passed, share, where = left[main, places], shares[main, places], slice(0, number)
    else:
        own = month.year * 12 + month.month - 1
        row = own - np.array([day.year * 12 + day.month - 1 for day in spot.days])
        inside = (row >= 0) & (row < _AHEAD)
        row = np.where(inside, row, 0)
        passed = np.where(inside, left[row, np.arange(number)], -1)
        share, listed = shares[row, np.arange(number)], np.flatnonzero(passed >= 0)
        where = slice(int(listed[0]), int(listed[-1]) + 1) if len(listed) else slice(0, 0)
    passed, share = passed[where], share[where]
    grown, digits = np.exp(by * passed / 365), world.instrument(spot_of(product)).digits
    opened, high, low, close = (
        np.round(column[where] * grown, digits)
        for column in (spot.open, spot.high, spot.low, spot.close)
    )
    before = np.concatenate((np.round(spot.before[where][:1] * grown[:1], digits), close[:-1]))
    total = _total(product, spot, where)
    volume = np.maximum(total * share, 1).astype(np.int64)
    return replace(
        spot, days=spot.days[where], open=opened, high=high, low=low, close=close, before=before,
        volume=volume, factor=np.ones(len(close)), payouts=(),
    )  # fmt: skip


def _total(product: str, spot: "History", where: slice) -> Floats:
    """How much of all months is traded, in lots."""
    volume = spot.volume[where].astype(np.float64)
    if product in _OF_INDEX:  # an index's own volume counts shares of its members
        volume *= 1.2e5 / float(spot.volume[:250].mean())
    return volume


def open_interest(world: "World", key: str, days: Sequence[date]) -> list[int]:
    """The open positions of a contract at the end of these days, in lots."""
    found = future_of(key, world.now)
    product, month = found or (key.removeprefix("future:"), None)
    every = trading_days("CN", LAST)
    left, shares = _shares(product)
    days = [date(day.year, day.month, day.day) for day in days]  # those of minutes have a time
    held = world.series(f"hold {product}", days, 1.2e6, 0.004)
    result = list[int]()
    for day, total in zip(days, held, strict=True):
        at = max(between(every, None, day).stop - 1, 0)
        if month is None:
            share = float(shares[:, at].max())
        else:
            row = month.year * 12 + month.month - every[at].year * 12 - every[at].month
            share = float(shares[row, at]) if 0 <= row < _AHEAD and left[row, at] >= 0 else 0.0
        result.append(round(total * share))
    return result


# --- options -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """A European option. `family` is a fund's code, `IO`, `HO`, `MO`, a future's product or, for
    shares of New York, such as `us.AAPL`.
    """

    family: str
    month: Month
    is_call: bool
    strike: float

    @property
    def key(self) -> str:
        kind, units = "C" if self.is_call else "P", self.strike
        if self.family.isdecimal():
            return f"option:{self.family}{self.month}{kind}{round(units * 1000):05}"
        return f"option:{self.family}{self.month}{kind}{units:g}"

    @property
    def underlying(self) -> str:
        if self.family.isdecimal():
            return f"{'sh' if self.family[0] == '5' else 'sz'}{self.family}"
        if self.family in _OPTIONS_OF_INDEX:
            return _OF_INDEX[_OPTIONS_OF_INDEX[self.family]]
        if self.family.startswith("us."):
            return self.family.replace(".", ":", 1)
        return f"future:{self.family}{self.month}"

    @property
    def expiry(self) -> date:
        return option_expiry(self.family, self.month)

    @property
    def digits(self) -> int:
        return 4 if self.family.isdecimal() else 2 if self.family.startswith("us.") else 1

    @property
    def code(self) -> str:
        """Shanghai's number of an option on a fund."""
        family = list(OPTION_FUNDS).index(self.family)
        months_ = (self.month.year - 2015) * 12 + self.month.month - 1
        rung = 2 * _ladder().index(self.strike) + (not self.is_call)
        return f"1{family}{months_:03}{rung:03}"


def option_of(key: str, now: date) -> Option | None:
    """The option of a key such as `option:IO2607C4000` or `option:5100502607C02500`."""
    found = re.fullmatch(
        r"option:(\d{6}|[A-Z]{1,2}|us\.[A-Z.]+)(\d{3,4})([CP])(\d+(?:\.\d+)?)", key
    )
    month = Month.read(found[2], now) if found else None
    if found is None or month is None:
        return None
    strike = float(found[4]) / (1000 if found[1].isdecimal() else 1)
    return Option(found[1], month, found[3] == "C", strike) if strike > 0 else None


def option_by_code(world: "World", code: str) -> Option:
    """The option on a fund by Shanghai's number; a number of no option is one of those traded."""
    if found := re.fullmatch(r"1(\d)(\d{3})(\d{3})", code):
        family, number, rung = (int(text) for text in found.groups())
        ladder = _ladder()
        if family < len(OPTION_FUNDS) and rung // 2 < len(ladder) and number >= 24:
            month = _month(2015 * 12 + number)
            return Option([*OPTION_FUNDS][family], month, rung % 2 == 0, ladder[rung // 2])
    traded = chain(world, "510050", option_months("510050", world.now)[0])
    return traded[int(code) % len(traded) if code.isdecimal() else 0]


def option_expiry(family: str, month: Month) -> date:
    """The last day of an option: the fourth Wednesday for a fund, the third Friday for an index,
    else about three weeks before the future's month.
    """
    if family.isdecimal():
        return _traded(_nth(*month, 2, 4))
    if family.startswith("us."):
        return _nth(*month, 4, 3)
    if family in _OPTIONS_OF_INDEX:
        return _traded(_nth(*month, 4, 3))
    return _traded(date(*month, 1) - timedelta(8))


def option_months(family: str, day: date) -> list[Month]:
    """The months that are traded on a day, the nearest first."""
    start = day.year * 12 + day.month - 1
    if family.isdecimal() or family in _OPTIONS_OF_INDEX or family.startswith("us."):
        found = [one for n in range(12) if option_expiry(family, one := _month(start + n)) >= day]
        quarters = [one for one in found[2:] if one.month % 3 == 0]
        return [*found[:2], *quarters[:2]]
    return [one for one, _ in months(family, day) if option_expiry(family, one) >= day][:6]


@cache
def _ladder() -> list[float]:
    """The strikes of funds, as their exchange steps them."""
    steps = ((0.5, 3, 0.05), (3, 5, 0.1), (5, 10, 0.25), (10, 20, 0.5))
    return [
        round(low + step * n, 3)
        for low, high, step in steps
        for n in range(round((high - low) / step))
    ]


def _rungs(family: str, low: float, high: float) -> list[float]:
    if family.isdecimal():
        return [strike for strike in _ladder() if low <= strike <= high]
    middle = (low + high) / 2
    if family in _OPTIONS_OF_INDEX:
        step = 50.0 if middle < 5000 else 100.0
    else:
        size = 10.0 ** math.floor(math.log10(middle / 40))
        step = size * next(n for n in (1, 2, 5, 10) if middle / 40 <= size * n)
    return [step * n for n in range(math.ceil(low / step), int(high / step) + 1)]


def chain(world: "World", family: str, month: Month) -> list[Option]:
    """All options of one month, the calls first: strikes around what the underlying was worth."""
    one = Option(family, month, True, 1.0)
    made = world.history(one.underlying)
    first = max(one.expiry - _LISTED_FOR, FIRST)
    closes = made.close[between(made.days, first, one.expiry)]
    if not len(closes):
        return []
    strikes = _rungs(family, 0.88 * float(closes.min()), 1.12 * float(closes.max()))
    return [Option(family, month, is_call, k) for is_call in (True, False) for k in strikes]


def rate_on(world: "World", days: Sequence[date], years: Floats, country: str = "CN") -> Floats:
    """The treasury's zero rate of a term by day, with continuous compounding: a fraction of one a
    year.
    """
    from adapters.simulator.world.economy import Curve  # it reads the world

    rates: Floats = Curve(world, country, days).zero(years[:, None])[:, 0] / 100
    return rates


class Terms(NamedTuple):
    """What an option's price depends on, by day: future price by spot, years left, rate, and the
    volatility of a year.
    """

    ahead: Floats
    years: Floats
    rate: Floats
    volatility: Floats


def _terms(world: "World", one: Option, made: "History", where: slice) -> Terms:
    days, last = made.days[where], one.expiry
    years = np.maximum([(last - day).days for day in days], 0.02) / 365
    rate = rate_on(world, days, years, "US" if one.family.startswith("us.") else "CN")
    if one.family.isdecimal() or one.family.startswith("us."):
        ahead = np.exp(rate * years)
    elif one.family in _OPTIONS_OF_INDEX:
        ahead = np.exp(carry(world, _OPTIONS_OF_INDEX[one.family]) * years)
    else:
        ahead = np.ones(len(days))
    spot = made if not one.underlying.startswith("future:") else world.history(spot_of(one.family))
    first = bisect_left(spot.days, days[0]) if days else 0
    start = max(first - 61, 0)
    moves = np.diff(np.log(spot.close[start : first + len(days)]), prepend=np.nan)[1:]
    sums = np.cumsum(np.concatenate(([0.0], moves**2)))
    places = np.arange(first - start, first - start + len(days)) - 1
    places = np.maximum(places, 0)
    since = np.maximum(places - 60, 0)
    yearly = np.sqrt(242 * (sums[places] - sums[since]) / np.maximum(places - since, 1))
    spread = np.log(one.strike / (made.close[where] * ahead))
    smile = 1 + np.clip(1.2 * spread**2 - 0.25 * spread, -0.2, 0.6)
    return Terms(ahead, years, rate, np.clip(yearly, 0.06, 1.2) * smile)


def _normal(x: Floats) -> Floats:
    """The normal distribution: the approximation 26.2.17 of Abramowitz and Stegun (1964), right to
    7.5e-8, and made symmetric so that parity holds.
    """
    t = 1 / (1 + 0.2316419 * np.abs(x))
    powers = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    tail = np.zeros_like(x)
    for factor in reversed(powers):
        tail = (tail + factor) * t
    tail *= np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    worth: Floats = np.where(x >= 0, 1 - tail, tail)
    return worth


def black(one: Option, price: Floats, terms: Terms) -> Floats:
    """The value of an option by the price of its underlying."""
    ahead = price * terms.ahead
    size = terms.volatility * np.sqrt(terms.years)
    d = np.log(ahead / one.strike) / size + size / 2
    sign = 1 if one.is_call else -1
    worth: Floats = (
        np.exp(-terms.rate * terms.years)
        * sign
        * (ahead * _normal(sign * d) - one.strike * _normal(sign * (d - size)))
    )
    return worth


def option(world: "World", one: Option) -> "History":
    """The days of one option."""
    made = world.history(one.underlying)
    where = between(made.days, one.expiry - _LISTED_FOR, one.expiry)
    terms, days = _terms(world, one, made, where), made.days[where]
    low, high = (made.low, made.high) if one.is_call else (made.high, made.low)
    opened, high, low, close = (
        np.maximum(np.round(black(one, price[where], terms), one.digits), 10.0**-one.digits)
        for price in (made.open, high, low, made.close)
    )
    away = np.log(one.strike / made.close[where]) / 0.08
    luck = world.uniforms(len(days), "option volume", one.key)
    volume = np.maximum(4e4 * np.exp(-(away**2)) * (0.5 + luck), 1).astype(np.int64)
    before = np.concatenate((opened[:1], close[:-1]))
    return replace(
        made, days=days, open=opened, high=high, low=low, close=close, before=before,
        volume=volume, factor=np.ones(len(days)), payouts=(),
    )  # fmt: skip


def parity(world: "World", one: Option) -> Floats:
    """What a call is worth more than a put of its strike, by day."""
    made = world.history(one.underlying)
    where = between(made.days, one.expiry - _LISTED_FOR, one.expiry)
    terms = _terms(world, one, made, where)
    gap: Floats = made.close[where] * terms.ahead - one.strike
    return gap * np.exp(-terms.rate * terms.years)


class Greeks(NamedTuple):
    """The sensitivities of an option: to the underlying, to that of `delta`, to a day, and to a
    point of volatility; and the volatility of a year.
    """

    delta: float
    gamma: float
    theta: float
    vega: float
    volatility: float


def greeks(world: "World", one: Option) -> Greeks:
    """Those of the last day."""
    made = world.history(one.underlying)
    stop = between(made.days, None, one.expiry).stop
    where = slice(stop - 1, stop)
    terms, price = _terms(world, one, made, where), made.close[where]

    def worth(by: float = 1.0, **changed: Floats) -> float:
        return float(black(one, price * by, terms._replace(**changed))[0])

    step, now = float(price[0]) * 0.01, worth()
    up, down = worth(1.01), worth(0.99)
    later = worth(years=np.maximum(terms.years - 1 / 365, 0.02 / 365))
    wilder = worth(volatility=terms.volatility + 0.01)
    delta, gamma = (up - down) / (2 * step), (up - 2 * now + down) / step**2
    return Greeks(delta, gamma, later - now, wilder - now, float(terms.volatility[0]))


def contract(key: str, base: Instrument) -> Instrument:
    """What a contract of a future is, by what its product is."""
    code = key.partition(":")[2]
    name = base.name + (code[len(base.code) :] if code[-2:] != f"{base.code[-1]}0" else "连续")
    return replace(base, key=key, code=code, name=name)


def option_instrument(one: Option) -> Instrument:
    """What an option is. Its price has no level of its own."""
    code = one.key.partition(":")[2]
    kind = "购" if one.is_call else "沽"
    name = f"{OPTION_FUNDS.get(one.family, one.family)}{kind}{one.month.month}月{one.strike:g}"
    exchange: Exchange = "US" if one.family.startswith("us.") else "CN"
    return Instrument(one.key, code, name, "option", exchange, 1.0, digits=one.digits)
