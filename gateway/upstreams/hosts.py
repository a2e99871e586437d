"""How the gateway treats each upstream host: slots, rate, retries, pauses and breaker.

Sources ban an address, not a function. So a host is the RapidAPI host, or for AkShare the
registrable domain of the host that a function mainly asks.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from adapters.fair_queue import FairQueue, QueueFull
from adapters.providers import PROVIDERS
from gateway.errors import CallError, ErrorCode
from gateway.settings import GatewaySettings, HostSettings, SettingsError
from gateway.sharing.pace import SharedPace
from gateway.sharing.store import SharedStore
from gateway.upstreams.breaker import Breaker
from gateway.upstreams.pace import Pace
from manifests import Catalog, Manifest
from manifests.common.nearest import did_you_mean

RETRY_SHARE = 0.1
RETRY_RESERVE = 10.0
RETRY_REFILL_S = 10.0
"""A retry costs one token; a first attempt adds 0.1 and each `RETRY_REFILL_S` adds 1."""

WAIT_S = 2.0
"""A call waits for a pause that an upstream asks for, or for a quota, if it is over by then."""

_NO_PLAN = HostSettings()

_NEWEST = 0.2
"""Weight of the newest attempt in the mean of how long attempts take."""


class NotAdmitted(Exception):
    """The call may not go to its upstream now; nothing was sent."""

    def __init__(self, error: CallError) -> None:
        super().__init__(error.message)
        self.error = error


class UpstreamHost:
    """One host, for one event loop."""

    def __init__(
        self,
        name: str,
        at_once: int,
        pace: Pace | SharedPace | None,
        settings: GatewaySettings,
    ) -> None:
        self.name = name
        self._queue = FairQueue(at_once, settings.max_queue_per_host)
        self._pace = pace
        self._breaker = Breaker(
            settings.breaker_failure_rate,
            settings.breaker_attempts,
            settings.breaker_window_s,
            settings.breaker_open_s,
        )
        self._attempt_timeout_s = settings.attempt_timeout_s
        self._mean_s = 0.0
        self._retries = RETRY_RESERVE
        self._refilled_at = time.monotonic()
        self._paused_until = 0.0

    def state(self) -> dict[str, Any]:
        return {
            "in_flight": self._queue.taken,
            "waiting": self._queue.waiting,
            "breaker": self._breaker.state(time.monotonic()),
            "breaker_opened": self._breaker.opened,
            "retry_tokens": round(self._retries, 1),
        }

    def take_slot_now(self) -> int | None:
        """Take a slot for one attempt if nothing has to be waited for; else returns None."""
        now = time.monotonic()
        if now < self._paused_until or self._breaker.wait_s(now) > 0 or not self._queue.take_now():
            return None
        if self._pace is not None and not self._pace.start_now():
            self._queue.give_back()
            return None
        return self._breaker.begin(now, self._attempt_timeout_s)

    async def take_slot(self, client: str, within_s: float) -> int:
        """Wait for a slot for one attempt; `end_slot` gives it back by its number.

        Raises `NotAdmitted`, at once if a pause that the host asked for lasts longer than
        `within_s`.
        """
        until = time.monotonic() + within_s
        self._check(until)
        try:
            await self._queue.take(client)
        except QueueFull:
            text = f"{self._queue.waiting} calls already wait for {self.name}"
            raise NotAdmitted(CallError(ErrorCode.OVERLOADED, text, self._queue_s())) from None
        try:
            self._check(until)  # the host's state may have changed during the wait
            await self.next_start()
            while (paused_s := self._paused_s()) > 0:
                self._check(until)
                await asyncio.sleep(paused_s)
                await self.next_start()
            self._check(until)
        except BaseException:
            self._queue.give_back()
            raise
        return self._breaker.begin(time.monotonic(), self._attempt_timeout_s)

    async def next_start(self) -> None:
        """Wait until the host's rate allows another request."""
        if self._pace is not None:
            await self._pace.start()

    def end_slot(self, attempt: int, good: bool | None, took_s: float) -> None:
        """Give a slot back. `good` says how the attempt ended; None says nothing about the host."""
        self._queue.give_back()
        self._breaker.end(attempt, good=good, now=time.monotonic())
        self._mean_s += _NEWEST * (took_s - self._mean_s)

    def pause(self, seconds: float) -> None:
        """Start no attempt for `seconds`, as the upstream asked."""
        self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    async def close(self) -> None:
        """End what waits for the rate."""
        if isinstance(self._pace, SharedPace):
            await self._pace.close()

    def first_attempt(self) -> None:
        now = time.monotonic()
        refill = RETRY_SHARE + (now - self._refilled_at) / RETRY_REFILL_S
        self._retries = min(self._retries + refill, RETRY_RESERVE)
        self._refilled_at = now

    def may_retry(self) -> bool:
        """Spend a token if there is one; the limit keeps retries from multiplying an outage."""
        if self._retries < 1:
            return False
        self._retries -= 1
        return True

    def not_admitted(self, waited_s: float) -> CallError:
        """The error for a caller whose time passed before it had a slot."""
        text = f"no slot at {self.name} within {waited_s:.3g} s; the gateway limits calls to it"
        return CallError(ErrorCode.RATE_LIMITED, text, self._queue_s())

    def _paused_s(self) -> float:
        return self._paused_until - time.monotonic()

    def _check(self, until: float) -> None:
        """Check that the host may be asked, maybe after a short pause. Raises `NotAdmitted`."""
        paused_s = self._paused_s()
        if paused_s > 0 and paused_s > min(WAIT_S, until - time.monotonic()):
            raise asked_to_wait(self.name, paused_s)
        wait_s = self._breaker.wait_s(time.monotonic())
        if wait_s > 0:
            text = f"most of the last calls to {self.name} failed; it is left alone for a while"
            raise NotAdmitted(CallError(ErrorCode.CIRCUIT_OPEN, text, round(wait_s, 3)))

    def _queue_s(self) -> float:
        """About how many seconds until the queue has moved up."""
        each_s = self._mean_s / max(self._queue.taken, 1)
        if self._pace is not None:
            each_s = max(each_s, self._pace.gap_s)
        return max(1.0, round(each_s * self._queue.waiting, 1))


