"""The clients of a running gateway: each is known by its key and held to its limits.

Keys are compared by their hashes, in constant time. Once any key is known, every caller needs one,
whatever becomes of the clients file. While that file can't be read, its last contents stay in
force. So do the clients that other gateways made known, while Redis is away.
"""

import asyncio
import hmac
import logging
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread

from cache import Clock
from gateway.access import keys
from gateway.access.keys import KeyEntry
from gateway.access.quotas import ClientQuotas
from gateway.access.rejection import RequestRejected
from gateway.errors import CallError, ErrorCode
from gateway.settings import GatewaySettings, SettingsError
from gateway.sharing.keys import AT_ONCE, SharedKeys, merged, remembered, unpublished
from gateway.sharing.store import Beat, SharedStore, StoreError

log = logging.getLogger("finport")

CHECK_S = 1.0
"""How often a running gateway checks whether the clients file has changed."""

HOW_TO_SEND = "`Authorization: Bearer KEY` or `x-api-key: KEY`"

FULL_RETRY_S = 1.0
"""Retry time for a client whose calls are all under way: when one will end is unknown."""


class _Rate:
    """Spaces calls evenly; one second's worth, or one call, may come in a burst (GCRA)."""

    __slots__ = ("_burst_s", "_due", "each_s")

    def __init__(self, per_second: float) -> None:
        self.each_s = 1 / per_second
        self._burst_s = max(0.0, 1 - self.each_s) + self.each_s / 1e3  # sums of floats are rounded
        self._due = -math.inf

    def wait_s(self, now: float, ahead: int = 0) -> float:
        """How long until the next call may be taken, behind `ahead` others."""
        return self._due + ahead * self.each_s - self._burst_s - now

    def take(self, now: float) -> None:
        self._due = max(self._due, now) + self.each_s


