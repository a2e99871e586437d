"""A host's rate, shared by all gateways through Redis.

As `Pace`, starts are spaced evenly; all that are due at once begin at once. A gateway takes only
starts that are due, so a caller that leaves uses none up. While Redis is away each gateway keeps to
its share of the rate.
"""

import asyncio
from collections import deque

from gateway.sharing.store import SharedStore, StoreError
from gateway.upstreams.pace import LATE_S, Pace

MOST_AT_ONCE = 64
LEAST_WAIT_S = 0.002


class SharedPace:
    """The starts at one host, `per_second` of them a second in all gateways together."""

    def __init__(self, store: SharedStore, key: str, per_second: float) -> None:
        self._store = store
        self._key = key
        self._per_second = per_second
        self._gap_us = max(int(1e6 * Pace(per_second).gap_s), 1)
        self._alone: Pace | None = None
        self._alone_among = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._asking: asyncio.Task[None] | None = None

    @property
    def gap_s(self) -> float:
        """About how many seconds lie between two starts of this gateway."""
        return self._gap_us / 1e6 * self._store.gateways

    def start_now(self) -> bool:
        """Whether a start could be taken without asking Redis: never."""
        return False

    async def start(self) -> None:
        """Wait for a start; a caller that leaves uses none up."""
        start: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(start)
        if self._asking is None:
            self._asking = asyncio.create_task(self._hand_out())
        await start

    async def close(self) -> None:
        """End all waits."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _hand_out(self) -> None:
        try:
            while self._drop_left():
                taken, wait_s = await self._take(min(len(self._waiting), MOST_AT_ONCE))
                for _ in range(taken):
                    if self._drop_left():
                        self._waiting.popleft().set_result(None)
                if self._waiting and wait_s > 0:
                    await asyncio.sleep(max(wait_s, LEAST_WAIT_S))
        finally:
            self._asking = None
            while self._waiting:
                self._waiting.popleft().cancel()

    def _drop_left(self) -> bool:
        """Forget callers that have left; returns whether one waits."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        return bool(self._waiting)

    async def _take(self, most: int) -> tuple[int, float]:
        """How many starts were taken, and how long until the next one is due."""
        try:
            arguments = [self._gap_us, int(LATE_S * 1e6), most]
            taken, wait_us = await self._store.run("start", [self._key], arguments, quick=True)
        except StoreError:
            await self._own_share().start()
            return 1, 0.0
        return int(taken), int(wait_us) / 1e6

    def _own_share(self) -> Pace:
        gateways = self._store.gateways
        if self._alone is None or self._alone_among != gateways:
            self._alone, self._alone_among = Pace(self._per_second / gateways), gateways
        return self._alone
