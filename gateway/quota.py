"""The quota ledger: how many requests each key has sent to each host, and how many it may.

A request is counted, on disk, before it is sent: a process that is killed has counted what it
sent, so nothing is ever under-counted. All processes with one cache folder share the ledger. What a
plan allows comes from settings and manifests, in spans that start with the clock in UTC; what an
upstream says in its `x-ratelimit-*` headers counts beside it, in the upstream's own spans, until it
resets. Keys stand in it as fingerprints.
"""

import asyncio
import math
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio

from adapters.fault import Limit, UpstreamFault, limits_of
from adapters.keys import Key
from cache.threads import run_in
from gateway.errors import CallError, ErrorCode
from gateway.hosts import WAIT_S, Denied, asked_to_wait
from manifests import PlanLimits

UNSUBSCRIBED_S = 3600.0
"""How long a key is not tried again at a host that did not accept it."""

UNTOLD_RESET_S = 3600.0
"""How long a key is not tried again whose quota is used up until nobody knows when."""

LOCK_S = 5.0

SAME_SPAN_S = 5.0
"""A reset that is told later by no more than this, or a hundredth of what is left, is the same."""

_TABLE = """
CREATE TABLE IF NOT EXISTS quota (
    key TEXT, host TEXT, span TEXT, learned INTEGER,
    used INTEGER NOT NULL, quota INTEGER, resets_at REAL NOT NULL,
    PRIMARY KEY (key, host, span, learned)
) WITHOUT ROWID
"""
_READ = "SELECT key, host, span, learned, used, quota, resets_at FROM quota"
_WRITE = "INSERT OR REPLACE INTO quota VALUES (?, ?, ?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM quota WHERE key = ? AND host = ? AND span = ? AND learned = ?"


@dataclass(slots=True)
class Standing:
    """One key's account at one host over one span; `quota` None is no limit.

    `span` is `second`, `hour`, `day` or `month` of a plan, or for what was `learned` the upstream's
    name for it. `resets_at` is Unix time.
    """

    key: str
    host: str
    span: str
    learned: bool
    used: int
    quota: int | None
    resets_at: float

    @property
    def left(self) -> float:
        return math.inf if self.quota is None else self.quota - self.used


@dataclass(frozen=True, slots=True)
class _Take:
    host: str
    given: "asyncio.Future[Key | Standing]"


@dataclass(frozen=True, slots=True)
class _Learn:
    host: str
    key: Key
    limits: Sequence[Limit]