class Client:
    """One client, for one event loop: what it may use, and how much of it is under way.

    `per_second` and `at_once` are its limits in all; each of `workers` processes grants its share.
    `per_day` is its quota, which all processes share (`ClientQuotas`).
    `max_tokens` is the budget of its answers that set none, and `stand_in` says whether another
    source may answer its calls that do not say.
    Each `begin` or `wait_for_slot` that returned is followed by one `end`. A call is made in the
    client's context, or after `wait_for_slot`: both count it against the quota. Once its key is
    revoked nothing begins, not even in a request that came before.
    """

    def __init__(
        self,
        entry: KeyEntry,
        *,
        workers: int = 1,
        clock: Callable[[], float] = time.monotonic,
        quotas: ClientQuotas | None = None,
    ) -> None:
        self.id = entry.id
        self._quotas = quotas
        self.per_second: float | None = None
        self.in_flight = 0
        self._is_revoked = False
        self._clock = clock
        self._workers = workers
        self._rate: _Rate | None = None
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self.change(entry)

    def __repr__(self) -> str:
        return f"<Client {self.id} {self.name}>"

    @property
    def waiting(self) -> int:
        """How many calls are queued for a slot."""
        return len(self._waiting)

    def change(self, entry: KeyEntry) -> None:
        """Apply the client's changed entry; calls under way and in the queue stay so."""
        self.name, self.grant, self.max_tokens = entry.name, entry.grant, entry.max_tokens
        self.stand_in = entry.stand_in
        self.per_day = None if self._quotas is None else self._quotas.apply(entry)
        if entry.per_second != self.per_second:
            rate = entry.per_second and entry.per_second / self._workers
            self._rate = _Rate(rate) if rate else None
        self.per_second, self.at_once = entry.per_second, entry.at_once
        self._at_once = entry.at_once and math.ceil(entry.at_once / self._workers)
        self._limited = self._rate is not None or self._at_once is not None
        self._stop_timer()
        self._hand_out()

    def revoke(self) -> None:
        """Let nothing begin any more; calls in the queue are refused."""
        self._is_revoked = self._limited = True
        self._rate = self._at_once = None
        self._stop_timer()
        self._hand_out()

    def check_known(self) -> None:
        """Raises `RequestRejected` for a client that was revoked."""
        if self._is_revoked:
            raise _unknown()

    def begin(self) -> None:
        """Take a slot at once. Raises `RequestRejected` (`rate_limited`)."""
        if self._limited:
            self._check_limits()
        self.in_flight += 1

    async def __aenter__(self) -> None:
        """Take a slot at once for a call, and count it. Raises `RequestRejected` (`rate_limited`,
        `quota_exhausted`, `overloaded`).
        """
        self.begin()
        if self.per_day is not None:
            await self._count(self.per_day)

    async def __aexit__(self, *_: object) -> None:
        self.end()

    async def wait_for_slot(self) -> None:
        """Wait for a slot for a call, and count it; slots are given in the order of arrival.

        Raises `RequestRejected` for a client that was revoked or whose quota is used up.
        """
        if self._limited:
            await self._wait_in_line()
        else:
            self.in_flight += 1
        if self.per_day is not None:
            await self._count(self.per_day)

    async def _count(self, per_day: int) -> None:
        """Count a call that has a slot, which it loses if that is refused."""
        assert self._quotas is not None  # noqa: S101 - they gave it its quota
        try:
            await self._quotas.count(self.name, per_day)
        except BaseException:
            self.end()
            raise

    async def _wait_in_line(self) -> None:
        slot = asyncio.get_running_loop().create_future()
        self._waiting[slot] = None
        if self._timer is None:
            self._hand_out()
        try:
            await slot
        except asyncio.CancelledError:
            if not slot.cancelled():
                self.end()  # it was given while its caller was leaving
            else:
                self._waiting.pop(slot, None)
                if not self._waiting:
                    self._stop_timer()
            raise
        if self._is_revoked:
            self.end()
            raise _unknown()

    def end(self) -> None:
        """Give a slot back."""
        self.in_flight -= 1
        if self._waiting and self._timer is None:
            self._hand_out()

    def _check_limits(self) -> None:
        self.check_known()
        if self._full:
            text = f"this client's {self.at_once} calls at once are all under way"
            raise _used_up("at_once", text, FULL_RETRY_S)
        if self._rate is not None:
            now = self._clock()
            wait_s = self._rate.wait_s(now, len(self._waiting))
            if wait_s > 0:
                text = f"this client's {self.per_second:g} calls a second are used up"
                raise _used_up("per_second", text, math.ceil(wait_s * 1e3) / 1e3)
            self._rate.take(now)

    @property
    def _full(self) -> bool:
        return self._at_once is not None and self.in_flight >= self._at_once

    def _hand_out(self) -> None:
        """Give slots to queued calls, as far as the limits allow now."""
        self._timer = None
        while self._waiting and not self._full:
            slot = next(iter(self._waiting))
            if not slot.done():  # its caller may be about to leave
                if self._rate is not None:
                    now = self._clock()
                    wait_s = self._rate.wait_s(now)
                    if wait_s > 0:
                        self._timer = slot.get_loop().call_later(wait_s, self._hand_out)
                        return
                    self._rate.take(now)
                self.in_flight += 1
                slot.set_result(None)
            del self._waiting[slot]

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Clients:
    """All clients that may call, from settings, the clients file and the gateways that share a
    Redis.

    What the file says of a key, above all that it was revoked, overrides the settings. A key that
    is revoked anywhere is revoked. Opening blocks, and raises `SettingsError`.
    """

    def __init__(
        self, settings: GatewaySettings, workers: int = 1, quotas: ClientQuotas | None = None
    ) -> None:
        self._path = settings.clients_file
        self._workers = workers
        self._quotas = quotas or ClientQuotas(settings)
        self._from_settings = keys.settings_entries(settings)
        self._clients: dict[str, tuple[str, Client]] = {}
        self._allowed: dict[str, KeyEntry] = {}
        self.required = False
        """Whether a key is needed: one is or was known, even if it is revoked by now."""
        self._text = keys.text_of(self._path)
        self._in_file = keys.entries_in(self._path, self._text)
        self._shared: SharedKeys | None = None
        self._from_others: tuple[KeyEntry, ...] = ()
        self._changed = asyncio.Event()
        self._untold = False
        if settings.redis_url is not None:
            self._from_others = remembered(self._path)
        for new in self._news():
            self._apply(*new)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: GatewaySettings,
        *,
        workers: int = 1,
        check_s: float = CHECK_S,
        store: SharedStore | None = None,
        clock: Clock | None = None,
    ) -> AsyncIterator["Clients"]:
        """The clients, updated from the clients file, and from the gateways that share the `store`,
        until the context ends.

        `workers` is how many processes share each client's limits. Raises `SettingsError`, and
        `OSError` if the clients' quotas can't be counted.
        """
        quotas = ClientQuotas(settings, clock, store)
        clients = await to_thread.run_sync(cls, settings, workers, quotas)
        if store is not None:
            clients._shared = SharedKeys(store, settings.clients_file)
            store.on_change(clients._beaten)
            await clients._exchange()
        await quotas.open_if_needed()
        watcher = asyncio.create_task(clients._watch(check_s))
        try:
            yield clients
        finally:
            watcher.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({watcher})
                await quotas.aclose()

    def __iter__(self) -> Iterator[Client]:
        return iter([client for _, client in self._clients.values()])

    def name_of(self, id_: str) -> str | None:
        """The name of a client that may call."""
        known = self._clients.get(id_)
        return known and known[1].name

    def authenticate(self, presented: str | None) -> Client:
        """The client whose key this is. Raises `RequestRejected` (`unauthorized`)."""
        if not presented:
            where = "a key comes from the gateway's operator, not from OAuth"
            text = f"no key was given: send {HOW_TO_SEND}; {where}"
            raise RequestRejected(CallError(ErrorCode.UNAUTHORIZED, text))
        digest = keys.digest_of(presented)
        found = self._clients.get(digest[:8])
        if found is None or not hmac.compare_digest(found[0], digest):
            raise _unknown()
        return found[1]

    async def _admit(self) -> None:
        """Make the known entries, and those of the settings, the only clients that may call."""
        news = await to_thread.run_sync(self._news)
        for number, new in enumerate(news, 1):
            self._apply(*new)
            if not number % AT_ONCE:
                await asyncio.sleep(0)

    def _news(self) -> list[tuple[str, KeyEntry | None]]:
        """The entries that differ from those in force, by id; None for one that may no longer call.
        Blocks.
        """
        known_to_us = {entry.id: entry for entry in (*self._from_settings, *self._in_file)}
        entries = merged(self._from_others, known_to_us.values())
        self.required = self.required or bool(entries)
        before, self._allowed = self._allowed, {e.id: e for e in entries if e.revoked_at is None}
        return [
            *((id_, None) for id_ in before.keys() - self._allowed.keys()),
            *((id_, e) for id_, e in self._allowed.items() if _differ(e, before.get(id_))),
        ]

    def _apply(self, id_: str, entry: KeyEntry | None) -> None:
        sha256, client = self._clients.pop(id_, ("", None))
        if client is not None and entry is not None and sha256 == entry.sha256:
            client.change(entry)
        elif client is not None:
            client.revoke()
            client = None
        if entry is not None:
            client = client or Client(entry, workers=self._workers, quotas=self._quotas)
            self._clients[id_] = entry.sha256, client

    async def _watch(self, check_s: float) -> None:
        complaint = None
        while True:
            with anyio.move_on_after(check_s):
                await self._changed.wait()
            text = None
            try:
                text = await to_thread.run_sync(keys.text_of, self._path)
                if text != self._text:
                    if text is None:
                        raise SettingsError(f"clients file {self._path} is gone")
                    self._in_file = await to_thread.run_sync(keys.entries_in, self._path, text)
                    await self._admit()
                    self._text = text
                    self._changed.set()
                complaint = None
            except SettingsError as error:
                if complaint != (text, str(error)):
                    log.warning("%s; the clients known so far stay", error)
                complaint = text, str(error)
            except Exception:  # otherwise no key could be revoked from here on
                log.exception("clients file %s: could not see whether it changed", self._path)
            if self._changed.is_set() or self._untold:
                self._changed.clear()
                await self._exchange()

    def _beaten(self, before: Beat, now: Beat) -> None:
        """Look at the shared keys after they changed, or after Redis was emptied."""
        if (before.clients_version, before.epoch) != (now.clients_version, now.epoch):
            self._changed.set()

    async def _exchange(self) -> None:
        """Learn the keys of the other gateways, and let them know ours."""
        if self._shared is None:
            return
        try:
            fetched = await self._shared.fetch()
            given = (self._from_others, self._in_file, fetched)
            known = await to_thread.run_sync(merged, *given)
            if known != self._from_others:
                self._from_others = known
                await self._admit()
                await to_thread.run_sync(self._shared.remember, known)
            await self._shared.publish(await to_thread.run_sync(unpublished, known, fetched))
            self._untold = False
        except StoreError as error:
            if not self._untold:
                log.warning("keys are not shared with other gateways for now: %s", error)
            self._untold = True
        except OSError as error:
            log.warning("the shared keys can't be kept on this machine: %s", error)
        except Exception:  # otherwise no key could be revoked from here on
            log.exception("keys could not be shared with other gateways")


def _differ(entry: KeyEntry, before: KeyEntry | None) -> bool:
    return entry is not before and entry != before  # most are the same object


def _unknown() -> RequestRejected:
    return RequestRejected(
        CallError(ErrorCode.UNAUTHORIZED, "this key is not known, or was revoked")
    )


def _used_up(limit: str, text: str, retry_after_s: float) -> RequestRejected:
    return RequestRejected(CallError(ErrorCode.RATE_LIMITED, text, retry_after_s, {"limit": limit}))
