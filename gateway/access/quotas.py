"""The quotas of clients: how many calls each may make in a day, which begins at midnight UTC.

They are counted by a ledger as upstreams' are (`gateway.upstreams.quota`), in a file of their own
that all processes with one cache folder share: on disk before a call is made, some ahead where many
are made. So no restart forgets a call, and a killed process leaves at most `MOST_LEASED` of a
client's calls counted that were not made. The count belongs to the name of a client, whichever key
it has.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime

from cache import Clock
from gateway.access.keys import KeyEntry
from gateway.access.rejection import RequestRejected
from gateway.errors import CallError, ErrorCode
from gateway.settings import GatewaySettings
from gateway.sharing.allotments import Allotments
from gateway.sharing.store import SharedStore
from gateway.upstreams.hosts import WAIT_S, NotAdmitted
from gateway.upstreams.quota import Ledger
from manifests import PlanLimits

log = logging.getLogger("finport")

LEASE_S = 1.0
"""How long calls that were counted ahead may wait to be made."""

BUSY = 4
"""From this number of a client's calls within `LEASE_S`, as many again are counted ahead."""

FULL_RETRY_S = 1.0

REFUSED_S = 0.5
"""How long a client whose quota is used up is refused without a look at the ledger."""


class ClientQuotas:
    """The quotas of all clients of one event loop. With a `store`, gateways share them."""

    def __init__(
        self,
        settings: GatewaySettings,
        clock: Clock | None = None,
        store: SharedStore | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock or Clock()
        self._store = store
        self._plans: dict[str, PlanLimits] = {}
        self._refused: dict[str, tuple[float, float, CallError]] = {}
        self._opening = asyncio.Lock()
        self._opened = AsyncExitStack()
        self._ledger: Ledger | None = None

    def apply(self, entry: KeyEntry) -> int | None:
        """Limit a client as its entry says. Returns its calls a day, None for no limit."""
        per_day = entry.per_day or self._settings.calls_per_day
        self._limit(entry.name, per_day)
        return per_day

    def _limit(self, name: str, per_day: int | None) -> None:
        self._plans[name] = PlanLimits(per_day=per_day)
        self._refused.pop(name, None)

    async def open(self) -> Ledger:
        """The open ledger. Raises `OSError`."""
        async with self._opening:
            if self._ledger is None:
                settings, store = self._settings, self._store
                shared = None
                if store is not None:
                    shared = Allotments(store, f"{settings.ledger_name}-clients")
                path, key = settings.client_quotas_path, ["clients"]
                ledger = Ledger.open(
                    path, key, self._plans, self._clock, shared, lease_s=LEASE_S, busy=BUSY
                )
                self._ledger = await self._opened.enter_async_context(ledger)
            return self._ledger

    async def open_if_needed(self) -> None:
        """Open the ledger if any client has a quota. Raises `OSError`."""
        if any(plan.per_day is not None for plan in self._plans.values()):
            await self.open()

    async def aclose(self) -> None:
        await self._opened.aclose()

    async def count(self, name: str, per_day: int | None = None) -> None:
        """Count a call of a client that has a quota: `per_day`, where another key of its name may
        have another. Raises `RequestRejected` (`quota_exhausted`; `overloaded` if it can't be
        counted).
        """
        if per_day is not None and self._plans[name].per_day != per_day:
            self._limit(name, per_day)
        if (before := self._refused.get(name)) is not None:
            until, resets_at, said = before
            if self._clock.passed() < until and self._clock.wall() < resets_at:
                raise RequestRejected(said)
        try:
            ledger = self._ledger or await self.open()
            await ledger.take(name, WAIT_S)
        except OSError as error:
            log.error("calls of clients can't be counted: %s", error)
            text = "the calls of this client can't be counted; the gateway's log says why"
            raise RequestRejected(CallError(ErrorCode.OVERLOADED, text, FULL_RETRY_S)) from None
        except NotAdmitted as denied:
            told = self._told(name, denied.error)
            if told.code is ErrorCode.QUOTA_EXHAUSTED:
                resets_at = datetime.fromisoformat(told.details["resets_at"]).timestamp()
                self._refused[name] = self._clock.passed() + REFUSED_S, resets_at, told
            raise RequestRejected(told) from None

    def _told(self, name: str, error: CallError) -> CallError:
        """The error of the ledger, in the client's terms."""
        if error.code is not ErrorCode.QUOTA_EXHAUSTED:
            return replace(error, message=f"calls of clients can't be counted: {error.message}")
        per_day, resets_at = self._plans[name].per_day, error.details["resets_at"]
        text = f"this client's {per_day} calls a day are used up; the quota resets at {resets_at}"
        return replace(error, message=text, details={"limit": "per_day", "resets_at": resets_at})
