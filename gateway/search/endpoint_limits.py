"""Limits on requests to a model that helps the gateway: an embedder or an extractor.

Whoever needs it goes on without it while it is slow, asked too much, or has just failed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiolimiter import AsyncLimiter

from adapters.fault import UpstreamFault

AT_ONCE = 4
"""Requests that are under way at once."""

PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""How long the model is not asked after a failure; the pause doubles with each further one."""


class NotAskedError(Exception):
    """The model could not be asked at this moment."""


class EndpointLimits:
    """Limits how often and for how long a model is asked, for one event loop. `what` names it."""

    def __init__(
        self, what: str, *, wait_s: float, at_once: int = AT_ONCE, per_minute: int | None = None
    ) -> None:
        self._what = what
        self.wait_s = wait_s
        self._at_once = at_once
        self._rate = None if per_minute is None else AsyncLimiter(per_minute, 60)
        self._under_way = 0
        self._pause_s = PAUSE_S
        self._paused_until = 0.0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Context in which the model is asked. Raises `UpstreamFault` if that takes too long,
        and `NotAskedError` if it may not be asked now.
        """
        self.check()
        has_capacity = self._rate is None or self._rate.has_capacity()
        if self._under_way >= self._at_once or not has_capacity:
            raise NotAskedError(f"the {self._what} is asked too much")
        self._under_way += 1
        try:
            if self._rate is not None:
                await self._rate.acquire()
            async with asyncio.timeout(self.wait_s):
                yield
            self._pause_s = PAUSE_S
        except TimeoutError:
            self.pause()
            text = f"the {self._what} took over {self.wait_s:g} s"
            raise UpstreamFault("timeout", text) from None
        except UpstreamFault:
            self.pause()
            raise
        finally:
            self._under_way -= 1

    def check(self) -> None:
        """Raises `NotAskedError` during a pause."""
        if asyncio.get_running_loop().time() < self._paused_until:
            raise NotAskedError(f"the {self._what} has just failed")

    def pause(self) -> None:
        """Ask nothing for a while; failures of concurrent requests count as one."""
        now = asyncio.get_running_loop().time()
        if now >= self._paused_until:
            self._paused_until = now + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
