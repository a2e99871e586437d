"""The quota ledger: how many requests each key has sent to each host, and how many it may send.

A request is counted, on disk, before it is sent. So a killed process has counted all that it sent,
and nothing is ever under-counted. Where many requests are sent, some are counted ahead (a lease),
so that few wait for the disk. What is left of a lease is given back within `LEASE_S`, or at the end
of the process unless it is killed. All processes with one cache folder share the ledger. A plan's
limits come from settings and manifests, in spans that start with the clock in UTC. Limits that an
upstream gives in its `x-ratelimit-*` headers count in addition, in the upstream's own spans, until
they reset. One that is used up is believed for a day at most, unless the plan has a monthly limit:
then one request asks again. Keys are stored as fingerprints. If several machines share the quotas,
each counts against the part that is allotted to it (`gateway/sharing/allotments.py`).
"""

import asyncio
import contextlib
import logging
import math
import sqlite3
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import anyio

from adapters.fault import LONGEST_RESET_S, UNLIMITED, Limit, UpstreamFault, limits_of
from adapters.rapidapi.keys import Key
from cache import Clock
from gateway.errors import CallError, ErrorCode
from gateway.sharing.allotments import SETTLE_S, Allotments
from gateway.sharing.store import Beat, StoreError
from gateway.upstreams.accounts import Accounts, Standing, planned, read_accounts
from gateway.upstreams.hosts import WAIT_S, NotAdmitted, asked_to_wait
from manifests import PlanLimits
from manifests.common.threads import run_in

T = TypeVar("T")

log = logging.getLogger("finport")

UNSUBSCRIBED_S = 3600.0
"""How long a key is not tried again at a host that rejected it."""

UNKNOWN_RESET_S = 3600.0
"""How long a key is not tried again whose quota is used up, if the reset time is unknown."""

BELIEVED_S = 86_400.0
"""How long a quota that an upstream reported as used up holds a key whose plan sets no monthly one.
"""

ASKED_S = 60.0
"""How long the request that asks again is the only one, if its answer says nothing of the quota."""

SAME_SPAN_S = 5.0
"""A reset reported later by no more than this, or a hundredth of what is left, is the same reset.
"""

LEASE_S = 0.25
"""How long requests that were counted ahead may wait to be sent."""

BUSY = 16
"""From this number of requests to a host within `LEASE_S`, as many again are counted ahead."""

MOST_REFUSED = 1_000
"""From this number of accounts of which no larger part was given, those are forgotten of which one
may be asked for again.
"""

MOST_LEASED = 256
LEASED_SHARE = 16
"""At most one in this number of the requests left is counted ahead."""

UNALLOTTED_S = 1.0
"""How long a larger part of a quota is not asked for again after none was given."""

REPORT_S = 0.05
"""How long a report on a quota that is far from used up may wait to be stored."""


@dataclass(frozen=True, slots=True)
class _Take:
    host: str
    given: "asyncio.Future[Key | Standing | _Short]"


@dataclass(frozen=True, slots=True)
class _Short:
    """This machine's part of a quota is used up; the quota may not be."""

    standing: Standing


@dataclass(slots=True)
class _Lease:
    """Requests counted ahead: `left` of them, in the accounts of `standings`.

    They are valid between `since` and `until` (Unix times), while the spans run in which they are
    counted, and until `ends_at` (loop time). `size` is how many were sent, and are to be sent, in
    about `LEASE_S`. A lease among the work items is one of which no more is sent.
    """

    host: str
    key: Key
    left: int
    standings: list[Standing]
    since: float
    until: float
    size: int = 0
    ends_at: float = 0.0


@dataclass(slots=True)
class _Learn:
    """Limits by name. `unsent` requests of `lease` are counted by us and not by the upstream."""

    host: str
    key: Key
    limits: dict[str, Limit]
    lease: _Lease | None = None
    unsent: int = 0


