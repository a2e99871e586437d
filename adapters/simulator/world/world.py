"""One made-up market behind every simulated upstream: what is asked for twice has one answer.

Nothing is stored that the seed can give again. An instrument's history is made as a whole, from
`FIRST` to the world's `now`, whatever range is asked for. A later `now` adds days and changes none.

A day's return is a market's and its own. Each has heavy tails (Student's t with 4 degrees of
freedom, by its closed-form quantile: Shaw 2006) and a volatility that clusters over a week, a
month and half a year (Corsi 2009, in logarithms) and rises more after losses (Nelson 1991). Random
numbers are raw bits of Philox (Salmon et al. 2011), which numpy keeps from release to release.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapters.simulator.world.calendar import Exchange, between, trading_days
from adapters.simulator.world.instruments import CHINA, LISTED, Instrument, unlisted

VERSION: Final = 1
"""Changes whenever the world of a seed does."""

NOW: Final = date(2026, 6, 30)
ANCHOR: Final = date(2024, 1, 2)
"""The day on which an instrument has its level."""

LAST: Final = date(2026, 12, 31)
"""The last day of the calendars, up to which histories are made."""

Floats = NDArray[np.float64]

_WINDOWS: Final = (5, 22, 120)
_PERSISTENCE: Final = 0.30
_LEVERAGE: Final = 0.6
_FEE: Final = 0.005 / 365
_KEPT_OF_GAIN: Final = 0.9995
"""What is left of a gain on the next day: half of it after five years, so that no price is lost in
the ticks of its exchange.
"""

_KEPT: Final = 64
"""The histories that are at hand, of 0.3 MB each."""


class Bar(NamedTuple):
    """One price bar; `before` is the previous close, less what was paid out on the day, `volume`
    counts traded units.
    """

    day: date
    open: float
    high: float
    low: float
    close: float
    before: float
    volume: int

    @property
    def change(self) -> float:
        """Percent change on the previous close."""
        return (self.close / self.before - 1) * 100


class Payout(NamedTuple):
    """What a share's holder got on a day: cash for each share, and new shares for each."""

    day: date
    cash: float
    bonus: float


@dataclass(frozen=True, slots=True)
class History:
    """The days of one instrument. `factor` is by what a price is multiplied so that returns include
    what was paid out (backward adjustment).
    """

    days: tuple[date, ...]
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    before: Floats
    volume: NDArray[np.int64]
    factor: Floats
    payouts: tuple[Payout, ...]


