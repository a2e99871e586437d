"""A session: one agent in a recorded market of one or more assets, one day after another.

A day ends when each asset has a decision. Nothing that a session says depends on a day after its
current one, except that a day follows it or that none does. The same decisions always make the same
session.
"""

import asyncio
import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal

import orjson

from adapters.fault import UpstreamFault
from adapters.market.memory import TEXT_CHARS, Evidence, LayeredMemory, LayerName, Similarity
from adapters.market.prices import (
    Market,
    MarketDay,
    Position,
    Window,
    common_days,
    exact_date,
    is_unicode,
)

Action = Literal["buy", "sell", "hold"]

POSITION_OF: Final[Mapping[Action, Position]] = {"buy": 1, "sell": -1, "hold": 0}

MOST_ASSETS = 20
"""The most assets of a session."""

REASON_CHARS = 1_000
"""The longest reason for a decision."""

ID_BYTES = 36
"""What an id takes in memory: a number and its place in a tuple."""

QUESTION_CHARS = 4_000
"""The longest question to a memory."""

MOST_RECALLED = 20
"""The most memories of a layer that are recalled."""

MOST_MEMORIES = 100
"""The most memories that a decision may rest on."""


def misused(text: str) -> UpstreamFault:
    """The fault of a call that does not fit its session."""
    return UpstreamFault("misused", text)


@dataclass(frozen=True, slots=True)
class Course:
    """The trading days that the assets of a session have in common. Days from `test_from` count."""

    markets: tuple[Market, ...]
    days: tuple[datetime.date, ...]
    test_from: datetime.date
    test_to: datetime.date
    hindsight: bool = False
    """Whether the days before `test_from` tell the price of the day after, as the authors' do."""

    @property
    def symbols(self) -> list[str]:
        return [market.symbol for market in self.markets]

    def phase(self, day: datetime.date) -> str:
        return "test" if day >= self.test_from else "warm_up"


@dataclass(frozen=True, slots=True)
class Decision:
    """A position in one asset from one day to the next, and what it rests on."""

    action: Action
    reason: str
    memories: tuple[int, ...]

    @property
    def position(self) -> Position:
        return POSITION_OF[self.action]


@dataclass(slots=True)
class _Remembered:
    """An asset's memory, made from the first `ended` days and, with `has_news`, from what became
    known on the day after them.
    """

    memory: LayeredMemory = field(default_factory=LayeredMemory)
    evidence: Evidence = field(default_factory=Evidence)
    ended: int = 0
    has_news: bool = False


