import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cache import Flight, Flights
from cache.flight import Late, Shut
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


def soon(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


class Work:
    """Counts how often it is started, and holds every start until released."""

    def __init__(self) -> None:
        self.started = 0
        self.cancelled = 0
        self.release = asyncio.Event()

    async def __call__(self, flight: Flight[str]) -> str:
        self.started += 1
        flight.attempts += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "done"


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_identical_work_is_done_once() -> None:
    flights, work = Flights[str](), Work()
    callers = [asyncio.create_task(flights.join("k", soon(PATIENCE_S), work)) for _ in range(64)]
    await settle()
    work.release.set()
    assert await asyncio.gather(*callers) == ["done"] * 64
    assert work.started == 1
    assert len(flights) == 0


async def test_the_others_go_on_when_the_first_caller_is_cancelled() -> None:
    flights, work = Flights[str](), Work()
    first, second = (asyncio.create_task(flights.join("k", soon(PATIENCE_S), work)) for _ in "ab")
    await settle()
    first.cancel()
    await settle()
    work.release.set()
    assert await second == "done"
    assert first.cancelled()
    assert (work.started, work.cancelled) == (1, 0)


async def test_work_that_nobody_waits_for_is_cancelled_and_the_next_caller_starts_anew() -> None:
    flights, work = Flights[str](), Work()
    callers = [asyncio.create_task(flights.join("k", soon(PATIENCE_S), work)) for _ in range(3)]
    await settle()
    for caller in callers:
        caller.cancel()
    await settle()
    assert (work.cancelled, len(flights)) == (1, 0)
    again = asyncio.create_task(flights.join("k", soon(PATIENCE_S), work))
    await settle()
    work.release.set()
    assert await again == "done"
    assert work.started == 2


async def test_each_caller_waits_under_its_own_deadline() -> None:
    flights, work = Flights[str](), Work()
    short = asyncio.create_task(flights.join("k", soon(0.02), work))
    long = asyncio.create_task(flights.join("k", soon(PATIENCE_S), work))
    with pytest.raises(Late) as caught:
        await short
    assert caught.value.attempts == 1
    work.release.set()
    assert await long == "done"


async def test_failure_reaches_every_caller() -> None:
    async def fail(_: Flight[str]) -> str:
        await asyncio.sleep(0)
        raise LookupError("no")

    work: Callable[[Flight[str]], Coroutine[Any, Any, str]] = fail
    flights = Flights[str]()
    callers = [asyncio.create_task(flights.join("k", soon(PATIENCE_S), work)) for _ in range(3)]
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["no"] * 3


async def test_closing_leaves_nothing_running() -> None:
    flights, work = Flights[str](), Work()
    caller = asyncio.create_task(flights.join("k", soon(PATIENCE_S), work))
    await settle()
    await flights.close()
    assert work.cancelled == 1
    with pytest.raises(Shut):
        await caller