class Ledger:
    """Keys by what they have left (`adapters.keys.Keys`). Made by `Ledger.open`."""

    def __init__(self, secrets: Iterable[str], plans: Mapping[str, PlanLimits]) -> None:
        self._keys = [Key.of(secret) for secret in secrets]
        self._plans = plans
        self._refused: dict[tuple[str, str], float] = {}
        self._resting: dict[tuple[str, str], float] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="quota")
        self._store: sqlite3.Connection
        self._asked = asyncio.Event()
        self._work: list[_Take | _Learn] = []
        self._closing = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, secrets: Iterable[str], plans: Mapping[str, PlanLimits]
    ) -> AsyncIterator["Ledger"]:
        """Open or create the ledger. Raises `OSError`: one that can't be read is not begun anew,
        since that would forget what was used.
        """
        ledger = cls(secrets, plans)
        try:
            ledger._store = await run_in(ledger._thread, _open, path)
            keeper = asyncio.create_task(ledger._keep())
            try:
                yield ledger
            finally:
                ledger._closing = True
                ledger._asked.set()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([keeper])
                    await run_in(ledger._thread, ledger._store.close)
        finally:
            ledger._thread.shutdown(wait=False)

    async def take(self, host: str, timeout_s: float) -> Key:
        """The key with most left for the next request to `host`, which is counted by then.

        Raises `Denied` (`quota_exhausted`, `rate_limited`), and `UpstreamFault` (`not_configured`).
        """
        if not self._keys:
            text = "no RapidAPI key is set; set FINPORT_RAPIDAPI_KEYS"
            raise UpstreamFault("not_configured", text)
        loop = asyncio.get_running_loop()
        patience = loop.time() + min(timeout_s, WAIT_S)
        while True:
            rest_s = min(self._rest_s(host, key) for key in self._usable(host))
            if rest_s > 0:
                if loop.time() + rest_s > patience:
                    raise asked_to_wait(host, rest_s)
                await asyncio.sleep(rest_s)
            take = _Take(host, loop.create_future())
            self._put(take)
            given = await take.given
            if isinstance(given, Key):
                return given
            wait_s = max(given.resets_at - time.time(), 0.0)
            if loop.time() + wait_s > patience:
                raise Denied(_exhausted(given, wait_s))
            await asyncio.sleep(wait_s + 0.001)

    def learn(self, host: str, key: Key, status: int, headers: Mapping[str, str]) -> None:  # noqa: ARG002 - call shape of Keys
        """Take what the upstream says of its quotas into account."""
        limits = [limit for limit in limits_of(headers) if limit.remaining is not None]
        if limits:
            self._put(_Learn(host, key, limits))

    def refuse(self, host: str, key: Key) -> bool:
        """Don't give `key` out for `host` for a while; whether there is another."""
        self._refused[host, key.id] = time.monotonic() + UNSUBSCRIBED_S
        return any(not self._is_refused(host, other) for other in self._keys)

    def rest(self, host: str, key: Key, seconds: float) -> bool:
        """Don't give `key` out for `host` for so long; whether another may be used at once."""
        place = host, key.id
        self._resting[place] = max(self._resting.get(place, 0.0), time.monotonic() + seconds)
        return any(self._rest_s(host, other) <= 0 for other in self._usable(host) if other != key)

    def _usable(self, host: str) -> list[Key]:
        """The keys that `host` accepts; all where it accepts none."""
        return [key for key in self._keys if not self._is_refused(host, key)] or self._keys

    def _rest_s(self, host: str, key: Key) -> float:
        return self._resting.get((host, key.id), 0.0) - time.monotonic()

    def _is_refused(self, host: str, key: Key) -> bool:
        return time.monotonic() < self._refused.get((host, key.id), 0.0)

    def _put(self, work: _Take | _Learn) -> None:
        self._work.append(work)
        self._asked.set()

    async def _keep(self) -> None:
        """Enter what has come by now in one transaction, until the ledger closes."""
        while self._work or not self._closing:
            await self._asked.wait()
            self._asked.clear()
            work, self._work = self._work, []
            takes = [item for item in work if isinstance(item, _Take)]
            try:
                given = await run_in(self._thread, self._enter, work)
            except sqlite3.Error as error:
                text = f"the quota ledger can't be written: {error}"
                for take in takes:
                    if not take.given.done():
                        take.given.set_exception(UpstreamFault("not_configured", text))
                continue
            for take, key in zip(takes, given, strict=True):
                if not take.given.done():
                    take.given.set_result(key)

    def _enter(self, work: Sequence[_Take | _Learn]) -> list[Key | Standing]:
        given: list[Key | Standing] = []
        self._store.execute("BEGIN IMMEDIATE")
        try:
            for item in work:
                if isinstance(item, _Take):
                    given.append(self._give(item.host, time.time()))
                else:
                    self._note(item, time.time())
            self._store.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._store.execute("ROLLBACK")
            raise
        return given

    def _give(self, host: str, now: float) -> Key | Standing:
        """The key with most left, counted; or the account that is the first to be open again."""
        every = self._usable(host)
        usable = [key for key in every if self._rest_s(host, key) <= 0] or every
        accounts = [(key, self._standings(host, key, now)) for key in usable]
        tightest = [min(standings, key=lambda s: s.left) for _, standings in accounts]
        best = max(range(len(usable)), key=lambda n: (tightest[n].left, -_used(accounts[n][1])))
        key, standings = accounts[best]
        if tightest[best].left < 1:
            closed = [[s for s in every if s.left < 1] for _, every in accounts]
            return min(
                (max(every, key=lambda s: s.resets_at) for every in closed),
                key=lambda s: s.resets_at,
            )
        for standing in standings:
            standing.used += 1
            self._write(standing)
        return key

    def _standings(self, host: str, key: Key, now: float) -> list[Standing]:
        """All accounts of a key at a host, those of its plan and those learned."""
        found = self._store.execute(f"{_READ} WHERE key = ? AND host = ?", (key.id, host))
        kept = {(s.span, s.learned): s for s in map(_standing, found)}
        standings = planned(self._plans.get(host), key.id, host, now)
        for standing in standings:
            known = kept.get((standing.span, False))
            if known is not None and now < known.resets_at:
                standing.used, standing.resets_at = known.used, known.resets_at
        for standing in (s for s in kept.values() if s.learned):
            if now < standing.resets_at:
                standings.append(standing)
            else:
                self._store.execute(_FORGET, (key.id, host, standing.span, True))
        return standings

    def _note(self, said: _Learn, now: float) -> None:
        """What an upstream says replaces what is known of the span it speaks of; within one span
        the higher count stands, since requests may be on their way that it has not seen.
        """
        for limit in said.limits:
            if limit.remaining is None or (limit.reset_s is None and limit.remaining > 0):
                continue
            reset_s = UNTOLD_RESET_S if limit.reset_s is None else limit.reset_s
            where = "WHERE key = ? AND host = ? AND span = ? AND learned = 1"
            row = (said.key.id, said.host, limit.name)
            known = self._store.execute(f"{_READ} {where}", row).fetchone()
            used = 0 if known is None else _standing(known).used
            quota = limit.remaining + used if limit.limit is None else limit.limit
            resets_at, now_used = now + reset_s, max(quota - limit.remaining, 0)
            if known is not None:
                before = _standing(known).resets_at
                same_s = max(SAME_SPAN_S, reset_s / 100)
                if now < before and resets_at < before + same_s:
                    now_used, resets_at = max(used, now_used), max(before, resets_at)
            name = limit.name[:64]
            self._write(Standing(said.key.id, said.host, name, True, now_used, quota, resets_at))

    def _write(self, s: Standing) -> None:
        row = (s.key, s.host, s.span, s.learned, s.used, s.quota, s.resets_at)
        self._store.execute(_WRITE, row)