class Ledger:
    """Gives out keys by what they have left. Made by `Ledger.open`."""

    def __init__(
        self,
        secrets: Iterable[str],
        plans: Mapping[str, PlanLimits],
        clock: Clock,
        allotments: Allotments | None = None,
        lease_s: float | None = None,
        busy: int | None = None,
    ) -> None:
        self._lease_s = lease_s or LEASE_S
        self._busy_from = busy or BUSY
        self._keys = [Key.of(secret) for secret in secrets]
        self._plans = plans
        self._clock = clock
        self._refused: dict[tuple[str, str], float] = {}
        self._resting: dict[tuple[str, str], float] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="quota")
        self._accounts: Accounts
        self._asked = asyncio.Event()
        self._work: list[_Take | _Lease] = []
        self._reported: dict[tuple[str, str], _Learn] = {}
        self._telling: asyncio.TimerHandle | None = None
        self._leases: dict[str, _Lease] = {}
        self._closing = False
        self._allotments = allotments
        self._allotted_to_others: dict[tuple[str, str, str, float], float] = {}
        self._asking: set[asyncio.Task[Any]] = set()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        secrets: Iterable[str],
        plans: Mapping[str, PlanLimits],
        clock: Clock | None = None,
        allotments: Allotments | None = None,
        *,
        lease_s: float | None = None,
        busy: int | None = None,
    ) -> AsyncIterator["Ledger"]:
        """Open or create the ledger. `lease_s` and `busy` stand in for `LEASE_S` and `BUSY`. Raises
        `OSError`. An unreadable ledger is not begun anew, since that would forget what was used.
        """
        ledger = cls(secrets, plans, clock or Clock(), allotments, lease_s, busy)
        try:
            ledger._accounts = await run_in(ledger._thread, Accounts.open, path)
            if allotments is not None:
                ledger._accounts.shared = True
                allotments.machine = await run_in(ledger._thread, ledger._accounts.machine, path)
                allotments.store.on_change(ledger._beaten)
                await ledger._report()
            keeper = asyncio.create_task(ledger._keep())
            try:
                yield ledger
            finally:
                ledger._closing = True
                for lease in [*ledger._leases.values()]:
                    ledger._give_back(lease)
                ledger._asked.set()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([keeper])
                    await ledger._give_parts_back()
                    await run_in(ledger._thread, ledger._accounts.close)
        finally:
            ledger._thread.shutdown(wait=False)

    async def take(self, host: str, timeout_s: float) -> Key:
        """Count a request to `host`, then return the key with most left for it.

        Raises `NotAdmitted` (`quota_exhausted`, `rate_limited`, `overloaded`), and `UpstreamFault`
        (`not_configured`).
        """
        if not self._keys:
            text = "no RapidAPI key is set; set FINPORT_RAPIDAPI_KEYS"
            raise UpstreamFault("not_configured", text)
        loop = asyncio.get_running_loop()
        if (leased := self._leased(host)) is not None:
            return leased
        patience = loop.time() + min(timeout_s, WAIT_S)
        until = loop.time() + min(timeout_s, SETTLE_S + 1)  # a Redis that is new settles first
        while True:
            if self._closing:
                text = "the gateway is closing and sends nothing more"
                raise NotAdmitted(CallError(ErrorCode.OVERLOADED, text))
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
            if isinstance(given, _Short):
                asking = self._begin(self._ask_for_part(given.standing))
                wait_s = await asyncio.shield(asking)  # else a part may be allotted to nobody
                if loop.time() + wait_s > max(patience, until):
                    raise NotAdmitted(_unallotted(host, wait_s))
                await asyncio.sleep(wait_s)
                continue
            wait_s = max(given.resets_at - self._clock.wall(), 0.0)
            if loop.time() + wait_s > patience:
                raise NotAdmitted(_exhausted(given, wait_s))
            await asyncio.sleep(wait_s + 0.001)

    def learn(self, host: str, key: Key, status: int, headers: Mapping[str, str]) -> None:
        """Take into account what the upstream says of its quotas.

        If they are nearly used up, this happens at once; else the latest values are taken within
        `REPORT_S`. If the upstream served the request, -1 left means that there is no limit.
        """
        limits = {
            limit.name: limit
            for limit in limits_of(headers)
            if limit.remaining is not None and (limit.remaining != UNLIMITED or status == 429)
        }
        if not limits:
            return
        reported = self._reported.setdefault((host, key.id), _Learn(host, key, {}))
        for name, limit in limits.items():
            reported.limits[name] = _tighter(reported.limits.get(name, limit), limit)
        least = min(limit.remaining or 0 for limit in limits.values())
        lease = self._leases.get(host)
        if least <= 0 and lease is not None and lease.key == key:
            self._give_back(lease)
        if status == 429 or least < MOST_LEASED:
            self._asked.set()
        elif self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(REPORT_S, self._asked.set)

    def refuse(self, host: str, key: Key) -> bool:
        """Don't give `key` out for `host` for a while; returns whether there is another key."""
        self._refused[host, key.id] = time.monotonic() + UNSUBSCRIBED_S
        return any(not self._is_refused(host, other) for other in self._keys)

    def rest(self, host: str, key: Key, seconds: float) -> bool:
        """Don't give `key` out for `host` for `seconds`; returns whether another is free now."""
        place = host, key.id
        self._resting[place] = max(self._resting.get(place, 0.0), time.monotonic() + seconds)
        return any(self._rest_s(host, other) <= 0 for other in self._usable(host) if other != key)

    def _usable(self, host: str) -> list[Key]:
        """The keys that `host` accepts, or all keys if it accepts none."""
        return [key for key in self._keys if not self._is_refused(host, key)] or self._keys

    def _rest_s(self, host: str, key: Key) -> float:
        return self._resting.get((host, key.id), 0.0) - time.monotonic()

    def _is_refused(self, host: str, key: Key) -> bool:
        return time.monotonic() < self._refused.get((host, key.id), 0.0)

    def _leased(self, host: str) -> Key | None:
        """Use a request that was counted ahead and return its key; None if there is none."""
        lease = self._leases.get(host)
        if lease is None or not lease.left:
            return None
        if not self._holds(lease):
            self._give_back(lease)
            return None
        lease.left -= 1
        return lease.key

    def _holds(self, lease: _Lease) -> bool:
        host, key = lease.host, lease.key
        return (
            asyncio.get_running_loop().time() < lease.ends_at
            and lease.since <= self._clock.wall() < lease.until
            and not self._is_refused(host, key)
            and self._rest_s(host, key) <= 0
        )

    def _give_back(self, lease: _Lease) -> None:
        """End a lease and give back what is left."""
        if self._leases.get(lease.host) is lease:
            del self._leases[lease.host]
            if lease.left:
                self._put(lease)

    def _put(self, work: _Take | _Lease) -> None:
        self._work.append(work)
        self._asked.set()

    async def _keep(self) -> None:
        """Enter all pending work in one transaction, again and again, until the ledger closes."""
        while self._work or self._reported or not self._closing:
            await self._asked.wait()
            self._asked.clear()
            if self._telling is not None:
                self._telling.cancel()
                self._telling = None
            reported, self._reported = self._reported, {}
            came, self._work = self._work, []
            ended = [item for item in came if isinstance(item, _Lease)]
            takes = [item for item in came if isinstance(item, _Take) and not self._is_served(item)]
            busy = self._busy(takes)
            for said in reported.values():
                running = self._leases.get(said.host)
                if running is not None and running.key == said.key:
                    said.lease, said.unsent = running, running.left
            work = [*ended, *reported.values(), *takes]
            try:
                given = await run_in(self._thread, self._enter, work, busy)
            except Exception as error:  # noqa: BLE001 - whoever asks next is to be answered too
                given = [_out_of_order(error)] * len(takes)
            for take, lease in zip(takes, given, strict=True):
                self._deliver(take, lease, busy[take.host])

    def _is_served(self, take: _Take) -> bool:
        """Whether a request needs no work: a lease that has arrived since serves it, or nobody
        waits for it any more.
        """
        if not take.given.done() and (key := self._leased(take.host)) is not None:
            take.given.set_result(key)
        return take.given.done()

    def _busy(self, takes: Iterable[_Take]) -> dict[str, int]:
        """Requests sent to each host in about the last `LEASE_S`, including `takes`."""
        now, busy = asyncio.get_running_loop().time(), dict[str, int]()
        for take in takes:
            lease = self._leases.get(take.host)
            before = lease.size if lease is not None and now < lease.ends_at else 0
            busy[take.host] = busy.get(take.host, before) + 1
        return busy

    def _deliver(
        self, take: _Take, lease: "_Lease | Standing | _Short | NotAdmitted", busy: int
    ) -> None:
        """Give out a key; requests leased with it are for the next callers."""
        if isinstance(lease, _Lease):
            self._install(lease, busy)
        if take.given.done():
            return
        if isinstance(lease, NotAdmitted):
            take.given.set_exception(lease)
        else:
            take.given.set_result(lease.key if isinstance(lease, _Lease) else lease)

    def _install(self, lease: _Lease, busy: int) -> None:
        """Give out requests of this lease from now on. An empty lease only continues the count, for
        `LEASE_S` from the first request that it counts.
        """
        loop = asyncio.get_running_loop()
        before = self._leases.get(lease.host)
        lease.size, lease.ends_at = busy + lease.left, loop.time() + self._lease_s
        if before is not None:
            if not lease.left and loop.time() < before.ends_at:
                lease.ends_at = before.ends_at
            self._give_back(before)
        self._leases[lease.host] = lease
        if self._closing:
            self._give_back(lease)
        elif lease.left:
            loop.call_later(self._lease_s, self._give_back, lease)

    def _enter(
        self, work: Sequence[_Learn | _Take | _Lease], busy: Mapping[str, int]
    ) -> "list[_Lease | Standing | _Short | NotAdmitted]":
        given: list[_Lease | Standing | _Short | NotAdmitted] = []
        last = {item.host: item for item in work if isinstance(item, _Take)}
        with self._accounts.transaction():
            for item in work:
                now = self._clock.wall()
                try:
                    match item:
                        case _Take(host=host):
                            ahead = busy[host] if item is last[host] else 0
                            given.append(self._give(host, now, min(ahead, MOST_LEASED)))
                        case _Learn():
                            self._note(item, now)
                        case _Lease():
                            for standing in item.standings:
                                self._accounts.uncount(standing, item.left, _same_s(standing, now))
                except sqlite3.Error:
                    raise  # the ledger failed, not this item
                except Exception as error:
                    log.exception("a quota could not be worked out")
                    if isinstance(item, _Take):
                        given.append(_out_of_order(error))
        return given

    def _give(self, host: str, now: float, ahead: int) -> _Lease | Standing | _Short:
        """Lease requests of the key with most left: the one asked for, and more if the host is
        busy. If no key has any left, returns the account that is the first to be open again, or one
        of which this machine may get a larger part.
        """
        every = self._usable(host)
        usable = [key for key in every if self._rest_s(host, key) <= 0] or every
        plan = self._plans.get(host)
        accounts = [(k, self._accounts.standings(plan, k.id, host, now)) for k in usable]
        most_s = LONGEST_RESET_S if plan and plan.per_month else BELIEVED_S
        for _, standings in accounts:
            for standing in standings:
                _disbelieve(standing, most_s, now)
        tightest = [min(standings, key=lambda s: s.left) for _, standings in accounts]
        best = max(range(len(usable)), key=lambda n: (tightest[n].left, -_used(accounts[n][1])))
        key, standings = accounts[best]
        left = tightest[best].left
        if left < 1:
            closed = [[s for s in every if s.left < 1] for _, every in accounts]
            for short in closed:
                if all(self._may_get_more(s) for s in short):
                    return _Short(short[0])
            return min(
                (max(every, key=lambda s: s.resets_at) for every in closed),
                key=lambda s: s.resets_at,
            )
        most = ahead if math.isinf(left) else min(ahead, int(left) // LEASED_SHARE)
        more = most if ahead >= self._busy_from else 0
        for standing in standings:
            self._accounts.count(standing, now, 1 + more)
        return _Lease(host, key, more, standings, now, min(s.resets_at for s in standings))

    def _may_get_more(self, s: Standing) -> bool:
        """Whether only this machine's part of a quota is used up."""
        if s.part is None or s.quota is None or s.quota - s.used < 1:
            return False
        return time.monotonic() >= self._allotted_to_others.get(s.place, 0.0)

    async def _ask_for_part(self, standing: Standing) -> float:
        """Ask for a larger part of an account; returns how long to wait before it is looked at
        again. Callers that ask at the same time share what comes.
        """
        assert self._allotments is not None  # noqa: S101 - else no account has parts
        place = standing.place
        async with self._allotments.lock(standing):
            now = self._clock.wall()
            current = await run_in(self._thread, self._with_part, standing)
            if current.left >= 1 or current.resets_at <= now:
                return 0.0
            try:
                wanted = min(max(len(self._work), 1), MOST_LEASED)
                more, wait_s = await self._allotments.ask(current, wanted)
            except StoreError:
                return UNALLOTTED_S
            if more:
                await run_in(self._thread, self._accounts.add_part, current, more)
                return 0.0
            if wait_s:
                return wait_s
            refused, now = self._allotted_to_others, time.monotonic()
            if len(refused) >= MOST_REFUSED:
                self._allotted_to_others = refused = {p: t for p, t in refused.items() if t > now}
            refused[place] = now + UNALLOTTED_S
            return 0.0

    def _with_part(self, standing: Standing) -> Standing:
        """The account as it is now."""
        plan = self._plans.get(standing.host)
        now = self._clock.wall()
        for s in self._accounts.standings(plan, standing.key, standing.host, now):
            if s.place == standing.place and not s.learned:
                return s
        return standing

    def _beaten(self, before: Beat, now: Beat) -> None:
        """Report this machine's parts to a Redis that was emptied."""
        if before.epoch != now.epoch:
            self._begin(self._report())

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin to ask Redis something; closing waits for it."""
        task = asyncio.create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return task

    async def _report(self) -> None:
        if self._allotments is not None:
            with contextlib.suppress(StoreError):  # it is reported again in the next epoch
                now = self._clock.wall()
                parts = await run_in(self._thread, self._accounts.parts, now)
                await self._allotments.report(parts)

    async def _give_parts_back(self) -> None:
        if self._allotments is None:
            return
        if self._asking:
            await asyncio.wait(self._asking)
        if not self._allotments.store.is_away:
            now = self._clock.wall()
            for standing, requests in await run_in(self._thread, self._accounts.take_back, now):
                await self._allotments.give_back(standing, requests)

    def _note(self, said: _Learn, now: float) -> None:
        """Replace what is known of a span by what the upstream says of it. Within one span the
        higher count stays, since the upstream may not have seen requests on their way.
        """
        kept = self._accounts.standings(None, said.key.id, said.host, now)
        known = {s.span: s for s in kept if s.learned}
        for limit in said.limits.values():
            if limit.remaining is None or (limit.reset_s is None and limit.remaining > 0):
                continue
            name, reset_s = limit.name[:64], limit.reset_s
            if reset_s is None:
                reset_s = UNKNOWN_RESET_S
            before = known.get(name)
            used = before.used if before is not None else 0
            quota = limit.limit
            if quota is None or quota < limit.remaining:
                quota = max(limit.remaining + used, 0)
            resets_at = now + reset_s
            now_used = max(quota - limit.remaining, 0) + said.unsent
            if before is not None and resets_at < before.resets_at + _same_s(before, now):
                now_used = max(used, now_used)
                resets_at = max(before.resets_at, resets_at)
            place = (said.key.id, said.host, name, True)
            standing = Standing(*place, now_used, quota, resets_at, now)
            self._accounts.tell(standing, known.values())
            known[name] = standing
            if said.lease is not None:  # the lease is counted in this account now
                others = (s for s in said.lease.standings if not (s.learned and s.span == name))
                said.lease.standings = [*others, standing]


def standings(
    path: Path,
    secrets: Iterable[str],
    plans: Mapping[str, PlanLimits],
    now: float,
    *,
    shared: bool = False,
) -> list[Standing]:
    """The current accounts, by host: those in the ledger at `path`, which others may be writing,
    and the unused ones of `plans`; if machines share quotas, with this machine's parts. Raises
    `OSError`.
    """
    found = read_accounts(path, now, shared=shared)
    every = {(s.host, s.key, s.learned, s.span): s for s in found}
    for host, plan in plans.items():
        for secret in secrets:
            for standing in planned(plan, Key.of(secret).id, host, now):
                place = (host, standing.key, False, standing.span)
                if place in every:
                    standing.used = every[place].used
                    if standing.is_allotted:
                        standing.part = every[place].part
                if place in every or standing.quota is not None:
                    every[place] = standing
    return [every[place] for place in sorted(every)]


def left_by_host(
    path: Path, secrets: Sequence[str], plans: Mapping[str, PlanLimits]
) -> dict[str, int]:
    """Requests that all keys together may still send, for each host that has a limit over an hour
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


def _disbelieve(s: Standing, most_s: float, now: float) -> None:
    """Let a reported quota that is used up hold its key for `most_s` at most, then leave one
    request in it, so that a wrong reset is found out.
    """
    until = s.noted_at + most_s
    if not s.learned or s.left >= 1 or s.resets_at <= until:
        return
    if now < until:
        s.resets_at = until
    else:
        s.used, s.resets_at, s.noted_at = s.used + int(s.left) - 1, now + ASKED_S, now


def _unallotted(host: str, wait_s: float) -> CallError:
    text = (
        f"this gateway's part of the quota of {host} is used up, and it gets no more for now: "
        "Redis, through which gateways share it, is away or was empty"
    )
    return CallError(ErrorCode.OVERLOADED, text, round(wait_s, 3))


def _tighter(before: Limit, now: Limit) -> Limit:
    """Of two reports on one quota, the one with less left, unless a new span has begun. Answers may
    overtake each other.
    """
    is_new = (now.reset_s or 0.0) > (before.reset_s or 0.0) + SAME_SPAN_S
    return now if is_new or (now.remaining or 0) <= (before.remaining or 0) else before


def _same_s(standing: Standing, now: float) -> float:
    """A reset reported later by no more than this belongs to the same span."""
    return max(SAME_SPAN_S, (standing.resets_at - now) / 100)


def _out_of_order(error: Exception) -> NotAdmitted:
    """The refusal of a request that can't be counted."""
    text = f"the quota ledger can't be written: {error}"
    return NotAdmitted(CallError(ErrorCode.OVERLOADED, text, retry_after_s=1.0))


def _used(standings: Sequence[Standing]) -> int:
    return next(s.used for s in standings if s.span == "month" and not s.learned)


def _exhausted(standing: Standing, wait_s: float) -> CallError:
    at = datetime.fromtimestamp(standing.resets_at, UTC).isoformat(timespec="seconds")
    span = f"{standing.host}'s quota per {standing.span}"
    if standing.learned:
        span = f"the quota {standing.span!r} that {standing.host} reported"
    by = f"{standing.used} of {standing.quota}"
    if standing.part is not None:
        by += " by this machine, the rest by those that share it"
    text = f"{span} is used up ({by}); it resets at {at}"
    details = {"host": standing.host, "span": standing.span, "resets_at": at}
    return CallError(ErrorCode.QUOTA_EXHAUSTED, text, round(wait_s, 3), details)