class Session:
    """The state of one session. It belongs to the client `owner`."""

    def __init__(self, course: Course, owner: str, similarity: Similarity) -> None:
        """`similarity` is used where a recall is given none of its own; sessions share it, so that
        they don't each keep the words of the same texts.
        """
        self.course = course
        self.owner = owner
        self._similarity = similarity
        self.used_at = 0.0
        self.reason_bytes = 0
        self.recalling = asyncio.Lock()
        self._ended: list[dict[str, Decision]] = []
        self._today: dict[str, Decision] = {}
        self._memories: dict[str, _Remembered] = {}

    @property
    def day(self) -> datetime.date:
        """The current day. Raises `UpstreamFault` after the end."""
        days = self.course.days
        if len(self._ended) == len(days):
            raise misused(f"the session is over: its last day was {days[-1]}; market_close ends it")
        return days[len(self._ended)]

    @property
    def is_over(self) -> bool:
        return len(self._ended) == len(self.course.days)

    def about(self) -> dict[str, Any]:
        """Where the session stands."""
        course, day = self.course, self.day
        return {
            "symbols": course.symbols,
            "date": day.isoformat(),
            "phase": course.phase(day),
            "test_from": course.test_from.isoformat(),
            "test_to": course.test_to.isoformat(),
        }

    def observe(self, symbol: str) -> dict[str, Any]:
        """What is known of the assets, or of one, on the current day. Raises `UpstreamFault`."""
        day, markets = self.day, self.course.markets
        if symbol:
            markets = (self._market(symbol),)
        before = self._ended[-1] if self._ended else {}
        assets = []
        for market in markets:
            decision, held = self._today.get(market.symbol), before.get(market.symbol)
            assets.append(
                {
                    "symbol": market.symbol,
                    "position": held.position if held else 0,
                    "decided": decision.action if decision else None,
                    **_known(market, day),
                    **self._hindsight(market, day),
                }
            )
        return {"date": day.isoformat(), "phase": self.course.phase(day), "assets": assets}

    def _hindsight(self, market: Market, day: datetime.date) -> dict[str, float]:
        """By how much the price changes until the next day, where the session tells that."""
        days, at = self.course.days, len(self._ended)
        if not self.course.hindsight or self.course.phase(day) == "test" or at + 1 == len(days):
            return {}
        return {"next_change": round(market.on(days[at + 1]).price / market.on(day).price - 1, 6)}

    def trade(
        self, date: str, symbol: str, action: Action, reason: str, memories: str
    ) -> dict[str, Any]:
        """Decide the position in one asset for the current day. Raises `UpstreamFault`."""
        day, market = self.day, self._market(symbol)
        made = Decision(action, _reason(reason), _ids(memories))
        if date != day.isoformat():
            raise misused(self._wrong_day(date, market, day))
        if (before := self._today.get(market.symbol)) is not None:
            rest = ", ".join(name for name in self.course.symbols if name not in self._today)
            text = f"{market.symbol} has a decision for {day} already: {before.action}"
            raise misused(f"{text}; still to be decided: {rest}")
        self._today[market.symbol] = made
        self.reason_bytes += len(made.reason.encode()) + ID_BYTES * len(made.memories)
        if len(self._today) == len(self.course.markets):
            self._ended.append(self._today)
            self._today = {}
        return {
            "date": day.isoformat(),
            "phase": self.course.phase(day),
            "symbol": market.symbol,
            "action": action,
            "position": made.position,
            "price": market.on(day).price,
            "next_date": None if self.is_over else self.day.isoformat(),
            "is_over": self.is_over,
        }

    def remembered(self, symbol: str) -> list[str]:
        """The texts of an asset's memory. It runs in a thread, as `recall`."""
        return [one.text for one in self._memory(self._market(symbol), self.day).memories]

    def recall(
        self,
        symbol: str,
        question: str,
        limit: int,
        chars: int,
        similarities: Mapping[str, float] | None = None,
    ) -> dict[str, Any]:
        """What an asset's memory has on a question, by layer, with the `similarities` of the texts
        that it holds, or BM25. Raises `UpstreamFault`. It may take 0.4 s, so it runs in a thread;
        `recalling` keeps it to one at a time.
        """
        day, market = self.day, self._market(symbol)
        if len(question) > QUESTION_CHARS:
            raise misused(f"a question has at most {QUESTION_CHARS} characters")
        if not 1 <= limit <= MOST_RECALLED:
            raise misused(f"limit must be from 1 to {MOST_RECALLED}, not {limit}")
        if not 50 <= chars <= 10_000:
            raise misused(f"chars must be from 50 to 10000, not {chars}")
        memory, similarity = self._memory(market, day), self._similarity
        if similarities is not None:
            near = similarities  # of texts that came since, none is known
            similarity = lambda _, texts: [near.get(text, 0.0) for text in texts]  # noqa: E731
        found = memory.recall(question, similarity, top=limit)
        return {
            "date": day.isoformat(),
            "symbol": market.symbol,
            "similarity": "BM25" if similarities is None else "embeddings",
            "held": Counter(one.layer for one in memory.memories),
            "memories": {
                layer: [
                    {
                        "id": one.id,
                        "date": one.day.isoformat(),
                        "text": one.text[:chars],
                        "score": round(score, 4),
                    }
                    for score, one in recalled
                ]
                for layer, recalled in found.items()
            },
        }

    def _memory(self, market: Market, day: datetime.date) -> LayeredMemory:
        """The memory of an asset on a day that has begun, with the news of that day."""
        days = self.course.days
        ended = days.index(day)
        of = self._memories.setdefault(market.symbol, _Remembered())
        while True:
            if not of.has_news and of.ended < len(days):
                _add_news(of.memory, market.on(days[of.ended]))
                of.has_news = True
            if of.ended == ended:
                return of.memory
            past, decision = days[of.ended], self._ended[of.ended][market.symbol]
            rests_on = decision.memories
            if decision.reason and (made := of.memory.reflect(decision.reason, past)) is not None:
                rests_on = (*rests_on, made)
            known = of.evidence.add(market.on(past).price, decision.position, rests_on)
            if known is not None:
                of.memory.feed_back(*known)
            of.memory.step()
            of.ended, of.has_news = of.ended + 1, False

    def _market(self, symbol: str) -> Market:
        markets = self.course.markets
        if not symbol and len(markets) == 1:
            return markets[0]
        for market in markets:
            if market.symbol == symbol.upper():
                return market
        known = ", ".join(self.course.symbols)
        if not symbol:
            raise misused(f"name the asset; the session has {known}")
        raise misused(f"{symbol[:40]!r} is no asset of this session, which has {known}")

    def _wrong_day(self, date: str, market: Market, day: datetime.date) -> str:
        given = exact_date(date)
        if given is not None and given < day and given in self.course.days[: len(self._ended)]:
            action = self._ended[self.course.days.index(given)][market.symbol].action
            return f"{given} is over; its decision was {action}, and the current day is {day}"
        return f"the current day is {day}, not {date[:40]}"


