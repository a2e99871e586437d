"""How tests wait: for what happens, never for a time to pass.

`PATIENCE_S` is a watch-dog, which no busy machine reaches: no test says with it that something is
fast. What is to cost little is measured in processor time, which others at work do not spend.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from aiohttp import web

from cache import Clock

T = TypeVar("T")

PATIENCE_S = 60.0

EARLY_S = 0.01
"""A timer of an event loop may fire so much early by another clock: it keeps time to a
millisecond, from when the loop last looked.
"""


async def until(is_so: Callable[[], object]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.005)


async def settled(seen: Callable[[], T]) -> T:
    """What is seen when it has not changed for many looks."""
    last, looks = seen(), 0
    while looks < 30:
        await asyncio.sleep(0.01)
        now = seen()
        last, looks = now, looks + 1 if now == last else 0
    return last


def block_until(is_so: Callable[[], object]) -> None:
    """Wait until it is so, where there is no event loop."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "it has not come to that"
        time.sleep(0.01)


@contextmanager
def at_little_cost(most_s: float) -> Iterator[None]:
    """What is done within costs this thread at most so much processor time."""
    before = time.thread_time()
    yield
    cost_s = time.thread_time() - before
    assert cost_s < most_s, f"it cost {cost_s} s of processor time"


@contextmanager
def turns() -> Iterator[list[float]]:
    """Processor seconds of each turn of the event loop meanwhile."""
    took = [0.0]

    async def look() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            took.append(now - before)
            before = now

    looking = asyncio.get_running_loop().create_task(look())
    try:
        yield took
    finally:
        looking.cancel()


class Held:
    """An upstream that numbers its answers, and gives none before it is released."""

    def __init__(self) -> None:
        self.asked = 0
        self.released = asyncio.Event()

    async def handle(self, _: web.Request) -> web.Response:
        self.asked += 1
        number = self.asked
        await self.released.wait()
        return web.json_response({"number": number})


class Stepping:
    """A clock that a test moves: its time of day can be set, also back, and time can pass."""

    def __init__(self, wall: float) -> None:
        self.wall, self.passed = wall, 1_000.0
        self.clock = Clock(wall=lambda: self.wall, passed=lambda: self.passed)

    def step(self, seconds: float) -> None:
        """Somebody sets the time of day."""
        self.wall += seconds

    def go_on(self, seconds: float) -> None:
        """So much time passes."""
        self.wall += seconds
        self.passed += seconds
