"""One asset's prices, news and filings by day, from a file of InvestorBench or of the user's.

A file is a JSON object from dates to `{"prices": 210.4, "news": [..], "10k": [..], "10q": [..]}`,
where `prices` is the adjusted close. The symbol is the file's name. A `Market` does not change.
What it tells about a day depends on no later day.
"""

import datetime
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Any, Final, Literal, Self

from manifests.common.regular_file import read_text

FILE_BYTES = 256 * 2**20
"""The largest file that is read."""

MOMENTUM_DAYS = 3
"""The number of daily price differences that momentum sums."""

CRYPTO = frozenset({"BTC", "ETH"})
"""InvestorBench's symbols that are traded every day of the year."""

Sign = Literal[-1, 0, 1]

Position = Literal[-1, 0, 1]
"""What is held from one day to the next: -1 (short), 0 (none) or 1 (long)."""

POSITIONS: Final[tuple[Position, ...]] = (-1, 0, 1)

OBJECT: type[tuple[Any, ...]] = tuple
"""What JSON objects are parsed to: their pairs, so that a repeated name is not lost."""

_SATURDAY = 5
_SYMBOL = re.compile(r"[A-Z0-9.^=_-]{1,32}")


class MarketError(Exception):
    """A market can't be read, or lacks the days asked for; the text names the place."""


@dataclass(frozen=True, slots=True)
class Window:
    """The days from `start` to `end`, both included. Raises `ValueError` if `end` is earlier."""

    start: datetime.date
    end: datetime.date

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(f"the window ends on {self.end}, before it starts on {self.start}")

    def __contains__(self, day: datetime.date) -> bool:
        return self.start <= day <= self.end

    def __str__(self) -> str:
        return f"{self.start} to {self.end}"


@dataclass(frozen=True, slots=True)
class Windows:
    """When an agent warms up, and when it is measured."""

    warm_up: Window
    test: Window


def _window(start: str, end: str) -> Window:
    return Window(datetime.date.fromisoformat(start), datetime.date.fromisoformat(end))


STOCK_WINDOWS = Windows(_window("2020-07-01", "2020-09-30"), _window("2020-10-01", "2021-05-06"))
CRYPTO_WINDOWS = Windows(_window("2023-02-11", "2023-04-04"), _window("2023-04-05", "2023-11-05"))
OF_SYMBOL = {
    "ETH": Windows(_window("2023-02-13", "2023-04-02"), _window("2023-04-03", "2023-11-05")),
    "ETF": Windows(_window("2019-07-29", "2019-12-30"), _window("2020-01-02", "2020-09-21")),
}
"""The published windows (arXiv 2412.18174, and the configurations of the authors' program). ETH
begins two days before BTC: only so does Buy & Hold earn what the paper says.
"""


@dataclass(frozen=True, slots=True)
class MarketDay:
    """What became known on one day. `price` is above 0, in the asset's currency."""

    date: datetime.date
    price: float
    news: tuple[str, ...] = ()
    annual_reports: tuple[str, ...] = ()
    quarterly_reports: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Market:
    """The days of one symbol on which it was traded, in order. Markets are equal only if they are
    the same object, so that looking one up costs nothing. Raises `MarketError` if there are
    none, or if they are out of order.
    """

    symbol: str
    records: tuple[MarketDay, ...]

    def __post_init__(self) -> None:
        if not self.records:
            raise MarketError(f"{self.symbol}: there are no days")
        for earlier, later in zip(self.records, self.records[1:], strict=False):
            if earlier.date >= later.date:
                text = f"{later.date} stands after {earlier.date}"
                raise MarketError(f"{self.symbol}: days must be in order, but {text}")

    @classmethod
    def read(cls, file: Path) -> Self:
        """The market in a file; its symbol is the file's name in capitals. Raises `MarketError`."""
        try:
            text = read_text(file, FILE_BYTES)
        except OSError as error:
            raise MarketError(f"{file}: {error.strerror}") from error
        return cls.parse(text, file.stem.upper(), str(file))

    @classmethod
    def parse(cls, text: bytes, symbol: str, place: str) -> Self:
        """The market in the text of a file, which errors call `place`. Raises `MarketError`."""
        try:
            value = json.loads(text, object_pairs_hook=OBJECT)
        except (ValueError, RecursionError) as error:
            raise MarketError(f"{place}: not JSON: {error}") from error
        if not isinstance(value, OBJECT):
            raise MarketError(f"{place}: not an object from dates to days")
        records: dict[datetime.date, MarketDay] = {}
        for name, day in value:
            record = _day(name, day, place)
            if record.date in records:
                raise MarketError(f"{place}: {name} is there twice")
            records[record.date] = record
        if not records:
            raise MarketError(f"{place}: there are no days")
        return cls(symbol, tuple(records[day] for day in sorted(records)))

    @cached_property
    def days(self) -> tuple[datetime.date, ...]:
        """Its trading days, in order."""
        return tuple(record.date for record in self.records)

    @cached_property
    def is_crypto(self) -> bool:
        """Whether it is traded every day: BTC, ETH, and any symbol with a price on a weekend."""
        return self.symbol in CRYPTO or any(day.weekday() >= _SATURDAY for day in self.days)

    @property
    def year_days(self) -> int:
        """The trading days of a year, by which figures are annualised."""
        return 365 if self.is_crypto else 252

    @property
    def windows(self) -> Windows:
        """The published windows for assets of its kind."""
        by_kind = CRYPTO_WINDOWS if self.is_crypto else STOCK_WINDOWS
        return OF_SYMBOL.get(self.symbol, by_kind)

    def during(self, window: Window) -> tuple[MarketDay, ...]:
        """The days in a window. Raises `MarketError` if there are fewer than two, over which
        nothing can be earned.
        """
        found = tuple(record for record in self.records if record.date in window)
        if len(found) < 2:
            text = f"has {len(found)} of its days from {window}, and two are the least"
            raise MarketError(f"{self.symbol} {text}; they are from {Window(*self._ends)}")
        return found

    def on(self, day: datetime.date) -> MarketDay:
        """Raises `MarketError` if it is no trading day."""
        return self.records[self._place(day)]

    def momentum(self, day: datetime.date) -> Sign:
        """The sign of the sum of the last three daily price differences, up to that of `day`; 0 if
        the file has fewer days before. Raises `MarketError` if `day` is no trading day.
        """
        at = self._place(day)
        if at < MOMENTUM_DAYS:
            return 0
        # The differences sum up to that of their ends, which has the exact sign.
        return sign(self.records[at].price - self.records[at - MOMENTUM_DAYS].price)

    @property
    def _ends(self) -> tuple[datetime.date, datetime.date]:
        return self.days[0], self.days[-1]

    def _place(self, day: datetime.date) -> int:
        at = bisect_left(self.days, day)
        if at == len(self.days) or self.days[at] != day:
            near = " and ".join(map(str, self.days[max(at - 1, 0) : at + 1]))
            raise MarketError(f"{day} is no trading day of {self.symbol}; the nearest: {near}")
        return at


