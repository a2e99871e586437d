"""Asks every tool its probe calls for a recording, without straining any host.

Calls to one host are made one after another, `pace_s` apart; hosts are asked at the same time. If a
host's quota is used up, or its circuit breaker stays open, its other calls are left for later.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from cache import SnapshotError
from gateway import Gateway
from gateway.bind import BoundCall
from gateway.errors import CallError, ErrorCode
from gateway.upstreams.hosts import host_of

PATIENCE_S: Final = 90.0
"""The longest wait for a host that asks to come back later."""

TELL_S: Final = 5.0

LATER: Final = frozenset(
    [
        *(ErrorCode.RATE_LIMITED, ErrorCode.QUOTA_EXHAUSTED, ErrorCode.CIRCUIT_OPEN),
        *(ErrorCode.OVERLOADED, ErrorCode.CANCELLED),
    ]
)
"""Errors that are no answer of the tool: the call is to be made again later."""

Tell = Callable[[str], None]


@dataclass
class Progress:
    """How many calls were made, of how many; and how many are left for later, by host."""

    count: int
    made: int = 0
    later: Counter[str] = field(default_factory=Counter)


class Probing:
    """One round of probe calls through a gateway that records."""

    def __init__(
        self, gateway: Gateway, calls: Sequence[BoundCall], pace_s: float, tell: Tell
    ) -> None:
        self.progress = Progress(len(calls))
        self._gateway = gateway
        self._pace_s = pace_s
        self._tell = tell
        self._hosts: defaultdict[str, list[BoundCall]] = defaultdict(list)
        for call in calls:
            self._hosts[host_of(call.plan.manifest)].append(call)

    async def run(self) -> None:
        """Make all calls. Raises `SnapshotError` if they can't be recorded."""
        teller = asyncio.create_task(self._tell_progress())
        try:
            async with anyio.create_task_group() as hosts:
                for host, calls in self._hosts.items():
                    hosts.start_soon(self._ask, host, calls)
        finally:
            teller.cancel()
        if self._gateway.answers.failed:
            raise SnapshotError("recording failed; what was recorded before is in the journal")

    async def _ask(self, host: str, calls: list[BoundCall]) -> None:
        for place, call in enumerate(calls):
            started = time.monotonic()
            error = await self._call(call)
            if error is not None and error.code in LATER:
                wait_s = error.retry_after_s or 0.0
                if error.code is not ErrorCode.QUOTA_EXHAUSTED and wait_s <= PATIENCE_S:
                    await asyncio.sleep(max(wait_s, self._pace_s))
                    error = await self._call(call)
            if self._gateway.answers.failed:
                return
            if error is not None and error.code in LATER:
                self.progress.later[host] += len(calls) - place
                return
            self.progress.made += 1
            if place + 1 < len(calls):
                await asyncio.sleep(max(self._pace_s - (time.monotonic() - started), 0.0))

    async def _call(self, call: BoundCall) -> CallError | None:
        return (await self._gateway.call(call.plan.manifest.name, call.arguments)).error

    async def _tell_progress(self) -> None:
        started = time.monotonic()
        least_s = self._pace_s * max(map(len, self._hosts.values()), default=0)
        while True:
            await asyncio.sleep(TELL_S)
            made, count, passed_s = (
                self.progress.made,
                self.progress.count,
                time.monotonic() - started,
            )
            if made:
                left_s = max(passed_s * (count / made - 1), least_s - passed_s)
                self._tell(f"{made:,} of {count:,} calls made, about {left_s:,.0f} s left")