def asked_to_wait(host: str, wait_s: float) -> NotAdmitted:
    """The refusal of a call whose upstream asked for a pause of which `wait_s` is left."""
    text = f"{host} asked to be left alone; {wait_s:.3g} s of that are left"
    return NotAdmitted(CallError(ErrorCode.RATE_LIMITED, text, round(wait_s, 3)))


class Hosts:
    """The hosts of one gateway, each made on first use. With a `store`, gateways share rates."""

    def __init__(
        self,
        settings: GatewaySettings,
        plans: Mapping[str, HostSettings],
        store: SharedStore | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._plans = plans
        self._hosts: dict[str, UpstreamHost] = {}
        self._left: list[UpstreamHost] = []

    def of(self, manifest: Manifest) -> UpstreamHost:
        """The host whose limits a call of this tool counts against."""
        name = host_of(manifest)
        host = self._hosts.get(name)
        if host is None:
            plan = self._plans.get(name, _NO_PLAN)
            keys = len(self._settings.secrets) if PROVIDERS[manifest.source].has_keys else 1
            rate = plan.per_second and plan.per_second * max(keys, 1)
            at_once = plan.concurrency or self._settings.max_concurrency_per_host
            pace = self._pace(name, rate) if rate else None
            host = self._hosts[name] = UpstreamHost(name, at_once, pace, self._settings)
        return host

    def plan_anew(self, plans: Mapping[str, HostSettings]) -> None:
        """Have other limits from now on. Calls under way at a host whose limits change end by its
        earlier ones.
        """
        changed = [n for n in self._hosts if plans.get(n, _NO_PLAN) != self._plans.get(n, _NO_PLAN)]
        self._left += (self._hosts.pop(name) for name in changed)
        self._plans = plans

    async def close(self) -> None:
        """End what waits for the hosts' rates."""
        for host in (*self._hosts.values(), *self._left):
            await host.close()

    def _pace(self, host: str, rate: float) -> Pace | SharedPace:
        if self._store is None:
            return Pace(rate / self._settings.sharing)
        key = self._store.key("pace", self._settings.ledger_name, tag=f"pace:{host}")
        return SharedPace(self._store, key, rate)

    def state(self) -> dict[str, Any]:
        return {name: host.state() for name, host in sorted(self._hosts.items())}


def host_of(manifest: Manifest) -> str:
    """Name of the host that bears a tool's load, or the tool's own name if none is recorded."""
    if not manifest.binding.hosts:
        return manifest.name
    return PROVIDERS[manifest.source].limited(manifest.upstream)


def plans_of(settings: GatewaySettings, catalog: Catalog) -> dict[str, HostSettings]:
    """Limits by host: the smallest that a manifest gives, unless the settings give another.

    Raises `SettingsError` for a host that no tool asks.
    """
    plans: dict[str, dict[str, Any]] = {}
    for manifest in catalog:
        if manifest.is_local:
            continue
        plan = plans.setdefault(host_of(manifest), {})
        for name, limit in manifest.limits or ():
            if limit is not None:
                plan[name] = min(limit, plan.get(name, limit))
    unknown = settings.hosts.keys() - plans
    if unknown:
        host = min(unknown)
        near = did_you_mean(host, plans, own=_own_part)
        raise SettingsError(f"setting hosts: no tool asks {host!r}{near}")
    for host, own in settings.hosts.items():  # a price limits nothing
        plans[host] |= own.model_dump(exclude_none=True, exclude={"price_per_request"})
    return {host: HostSettings(**plan) for host, plan in plans.items() if plan}


def _own_part(host: str) -> str:
    return host.removesuffix(".rapidapi.com").removesuffix(".p")