def sign(value: float) -> Sign:
    return 1 if value > 0 else -1 if value < 0 else 0


def read_markets(folder: Path) -> dict[str, Market]:
    """The markets of all `.json` files in a folder, by symbol. Raises `MarketError`."""
    if not folder.is_dir():
        raise MarketError(f"{folder} is no folder; the dataset is one with btc.json, eth.json, ...")
    found: dict[str, Market] = {}
    for file in sorted(folder.glob("*.json")):
        market = Market.read(file)
        if not _SYMBOL.fullmatch(market.symbol):
            text = "letters, digits and . - ^ = _, at most 32"
            raise MarketError(f"{file}: {market.symbol[:40]!r} is no symbol; it has {text}")
        if market.symbol in found:
            raise MarketError(f"{file}: another file is of {market.symbol} as well")
        found[market.symbol] = market
    if not found:
        raise MarketError(f"{folder} has no .json file; each is of one symbol, such as btc.json")
    return found


def digest_of(markets: Iterable[Market]) -> str:
    """16 hex digits: a hash of all that the markets hold, in whatever order."""
    digest = blake2b(digest_size=8)
    for market in sorted(markets, key=lambda one: one.symbol):
        digest.update(market.symbol.encode())
        for record in market.records:
            digest.update(repr(record).encode("utf-8", "replace"))
    return digest.hexdigest()


def common_days(markets: Iterable[Market], window: Window) -> tuple[datetime.date, ...]:
    """The days in a window on which all markets were traded, in order; perhaps none."""
    days = [{day for day in market.days if day in window} for market in markets]
    return tuple(sorted(set.intersection(*days))) if days else ()


def exact_date(text: str) -> datetime.date | None:
    """A date written as `2020-10-01`; None for anything else."""
    try:
        found = datetime.date.fromisoformat(text)
    except ValueError:
        return None
    return found if found.isoformat() == text else None  # ISO 8601 has more forms


def is_unicode(text: str) -> bool:
    """Whether it has no half characters, which JSON can escape but no encoding can write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _day(name: str, value: Any, place: str) -> MarketDay:
    date = exact_date(name)
    if date is None:
        raise MarketError(f"{place}: {name[:40]!r} is no date; write it as 2020-10-01")
    place = f"{place}: {name}"
    if not isinstance(value, OBJECT):
        raise MarketError(f"{place}: not an object with the day's prices, news, 10k and 10q")
    fields: dict[str, Any] = {}
    for field, content in value:
        if field in fields:
            raise MarketError(f"{place}: {field[:40]!r} is there twice")
        fields[field] = content
    return MarketDay(
        date,
        _price(fields, f"{place}: prices"),
        _texts(fields, "news", place),
        _texts(fields, "10k", place),
        _texts(fields, "10q", place),
    )


def _price(fields: Mapping[str, Any], place: str) -> float:
    price = fields.get("prices")
    if price is None:
        raise MarketError(f"{place}: missing")
    if isinstance(price, bool) or not isinstance(price, int | float):
        raise MarketError(f"{place}: not a number")
    try:
        price = float(price)
    except OverflowError:
        price = float("inf")
    if not isfinite(price) or price <= 0:
        raise MarketError(f"{place}: {price} is no price; it must be above 0 and finite")
    return price


def _texts(fields: Mapping[str, Any], name: str, place: str) -> tuple[str, ...]:
    """A list of texts; nothing if it is missing or null, as filings of crypto assets are."""
    texts = fields.get(name)
    if texts is None:
        return ()
    if not isinstance(texts, list):
        raise MarketError(f"{place}: {name}: not a list of texts")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise MarketError(f"{place}: {name}.{number}: not a text")
        if not is_unicode(text):
            raise MarketError(f"{place}: {name}.{number}: not Unicode: half a character")
    return tuple(texts)