class World:
    """The world of a seed up to the end of the day `now`. Any thread may read it."""

    def __init__(self, seed: int = 0, now: date = NOW) -> None:
        """Raises `ValueError` for a day outside the calendars."""
        if not ANCHOR <= now <= LAST:
            raise ValueError(f"the world's now is a day from {ANCHOR} to {LAST}, not {now}")
        self.seed = seed
        self.now = now
        self._history = lru_cache(_KEPT)(self._made)
        self._market = lru_cache(8)(self._of_market)
        self._walk = lru_cache(_KEPT)(self._walked)

    def days(self, exchange: Exchange) -> tuple[date, ...]:
        return trading_days(exchange, self.now)

    def instrument(self, key: str) -> Instrument:
        return LISTED.get(key) or unlisted(key, self.luck("level", key))

    def luck(self, *names: object) -> float:
        """A number from 0 to 1 that depends on the seed and these names alone."""
        return float(self._uniforms(1, *names)[0])

    def draws(self, number: int, *names: object) -> Floats:
        """So many numbers from 0 to 1; the first ones do not depend on how many."""
        return self._uniforms(number, *names)

    def history(self, key: str) -> History:
        """All days of an instrument up to now."""
        return self._history(key)

    def bars(
        self, key: str, first: date | None = None, last: date | None = None, *, adjust: str = ""
    ) -> list[Bar]:
        """The bars of a range by day. `adjust` is `hfq` or `qfq`: prices times the factor, or times
        the factor by that of the last day.
        """
        made = self.history(key)
        where = between(made.days, first, last)
        days, digits = made.days[where], self.instrument(key).digits
        columns = [made.open, made.high, made.low, made.close, made.before]
        if adjust:
            by = made.factor / (made.factor[-1] if adjust == "qfq" else 1.0)
            columns = [np.round(column * by, digits) for column in columns]
            columns[4] = np.concatenate((columns[4][:1], columns[3][:-1]))
        lists = [column[where].tolist() for column in columns]
        return list(map(Bar, days, *lists, made.volume[where].tolist()))

    def latest(self, key: str, number: int) -> list[Bar]:
        """The last bars, so many."""
        return self.bars(key, self.history(key).days[-number:][0])

    def close(self, key: str, day: date | None = None) -> float:
        """The close of a day, or the last one before it; by default the last one."""
        made = self.history(key)
        return float(made.close[max(between(made.days, None, day).stop - 1, 0)])

    def rate(self, base: str, quote: str, day: date | None = None) -> float:
        """What one unit of `base` is worth in `quote`. Cross rates follow from the dollar's."""
        return self._worth(base, day) / self._worth(quote, day)

    def series(self, name: str, days: Sequence[date], level: float, step: float) -> list[float]:
        """A figure of the economy on these days: a walk around `level`, pulled back to it."""
        made, start = self._walk(name, level, step), SERIES_FIRST.toordinal()
        return [made[day.toordinal() - start] for day in days]

    def _worth(self, currency: str, day: date | None) -> float:
        currency = "CNY" if currency == "CNH" else currency
        if f"fx:{currency}" not in LISTED and f"coin:{currency}" in LISTED:
            return self.close(f"coin:{currency}", day)
        return self.close(f"fx:{currency}", day)

    def _uniforms(self, number: int, *names: object) -> Floats:
        text = " ".join(map(str, (VERSION, self.seed, *names)))
        key = int.from_bytes(blake2b(text.encode(), digest_size=16).digest())
        raw = np.random.Philox(key=key).random_raw(number)
        return ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def _shocks(self, number: int, *names: object) -> Floats:
        """Student's t with 4 degrees of freedom, scaled to a variance of 1."""
        u = self._uniforms(number, *names)
        alpha = np.sqrt(4 * u * (1 - u))
        size = 2 * np.sqrt(np.maximum(np.cos(np.arccos(alpha) / 3) / alpha - 1, 0.0))
        scaled: Floats = np.sign(u - 0.5) * size / np.sqrt(2)
        return np.clip(scaled, -8, 8)

    def _returns(self, number: int, volatility: float, *names: object) -> tuple[Floats, Floats]:
        """Returns of so many days, and the volatility of each, which earlier days alone made."""
        shocks = self._shocks(number, "return", *names)
        news = self._shocks(number, "volatility", *names)
        moved = (news + np.abs(shocks) - 0.75 - _LEVERAGE * shocks) / 1.7
        sums = np.concatenate(([0.0], np.cumsum(moved)))
        places = np.arange(number)
        spread = np.zeros(number)
        for window in _WINDOWS:
            since = np.maximum(places - window, 0)
            spread += _PERSISTENCE * (sums[places] - sums[since]) / np.sqrt(window)
        sizes = volatility * np.exp(np.clip(spread, -2.0, 1.6) - 0.14)
        return shocks * sizes, sizes

    def _of_market(self, exchange: Exchange) -> tuple[Floats, Floats]:
        number = len(trading_days(exchange, LAST))
        return self._returns(number, 0.009, "market", exchange)

    def _made(self, key: str) -> History:
        one = self.instrument(key)
        whole = trading_days(one.exchange, LAST)
        if one.kind == "index" and one.members:
            path, sizes = self._basket(one, whole)
        elif one.kind == "fund":
            path, sizes = self._fund(one, whole)
        else:
            path, sizes = self._path(one, len(whole))
        path = path - path[_anchor(whole)] + np.log(one.level)
        number = len(trading_days(one.exchange, self.now))
        return self._traded(one, whole[:number], path[:number], sizes[:number])

    def _path(self, one: Instrument, number: int) -> tuple[Floats, Floats]:
        """The logarithm of what an investment is worth, by day, and the volatility of each day."""
        own, sizes = self._returns(number, one.volatility, one.key)
        if one.beta and one.kind in ("share", "index"):
            market, of_market = self._market(one.exchange)
            own, sizes = own + one.beta * market, np.hypot(sizes, one.beta * of_market)
        growth = 0.0 if one.kind in ("currency", "future") else 0.00025
        if one.limit is not None:  # a day's change stays within it, also after rounding
            room = one.limit - 0.004
            own = np.clip(own, np.log(1 - room), np.log(1 + room))
        places = np.arange(number, dtype=np.float64)
        kept = _KEPT_OF_GAIN**places
        return growth * places + kept * np.cumsum(own / kept), sizes

    def _basket(self, one: Instrument, whole: tuple[date, ...]) -> tuple[Floats, Floats]:
        """An index of its members, weighted by what all their shares were worth at the anchor."""
        anchor, weights = _anchor(whole), self.weights(one.key)
        total, sizes = np.zeros(len(whole)), np.zeros(len(whole))
        for member, weight in weights.items():
            path, of_member = self._path(self.instrument(member), len(whole))
            total += weight * np.exp(path - path[anchor])
            sizes += weight * of_member
        return np.log(total), sizes * 0.6

    def weights(self, key: str) -> Mapping[str, float]:
        """The weights of an index's members, or a fund's holdings, at the anchor."""
        one = self.instrument(key)
        members = one.members or self._holdings(key)
        worth = {m: LISTED[m].level * LISTED[m].shares for m in members}
        whole = sum(worth.values())
        return {member: value / whole for member, value in worth.items()}

    def _holdings(self, key: str) -> tuple[str, ...]:
        """Ten shares, as the seed chooses."""
        order = np.argsort(self._uniforms(len(CHINA), "holdings", key))
        return tuple(CHINA[place].key for place in order[:10])

    def _fund(self, one: Instrument, whole: tuple[date, ...]) -> tuple[Floats, Floats]:
        """The value of its holdings, less a fee of half a percent a year."""
        path, sizes = self._basket(one, whole)
        passed = np.array([(day - ANCHOR).days for day in whole], dtype=np.float64)
        return path - _FEE * passed, sizes

    def _traded(
        self, one: Instrument, days: tuple[date, ...], path: Floats, sizes: Floats
    ) -> History:
        """Prices as they are traded: what was paid out is no longer in them."""
        number, digits = len(days), one.digits
        factor, paid = self._paid(one, days)
        close = np.maximum(np.round(np.exp(path) / factor, digits), 10.0**-digits)
        before = _before(close, factor, digits)
        limit, floor = 9 * before, 0.1 * before
        while one.limit is not None:  # a price in its limits is the previous one for the next day
            limit = np.round(before * (1 + one.limit), digits)
            floor = np.round(before * (1 - one.limit), digits)
            if np.array_equal(within := np.clip(close, floor, limit), close):
                break
            close = within
            before = _before(close, factor, digits)
        payouts = tuple(
            Payout(days[at], round(float(close[at - 1]) * share, 3), bonus)
            for at, share, bonus in paid
        )
        luck = [self._shocks(number, what, one.key) for what in ("open", "high", "low", "volume")]
        opened = np.clip(before * np.exp(0.35 * sizes * luck[0]), floor, limit)
        high = np.maximum(opened, close) * np.exp(0.5 * sizes * np.abs(luck[1]))
        low = np.minimum(opened, close) * np.exp(-0.5 * sizes * np.abs(luck[2]))
        opened = np.round(opened, digits)
        high = np.maximum.reduce([np.round(np.minimum(high, limit), digits), opened, close])
        low = np.minimum.reduce([np.round(np.maximum(low, floor), digits), opened, close])
        busy = 1 + 8 * np.abs(np.log(close / np.maximum(before, 10.0**-digits))) + 10 * sizes
        lot = 100 if one.exchange == "CN" else 1
        size = (0.003 * one.shares / lot or 4e5) * 4.0 ** (2 * self.luck("size", one.key) - 1)
        volume = np.maximum(size * busy * np.exp(0.25 * luck[3]), 1).astype(np.int64)
        return History(days, opened, high, low, close, before, volume, factor, payouts)

    def _paid(
        self, one: Instrument, days: tuple[date, ...]
    ) -> tuple[Floats, list[tuple[int, float, float]]]:
        """The factor by day, 1 at the anchor. And by the place of a day, what share of the price
        was paid out in cash, and in new shares: each summer, and now and then.
        """
        factor, found = np.ones(len(days)), list[tuple[int, float, float]]()
        if one.kind != "share":
            return factor, found
        paid = round(0.035 * self.luck("yield", one.key), 4)
        chances = self._uniforms(2 * (LAST.year - days[0].year + 1), "payouts", one.key)
        for year in range(days[0].year, self.now.year + 1):
            lucky, when = chances[2 * (year - days[0].year) :][:2].tolist()
            place = between(days, None, date(year, 6, 10) + timedelta(int(40 * when))).stop
            if 0 < place < len(days) and days[place].year == year:
                bonus = round(0.2 + 0.3 * when, 1) if lucky > 0.94 else 0.0
                factor[place:] *= (1 + bonus) / (1 - paid)
                found.append((place, paid, bonus))
        return factor / factor[_anchor(days)], found

    def _walked(self, name: str, level: float, step: float) -> list[float]:
        shocks = self._shocks((LAST - SERIES_FIRST).days + 1, "series", name)
        value, found = level * (1 + step * 6 * (2 * self.luck("start", name) - 1)), list[float]()
        for shock in np.clip(shocks, -3, 3).tolist():
            value += (level - value) * 0.02 + value * shock * step
            found.append(value)
        return found


def _anchor(days: tuple[date, ...]) -> int:
    """The place of the anchor among the days of an exchange."""
    return bisect_right(days, ANCHOR) - 1


def _before(close: Floats, factor: Floats, digits: int) -> Floats:
    """The previous closes, less what was paid out on the day."""
    earlier = np.concatenate((close[:1], close[:-1]))
    return np.round(earlier * np.concatenate(([1.0], factor[:-1] / factor[1:])), digits)


SERIES_FIRST: Final = date(1990, 12, 19)
"""The first day of a series."""
