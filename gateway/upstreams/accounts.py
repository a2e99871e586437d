"""The quota ledger's file: what each key has used at each host, one row an account, in SQLite.

An account of a plan is stored under the end of its span. The last few spans are kept, so that a
clock that jumps and comes back finds the count of its span again. A quota that an upstream reported
is stored under the upstream's name for it, with the time of the report. An invalid row is skipped.
If several machines share the quotas, this one may use the part of each that is allotted to it.
"""

import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from platform import node
from secrets import token_hex
from typing import Any

from adapters.fault import LONGEST_RESET_S
from gateway.common.database import open_database, reading_database
from manifests import PlanLimits

LOCK_S = 5.0

SPANS = 4
"""How many spans of one account are kept."""

MOST_REPORTED = 16
"""How many accounts of one key at one host an upstream may report."""

STEPPED_S = 1.0
"""A report dated later than now by more than this was made before the clock stepped back."""

_MOST = 2**62
_LONGEST_S = {"second": LONGEST_RESET_S, "hour": 3_600.0, "day": 86_400.0, "month": LONGEST_RESET_S}

_TABLES = (
    """CREATE TABLE IF NOT EXISTS account (
        key TEXT, host TEXT, span TEXT, learned INTEGER, span_end REAL,
        used INTEGER NOT NULL, quota INTEGER, resets_at REAL NOT NULL, noted_at REAL NOT NULL,
        part INTEGER, PRIMARY KEY (key, host, span, learned, span_end)
    ) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS machine (id TEXT PRIMARY KEY, place TEXT) WITHOUT ROWID",
)
_KEEP_SENT = "UPDATE account SET part = used WHERE part IS NOT NULL"
_COLUMNS = "key, host, span, learned, span_end, used, quota, resets_at, noted_at, part"
_LACKS_PART = "SELECT count(*) = 0 FROM pragma_table_info('account') WHERE name = 'part'"
_ADD_COLUMN = "ALTER TABLE account ADD COLUMN part INTEGER"
_READ = "SELECT * FROM account"
_WRITE = f"""
INSERT INTO account ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    used = excluded.used, quota = excluded.quota,
    resets_at = excluded.resets_at, noted_at = excluded.noted_at
"""  # noqa: S608 - names of ours
_ADD_PART = f"""
INSERT INTO account ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET part = max(coalesce(part, 0) + ?, 0)
"""  # noqa: S608 - names of ours
_UNCOUNT = """
UPDATE account SET used = max(used - ?, 0)
    WHERE key = ? AND host = ? AND span = ? AND learned = ? AND span_end = ? AND resets_at <= ?
"""
_FORGET_SPANS = """
DELETE FROM account WHERE key = ? AND host = ? AND span = ? AND learned = 0 AND span_end <> ?
    AND span_end NOT IN (
        SELECT span_end FROM account WHERE key = ? AND host = ? AND span = ? AND learned = 0
        ORDER BY span_end DESC LIMIT ?
    )
"""
_FORGET_REPORTED = (
    "DELETE FROM account WHERE key = ? AND host = ? AND learned = 1 AND resets_at <= ?"
)


@dataclass(slots=True)
class Standing:
    """One key's account at one host over one span; a `quota` of None is no limit.

    `span` is `second`, `hour`, `day` or `month` of a plan. For a `learned` account it is the
    upstream's name for the span. `resets_at` and `noted_at` are Unix times. `part` is how much of
    the quota is allotted to this machine, if several share it.
    """

    key: str
    host: str
    span: str
    learned: bool
    used: int
    quota: int | None
    resets_at: float
    noted_at: float = 0.0
    part: int | None = None

    @property
    def place(self) -> tuple[str, str, str, float]:
        """Tells a plan's account from all others, and from those of other spans."""
        return self.key, self.host, self.span, self.resets_at

    @property
    def left(self) -> float:
        if self.quota is None:
            return math.inf
        return (self.quota if self.part is None else min(self.quota, self.part)) - self.used

    @property
    def is_allotted(self) -> bool:
        """Whether it is a plan's quota over an hour or more, of which machines get parts."""
        return self.quota is not None and self.span != "second" and not self.learned

    def share(self, shared: bool) -> None:
        """Have the part that is allotted to this machine, none of it yet, if machines share."""
        self.part = (self.part or 0) if shared and self.is_allotted else None


class Accounts:
    """The open file, for one thread. Made by `Accounts.open`.

    With `shared`, accounts of plans say which part of their quota this machine may use.
    """

    def __init__(self, store: sqlite3.Connection) -> None:
        self._store = store
        self.shared = False

    @classmethod
    def open(cls, path: Path) -> "Accounts":
        """Open or create the file. Raises `OSError`."""
        try:
            accounts = cls(open_database(path, _TABLES, LOCK_S))
            try:
                with accounts.transaction():
                    if accounts._store.execute(_LACKS_PART).fetchone()[0]:
                        accounts._store.execute(_ADD_COLUMN)
            except BaseException:
                accounts.close()
                raise
            return accounts
        except sqlite3.Error as error:
            raise OSError(f"the quota ledger {path} can't be opened: {error}") from None

    def close(self) -> None:
        self._store.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._store:
            self._store.execute("BEGIN IMMEDIATE")
            yield

    def standings(self, plan: PlanLimits | None, key: str, host: str, now: float) -> list[Standing]:
        """A key's accounts at a host: those of its plan, and those that the upstream reported."""
        kept = self._stored(key, host, now)
        for standing in kept:
            if standing.learned and standing.noted_at == now:
                self._write(standing, now)
        counted = {(s.span, s.resets_at): s for s in kept if not s.learned}
        every = planned(plan, key, host, now)
        for standing in every:
            if (before := counted.get((standing.span, standing.resets_at))) is not None:
                standing.used, standing.part = before.used, before.part
            standing.share(self.shared)
        return every + [s for s in kept if s.learned and now < s.resets_at]

    def _stored(self, key: str, host: str, now: float) -> list[Standing]:
        found = self._store.execute(f"{_READ} WHERE key = ? AND host = ?", (key, host))
        return [*_standings([*found], now)]

    def machine(self, path: Path) -> str:
        """The name of this ledger among those of all machines. A copy of the file at `path` gets a
        name of its own, and no part but what was sent.
        """
        place = f"{node()} {path.stat().st_ino}"
        with self.transaction():
            found = self._store.execute("SELECT id, place FROM machine").fetchone()
            if found is not None and found[1] == place:
                return str(found[0])
            made = token_hex(8)
            self._store.execute("DELETE FROM machine")
            self._store.execute("INSERT INTO machine VALUES (?, ?)", (made, place))
            self._store.execute(_KEEP_SENT)
            return made

    def add_part(self, standing: Standing, requests: int) -> None:
        """Allot so many requests more to this machine."""
        with self.transaction():
            self._add_part(standing, requests)

    def parts(self, now: float) -> list[Standing]:
        """The accounts of spans that last, of which this machine has a part."""
        found = self._store.execute(f"{_READ} WHERE part IS NOT NULL AND resets_at > ?", (now,))
        return [*_standings(found, now)]

    def take_back(self, now: float) -> list[tuple[Standing, int]]:
        """Take what was not sent out of this machine's parts; returns how much that is."""
        with self.transaction():
            parts = self.parts(now)
            unsent = [(s, left) for s in parts if (left := (s.part or 0) - s.used) > 0]
            for standing, requests in unsent:
                self._add_part(standing, -requests)
        return unsent

    def _add_part(self, standing: Standing, requests: int) -> None:
        row = (*_row(standing, standing.noted_at), max(requests, 0))
        self._store.execute(_ADD_PART, (*row, requests))

    def count(self, standing: Standing, now: float, requests: int = 1) -> None:
        """Count `requests` more."""
        is_first = not standing.used
        standing.used += requests
        if standing.left < 1:
            standing.noted_at = now  # it holds its key from now on
        self._write(standing, now)
        if is_first and not standing.learned:
            place = (standing.key, standing.host, standing.span)
            self._store.execute(_FORGET_SPANS, (*place, standing.resets_at, *place, SPANS - 1))

    def uncount(self, standing: Standing, requests: int, same_s: float) -> None:
        """Take back requests that were counted here and not sent.

        Nothing is taken back if the upstream has reported a reset later by more than `same_s`:
        another span runs then, and they are not in it.
        """
        span_end = 0.0 if standing.learned else standing.resets_at
        place = (standing.key, standing.host, standing.span, standing.learned, span_end)
        self._store.execute(_UNCOUNT, (requests, *place, standing.resets_at + same_s))

    def tell(self, standing: Standing, known: Iterable[Standing]) -> None:
        """Store what an upstream reported now, in place of what is `known` of the same account. If
        it reports too many names, the last ones are skipped.
        """
        names = {s.span for s in known if s.learned}
        if standing.span not in names:
            if len(names) >= MOST_REPORTED:
                return
            values = (standing.key, standing.host, standing.noted_at)
            self._store.execute(_FORGET_REPORTED, values)
        self._write(standing, standing.noted_at)

    def _write(self, standing: Standing, now: float) -> None:
        self._store.execute(_WRITE, (*_row(standing, now), None))


def _row(s: Standing, now: float) -> tuple[Any, ...]:
    """An account as the file has it, but for its part."""
    used, quota = min(s.used, _MOST), None if s.quota is None else min(s.quota, _MOST)
    span_end, noted_at = (0.0, s.noted_at) if s.learned else (s.resets_at, now)
    return s.key, s.host, s.span, s.learned, span_end, used, quota, s.resets_at, noted_at


def planned(plan: PlanLimits | None, key: str, host: str, now: float) -> list[Standing]:
    """The accounts of a plan, unused. There is one for the month even if nothing limits it."""
    plan = plan or PlanLimits()
    spans: list[tuple[str, int | None, float]] = [("month", plan.per_month, _next_month(now))]
    if plan.per_day is not None:
        spans.append(("day", plan.per_day, _next(now, 86_400)))
    if plan.per_hour is not None:
        spans.append(("hour", plan.per_hour, _next(now, 3_600)))
    if plan.per_second is not None:  # for 0.5 a second the span is two seconds
        rate = min(plan.per_second, float(_MOST))
        quota = max(int(rate), 1)
        span_s = min(quota / rate, LONGEST_RESET_S)
        spans.append(("second", quota, _next(now, span_s)))
    return [Standing(key, host, span, False, 0, quota, end) for span, quota, end in spans]


def read_accounts(path: Path, now: float, *, shared: bool = False) -> list[Standing]:
    """The current accounts in a file that others may be writing; if machines share quotas, with
    this machine's parts. Raises `OSError`.
    """
    try:
        with reading_database(path, LOCK_S) as database:
            if database is None:
                return []
            found = database.execute(f"{_READ} WHERE resets_at > ?", (now,))
            every = [s for s in _standings(found, now) if now < s.resets_at]
    except sqlite3.Error as error:
        raise OSError(f"the quota ledger {path} can't be read: {error}") from None
    for standing in every:
        standing.share(shared)
    current: dict[tuple[str, str, str, bool], Standing] = {}
    for s in sorted(every, key=lambda s: -s.resets_at):
        if s.learned or s.resets_at - now <= _LONGEST_S.get(s.span, 0.0):
            current[s.key, s.host, s.span, s.learned] = s
    return [*current.values()]


def _standings(rows: Iterable[tuple[Any, ...]], now: float) -> Iterator[Standing]:
    """The valid ones of `rows`. A report made before a clock stepped back is dated from now."""
    for key, host, span, learned, _, used, quota, resets_at, noted_at, *parts in rows:
        texts, times = (key, host, span), (resets_at, noted_at)
        counts = (used,) if quota is None else (used, quota)
        if not (
            all(isinstance(text, str) for text in texts)
            and all(map(_is_count, counts))
            and all(isinstance(at, int | float) and math.isfinite(at) for at in times)
        ):
            continue
        part = next(filter(_is_count, parts), None)  # a file of before has none
        standing = Standing(key, host, span, bool(learned), used, quota, resets_at, noted_at, part)
        if learned:
            if not 0 <= resets_at - noted_at <= LONGEST_RESET_S:
                continue
            if noted_at > now + STEPPED_S:
                standing.resets_at, standing.noted_at = now + resets_at - noted_at, now
        yield standing


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= _MOST


def _next(now: float, span_s: float) -> float:
    """The end of the current span: a multiple of its length."""
    end = now // span_s * span_s + span_s
    return end if end > now else end + span_s  # rounding may make it seem to have ended


def _next_month(now: float) -> float:
    today = datetime.fromtimestamp(now, UTC)
    first = datetime(today.year + today.month // 12, today.month % 12 + 1, 1, tzinfo=UTC)
    return first.timestamp()