def course_of(
    markets: Sequence[Market],
    warm_up_from: str,
    test_from: str,
    test_to: str,
    *,
    hindsight: bool = False,
) -> Course:
    """The course of a session from its dates, each empty or as `2020-10-01`. Raises
    `UpstreamFault`.
    """
    windows = {market.windows for market in markets}
    if not (test_from or test_to or warm_up_from):
        if len(windows) > 1:
            raise misused("stocks and crypto have other published days; give test_from and test_to")
        published = windows.pop()
        first, window = published.warm_up.start, published.test
    else:
        if not (test_from and test_to):
            raise misused("give test_from and test_to, or leave out all dates for published ones")
        first = _date("warm_up_from", warm_up_from or test_from)
        start, end = _date("test_from", test_from), _date("test_to", test_to)
        if not first <= start <= end:
            raise misused("expected warm_up_from <= test_from <= test_to")
        window = Window(start, end)
    days = _days(tuple(markets), first, window.end)
    if not days:
        names = " and ".join(market.symbol for market in markets)
        raise misused(f"{names}: no trading day from {first} to {window.end}")
    return Course(tuple(markets), days, window.start, window.end, hindsight)


@lru_cache(256)
def _days(
    markets: tuple[Market, ...], first: datetime.date, last: datetime.date
) -> tuple[datetime.date, ...]:
    return common_days(markets, Window(first, last))


def _date(name: str, text: str) -> datetime.date:
    found = exact_date(text)
    if found is None:
        raise misused(f"{name}: {text[:40]!r} is no date; write it as 2020-10-01")
    return found


@lru_cache(4_096)
def _known(market: Market, day: datetime.date) -> dict[str, Any]:
    """What became known of an asset on a day; texts are written as JSON once for all sessions."""
    record = market.on(day)
    texts = {
        "news": record.news,
        "quarterly_reports": record.quarterly_reports,
        "annual_reports": record.annual_reports,
    }
    return {
        "price": record.price,
        "momentum": market.momentum(day),
        **{name: orjson.Fragment(orjson.dumps(found)) for name, found in texts.items()},
    }


def _add_news(memory: LayeredMemory, record: MarketDay) -> None:
    known: Mapping[LayerName, Iterable[str]] = {
        "short": record.news, "mid": record.quarterly_reports, "long": record.annual_reports,
    }  # fmt: skip
    for layer, texts in known.items():
        for text in filter(str.strip, texts):
            memory.add(layer, text[:TEXT_CHARS], record.date)


def _reason(text: str) -> str:
    if len(text) > REASON_CHARS:
        raise misused(f"a reason has at most {REASON_CHARS} characters, not {len(text)}")
    if not is_unicode(text):
        raise misused("the reason is not Unicode: half a character")
    return text.strip()


def _ids(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) > MOST_MEMORIES:
        raise misused(f"a decision rests on at most {MOST_MEMORIES} memories, not {len(parts)}")
    if not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in parts):
        raise misused("memories are ids from market_recall, such as 3,17")
    return tuple(map(int, parts))