def planned(plan: PlanLimits | None, key: str, host: str, now: float) -> list[Standing]:
    """The accounts that a plan opens, unused; a month's is kept also where nothing limits it."""
    plan = plan or PlanLimits()
    spans: list[tuple[str, int | None, float]] = [("month", plan.per_month, _next_month(now))]
    if plan.per_day is not None:
        spans.append(("day", plan.per_day, _next(now, 86_400)))
    if plan.per_hour is not None:
        spans.append(("hour", plan.per_hour, _next(now, 3_600)))
    if plan.per_second is not None:  # one call in two seconds is a span of two seconds
        span_s = max(1.0, 1 / plan.per_second)
        quota = max(int(plan.per_second), 1)
        spans.append(("second", quota, _next(now, span_s)))
    return [Standing(key, host, span, False, 0, quota, end) for span, quota, end in spans]


def standings(
    path: Path, secrets: Iterable[str], plans: Mapping[str, PlanLimits], now: float
) -> list[Standing]:
    """Accounts as they stand, by host: those in the ledger at `path`, which others may be writing,
    and those of `plans` that are still unused. Raises `OSError`.
    """
    every = {(s.host, s.key, s.learned, s.span): s for s in _read(path, now)}
    for host, plan in plans.items():
        for secret in secrets:
            for standing in planned(plan, Key.of(secret).id, host, now):
                place = (host, standing.key, False, standing.span)
                if place in every:
                    standing.used = every[place].used
                if place in every or standing.quota is not None:
                    every[place] = standing
    return [every[place] for place in sorted(every)]


def left_by_host(
    path: Path, secrets: Sequence[str], plans: Mapping[str, PlanLimits]
) -> dict[str, int]:
    """Requests that all keys together may still send, by the hosts that have a limit over an hour
    or more. Raises `OSError`.
    """
    left: dict[str, dict[str, float]] = {}
    for s in standings(path, secrets, plans, time.time()):
        if s.span != "second":
            keys = left.setdefault(s.host, {Key.of(secret).id: math.inf for secret in secrets})
            if s.key in keys:
                keys[s.key] = min(keys[s.key], max(s.left, 0))
    sums = {host: sum(keys.values()) for host, keys in left.items()}
    return {host: int(together) for host, together in sums.items() if math.isfinite(together)}


def _read(path: Path, now: float) -> list[Standing]:
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=LOCK_S)) as db:
            rows = [_standing(row) for row in db.execute(_READ)]
    except sqlite3.Error as error:
        raise OSError(f"the quota ledger {path} can't be read: {error}") from None
    for row in rows:
        if now >= row.resets_at:
            row.used = 0
    return [row for row in rows if not row.learned or now < row.resets_at]


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        store = sqlite3.connect(path, timeout=LOCK_S, isolation_level=None)
        store.execute("PRAGMA journal_mode = WAL")
        store.execute("PRAGMA synchronous = NORMAL")
        store.execute("PRAGMA wal_autocheckpoint = 64")  # pages: its log stays small
        store.execute(_TABLE)
    except sqlite3.Error as error:
        raise OSError(f"the quota ledger {path} can't be opened: {error}") from None
    return store


def _standing(row: tuple[str, str, str, int, int, int | None, float]) -> Standing:
    key, host, span, learned, used, quota, resets_at = row
    return Standing(key, host, span, bool(learned), used, quota, resets_at)


def _used(standings: Sequence[Standing]) -> int:
    return next(s.used for s in standings if s.span == "month" and not s.learned)


def _next(now: float, span_s: float) -> float:
    """When the span that runs now ends: a multiple of its length."""
    end = now // span_s * span_s + span_s
    return end if end > now else end + span_s  # by rounding it may seem to have ended


def _next_month(now: float) -> float:
    today = datetime.fromtimestamp(now, UTC)
    first = datetime(today.year + today.month // 12, today.month % 12 + 1, 1, tzinfo=UTC)
    return first.timestamp()


def _exhausted(standing: Standing, wait_s: float) -> CallError:
    at = datetime.fromtimestamp(standing.resets_at, UTC).isoformat(timespec="seconds")
    span = f"{standing.host}'s quota per {standing.span}"
    if standing.learned:
        span = f"the quota {standing.span!r} that {standing.host} told of"
    text = f"{span} is used up ({standing.used} of {standing.quota}); it resets at {at}"
    details = {"host": standing.host, "span": standing.span, "resets_at": at}
    return CallError(ErrorCode.QUOTA_EXHAUSTED, text, round(wait_s, 3), details)
