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
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapters.simulator.world import derivatives
from adapters.simulator.world.calendar import LAST, Exchange, between, trading_days
from adapters.simulator.world.instruments import BOARDS, CHINA, LISTED, Instrument, lot_of, unlisted

VERSION: Final = 2
"""Changes whenever the world of a seed does."""

_STREAM: Final = 1
"""Of the random numbers; another one gives every price anew."""

NOW: Final = date(2026, 6, 30)
ANCHOR: Final = date(2024, 1, 2)
"""The day on which an instrument has its level."""

Floats = NDArray[np.float64]

_WINDOWS: Final = (5, 22, 120)
_PERSISTENCE: Final = 0.30
_LEVERAGE: Final = 0.6
_FEE: Final = 0.005 / 365
_KEPT_OF_GAIN: Final = 0.9995
"""What is left of a gain on the next day: half of it after five years, so that no price is lost in
the ticks of its exchange.
"""

_KEPT: Final = 128
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
        self._mean = lru_cache(_KEPT)(self._mean_price)
        self._member = lru_cache(_KEPT)(self._of_member)

    def days(self, exchange: Exchange) -> tuple[date, ...]:
        return trading_days(exchange, self.now)

    def instrument(self, key: str) -> Instrument:
        if (listed := LISTED.get(key) or BOARDS.get(key)) is not None:
            return listed
        if (found := derivatives.future_of(key, self.now)) is not None:
            base = self.instrument(f"future:{found[0]}")
            return derivatives.contract(key, base)
        if (option := derivatives.option_of(key, self.now)) is not None:
            return derivatives.option_instrument(option)
        return unlisted(key, self.luck("level", key))

    def luck(self, *names: object) -> float:
        """A number from 0 to 1 that depends on the seed and these names alone."""
        return float(self.uniforms(1, *names)[0])

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

    def minutes(self, key: str, day: date, size: int = 1) -> list[Bar]:
        """The bars of so many minutes on one day, each with the time of its end; none for a day
        without trading. Together they are the day: the price goes from its open over its high and
        its low to its close (a Brownian bridge), and the volumes add up.
        """
        made = self.history(key)
        at = bisect_right(made.days, day) - 1
        if at < 0 or made.days[at] != day:
            return []
        one, clock = self.instrument(key), _clock(self.instrument(key).exchange)
        number = len(clock)
        columns = (made.open, made.high, made.low, made.close)
        opened, high, low, close = (float(column[at]) for column in columns)
        turns = self.uniforms(2, "turns", key, day) * (number - 2)
        first, last = sorted((1 + turns.astype(np.int64)).tolist())
        last += first == last
        peak_first = self.luck("peak", key, day) < 0.5
        known = [opened, *((high, low) if peak_first else (low, high)), close]
        times = [0, first, last, number]
        noise = np.concatenate(([0.0], np.cumsum(self.shocks(number, "minutes", key, day))))
        places = np.arange(number + 1)
        noise -= np.interp(places, times, noise[times])
        path = np.interp(places, times, known) + noise * (high - low) / (2 * np.sqrt(number))
        path = np.round(np.clip(path, low, high), one.digits)
        path[times] = known
        busy = 1 + 2 * np.abs(places[1:] / number - 0.5) + self.uniforms(number, "busy", key, day)
        sold = np.floor(np.cumsum(busy) / busy.sum() * made.volume[at] + 1e-6).astype(np.int64)
        sold[-1] = made.volume[at]
        starts = np.arange(0, number, size)
        stops = np.minimum(starts + size, number)
        volumes = np.add.reduceat(np.diff(sold, prepend=0), starts).tolist()
        highs = np.maximum.reduceat(np.maximum(path[:-1], path[1:]), starts).tolist()
        lows = np.minimum.reduceat(np.minimum(path[:-1], path[1:]), starts).tolist()
        closes = path[stops].tolist()
        before = [float(made.before[at]), *closes[:-1]]
        stamps = [datetime.combine(day, clock[stop - 1]) for stop in stops.tolist()]
        return list(map(Bar, stamps, path[starts].tolist(), highs, lows, closes, before, volumes))

    def paid(self, key: str, bars: Sequence[Bar]) -> list[float]:
        """What was paid in these bars: the middle of open and close for each unit; for what has
        members, the mean price of their units on the day.
        """
        one = self.instrument(key)
        lot = lot_of(one)
        if not self._is_basket(one):
            return [bar.volume * lot * (bar.open + bar.close) / 2 for bar in bars]
        days, means = self.history(key).days, self._mean(key)
        found = list[float]()
        for bar in bars:
            day = date(bar.day.year, bar.day.month, bar.day.day)
            found.append(bar.volume * lot * means[max(bisect_right(days, day) - 1, 0)])
        return found

    def _mean_price(self, key: str) -> list[float]:
        made = [self.history(member) for member in self.weights(key)]
        paid = np.sum([one.volume * (one.open + one.close) / 2 for one in made], axis=0)
        means: list[float] = (paid / np.sum([one.volume for one in made], axis=0)).tolist()
        return means

    def _is_basket(self, one: Instrument) -> bool:
        return one.kind == "index" and (bool(one.members) or one.exchange == "CN")

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
        currency = {"CNH": "CNY", "USDT": "USD", "USDC": "USD"}.get(currency, currency)
        if f"fx:{currency}" not in LISTED and f"coin:{currency}" in LISTED:
            return self.close(f"coin:{currency}", day)
        return self.close(f"fx:{currency}", day)

    def uniforms(self, number: int, *names: object) -> Floats:
        """So many numbers from 0 to 1, which depend on the seed and these names; more of them begin
        with the same ones.
        """
        text = " ".join(map(str, (_STREAM, self.seed, *names)))
        key = int.from_bytes(blake2b(text.encode(), digest_size=16).digest())
        raw = np.random.Philox(key=key).random_raw(number)
        return ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def shocks(self, number: int, *names: object) -> Floats:
        """So many independent numbers around 0 with heavy tails: Student's t with 4 degrees of
        freedom, scaled to a variance of 1.
        """
        u = self.uniforms(number, *names)
        alpha = np.sqrt(4 * u * (1 - u))
        size = 2 * np.sqrt(np.maximum(np.cos(np.arccos(alpha) / 3) / alpha - 1, 0.0))
        scaled: Floats = np.sign(u - 0.5) * size / np.sqrt(2)
        return np.clip(scaled, -8, 8)

    def _returns(self, number: int, volatility: float, *names: object) -> tuple[Floats, Floats]:
        """Returns of so many days, and the volatility of each, which earlier days alone made."""
        shocks = self.shocks(number, "return", *names)
        news = self.shocks(number, "volatility", *names)
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
        if (found := derivatives.future_of(key, self.now)) is not None:
            return derivatives.future(self, *found)
        if (option := derivatives.option_of(key, self.now)) is not None:
            return derivatives.option(self, option)
        one = self.instrument(key)
        if one.kind == "bond":
            from adapters.simulator.world import economy  # it reads the world

            return economy.history(self, key)
        whole = trading_days(one.exchange, LAST)
        if is_basket := self._is_basket(one):
            path, sizes = self._basket(one, whole)
        elif one.kind == "fund":
            path, sizes = self._fund(one, whole)
        else:
            path, sizes = self._path(one, len(whole))
        path = path - path[_anchor(whole)] + np.log(one.level)
        number = len(trading_days(one.exchange, self.now))
        made = self._traded(one, whole[:number], path[:number], sizes[:number])
        if is_basket:
            members = [self.history(member).volume for member in self.weights(key)]
            volume = np.sum(members, axis=0)
            return replace(made, volume=volume)
        return made

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
            path, of_member = self._member(member)
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

    def holdings(self, key: str, day: date | None = None) -> Mapping[str, float]:
        """The weights of an index's members, or a fund's holdings, on a day, or the last one."""
        worth = dict[str, float]()
        for member, weight in self.weights(key).items():
            made = self.history(member)
            at = max(between(made.days, None, day).stop - 1, 0)
            start = _anchor(made.days)
            grown = made.close[at] * made.factor[at] / (made.close[start] * made.factor[start])
            worth[member] = weight * float(grown)
        whole = sum(worth.values())
        return {member: value / whole for member, value in worth.items()}

    def _of_member(self, key: str) -> tuple[Floats, Floats]:
        one = self.instrument(key)
        return self._path(one, len(trading_days(one.exchange, LAST)))

    def _holdings(self, key: str) -> tuple[str, ...]:
        """Ten shares of the same exchange, as the seed chooses."""
        exchange = self.instrument(key).exchange
        known = tuple(one for one in LISTED.values() if one.kind == "share")
        known = tuple(one for one in known if one.exchange == exchange) or CHINA
        order = np.argsort(self.uniforms(len(known), "holdings", key))
        return tuple(known[place].key for place in order[:10])

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
        luck = [self.shocks(number, what, one.key) for what in ("open", "high", "low", "volume")]
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
        chances = self.uniforms(2 * (LAST.year - days[0].year + 1), "payouts", one.key)
        for year in range(days[0].year, self.now.year + 1):
            lucky, when = chances[2 * (year - days[0].year) :][:2].tolist()
            place = between(days, None, date(year, 6, 10) + timedelta(int(40 * when))).stop
            if 0 < place < len(days) and days[place].year == year:
                bonus = round(0.2 + 0.3 * when, 1) if lucky > 0.94 else 0.0
                factor[place:] *= (1 + bonus) / (1 - paid)
                found.append((place, paid, bonus))
        return factor / factor[_anchor(days)], found

    def _walked(self, name: str, level: float, step: float) -> list[float]:
        """Each day keeps 98 % of the day before, times a shock, and gets 2 % of the level: in
        blocks of days, so that no product of what is kept becomes too small.
        """
        number = (LAST - SERIES_FIRST).days + 1
        shocks = np.clip(self.shocks(number, "series", name), -3, 3)
        daily = np.pad(0.98 + step * shocks, (0, -number % 128), constant_values=1.0)
        kept = np.cumprod(daily.reshape(-1, 128), axis=1)
        added = 0.02 * level * np.cumsum(1 / kept, axis=1)
        value, starts = level * (1 + step * 6 * (2 * self.luck("start", name) - 1)), list[float]()
        for last, pull in zip(kept[:, -1].tolist(), added[:, -1].tolist(), strict=True):
            starts.append(value)
            value = last * (value + pull)
        found: list[float] = (kept * (np.array(starts)[:, None] + added)).ravel()[:number].tolist()
        return found


@cache
def _clock(exchange: Exchange) -> tuple[time, ...]:
    """The ends of the minutes in which an exchange trades, by its own clock."""
    spans = {
        "CN": ((570, 690), (780, 900)),
        "HK": ((570, 720), (780, 960)),
        "US": ((570, 960),),
        "ALL": ((-1, 1439),),
    }
    ends = [n for start, stop in spans[exchange] for n in range(start + 1, stop + 1)]
    return tuple(time(n // 60, n % 60) for n in ends)


def _anchor(days: tuple[date, ...]) -> int:
    """The place of the anchor among the days of an exchange."""
    return bisect_right(days, ANCHOR) - 1


def _before(close: Floats, factor: Floats, digits: int) -> Floats:
    """The previous closes, less what was paid out on the day."""
    earlier = np.concatenate((close[:1], close[:-1]))
    return np.round(earlier * np.concatenate(([1.0], factor[:-1] / factor[1:])), digits)


SERIES_FIRST: Final = date(1990, 12, 19)
"""The first day of a series."""
