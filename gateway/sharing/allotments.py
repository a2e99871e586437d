"""The parts of quotas that are allotted to this machine, where several share them through Redis.

The parts of all machines never add up to more than the quota, and a machine never sends more than
its part. So whatever becomes of Redis or of a machine, no quota is overspent. A machine asks for
some more than it needs now, so that it can go on while Redis is away. What it has not sent by its
end it gives back. A killed machine's part stays its own until the span ends.

A Redis that was emptied knows no parts. So for `SETTLE_S` it allots nothing, and every machine
reports the part that it has, and how much it knows to be allotted to all. So the part of a machine
that is not there counts too, if one that is there asked for more after it.
"""

import asyncio
from collections.abc import Sequence
from weakref import WeakValueDictionary

from gateway.sharing.store import SharedStore, StoreError
from gateway.upstreams.accounts import Standing

SETTLE_S = 3.0

SHARES = 4
"""A machine is allotted at most one in this number of its equal share of what is left."""

REMEMBERED = 50_000
"""Accounts of which is known how much is allotted to all: those that were asked about last."""

_AFTER_END_MS = 86_400_000


class Allotments:
    """Asks Redis for parts of the quotas of one ledger. `machine` names the ledger's machine."""

    def __init__(self, store: SharedStore, ledger_name: str, settle_s: float = SETTLE_S) -> None:
        self.store = store
        self._settle_ms = int(settle_s * 1e3)
        self.machine = ""
        self._ledger_name = ledger_name
        self._allotted_to_all: dict[str, int] = {}
        self._locks: WeakValueDictionary[tuple[str, str, str, float], asyncio.Lock]
        self._locks = WeakValueDictionary()

    def lock(self, standing: Standing) -> asyncio.Lock:
        """The lock of an account, of which one larger part at a time is asked for."""
        return self._locks.setdefault(standing.place, asyncio.Lock())

    async def ask(self, standing: Standing, wanted: int) -> tuple[int, float]:
        """Ask for `wanted` requests of an account or more. Returns how many more this machine has,
        or none and after how many seconds to ask again. Raises `StoreError`.
        """
        part, wait_ms = await self._told(standing, wanted, standing.quota or 0)
        return max(part - (standing.part or 0), 0), wait_ms / 1e3

    async def report(self, parts: Sequence[Standing]) -> None:
        """Tell Redis which parts this machine has, and what it knows of the others'. Raises
        `StoreError`.
        """
        current = {self._account(standing) for standing in parts}
        known = self._allotted_to_all.items()
        self._allotted_to_all = {name: number for name, number in known if name in current}
        for standing in parts:
            await self._told(standing, 0, 0)

    async def give_back(self, standing: Standing, requests: int) -> None:
        """Give back what of a part was not sent; lost if Redis is away, until the span ends."""
        try:
            keys = [self._account(standing)]
            await self.store.run("give_back", keys, [self.machine, requests])
        except StoreError:
            pass

    async def _told(self, standing: Standing, wanted: int, quota: int) -> tuple[int, int]:
        has = max(standing.part or 0, standing.used)
        left_ms = int(max(standing.resets_at - self.store.wall(), 0) * 1e3) + _AFTER_END_MS
        account = self._account(standing)
        keys = [account, self.store.key("epoch")]
        known = self._allotted_to_all.get(account, 0)
        divisor = SHARES * self.store.gateways
        arguments = [self.machine, has, wanted, quota, divisor, self._settle_ms, left_ms]
        part, all_parts, wait_ms = await self.store.run("allot", keys, [*arguments, known])
        self._allotted_to_all.pop(account, None)
        self._allotted_to_all[account] = int(all_parts)
        if len(self._allotted_to_all) > REMEMBERED:
            del self._allotted_to_all[next(iter(self._allotted_to_all))]
        return int(part), int(wait_ms)

    def _account(self, s: Standing) -> str:
        span = f"{s.span}-{s.resets_at:.0f}"
        return self.store.key("quota", self._ledger_name, s.host, s.key, span)
