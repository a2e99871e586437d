"""Single flight: identical work runs once, and all callers that wait for it share the outcome.

Each caller waits under its own deadline and may be cancelled alone. The work goes on for the
others, under the latest deadline among the callers that joined (a part of it that has begun keeps
the time it was given). When no caller waits any more, the work is cancelled, unless it was begun in
the background. `Flights` owns the tasks and ends them when it closes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Late(TimeoutError):
    """A caller's deadline passed before the work ended. `attempts` says how often the work had
    tried by then, and `in_queue` whether it was waiting in the fair queue.
    """

    def __init__(self, attempts: int, in_queue: bool) -> None:
        super().__init__(f"late after {attempts} attempts")
        self.attempts = attempts
        self.in_queue = in_queue


class Shut(Exception):
    """The flights are closing and start no more work."""


class Flight(Generic[T]):
    """One piece of work in progress.

    `deadline` is loop time and may become later as callers join. The work counts its `attempts`.
    """

    __slots__ = ("_ended_in_queue", "_limit", "attempts", "deadline", "task", "waiters")

    def __init__(self, deadline: float) -> None:
        self.attempts = 0
        self.deadline = deadline
        self.task: asyncio.Task[T]
        self.waiters = 0
        self._limit: asyncio.Timeout | None = None
        self._ended_in_queue = False

    @asynccontextmanager
    async def wait_in_queue(self) -> AsyncIterator[None]:
        """A wait in the context ends with a `TimeoutError` at the deadline, even if that moves."""
        limit = asyncio.timeout_at(self.deadline)
        try:
            async with limit as self._limit:
                yield
        finally:
            self._limit, self._ended_in_queue = None, limit.expired()

    @property
    def in_queue(self) -> bool:
        """Whether the work waits in the fair queue, or did so when its time ended."""
        return self._limit is not None or self._ended_in_queue

    def extend(self, deadline: float) -> None:
        self.deadline = max(self.deadline, deadline)
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(self.deadline)


class Flights(Generic[T]):
    """The flights of one event loop, by key."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, Flight[T]] = {}
        self._ending: set[asyncio.Task[T]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._flights)

    async def join(
        self, key: Hashable, deadline: float, work: Callable[[Flight[T]], Coroutine[Any, Any, T]]
    ) -> T:
        """The outcome of `work`, which is started unless it is in progress.

        Raises `Late` at `deadline` (loop time), `Shut`, and whatever the work raised.
        """
        flight = self._flights.get(key)
        if flight is None:
            flight = self._start(key, deadline, work)
        else:
            flight.extend(deadline)
        flight.waiters += 1
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(flight.task)
        except TimeoutError:
            raise Late(flight.attempts, flight.in_queue) from None
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._closed and flight.task.cancelled() and caller and not caller.cancelling():
                raise Shut from None
            raise
        finally:
            flight.waiters -= 1
            if not flight.waiters:
                self._abandon(key, flight)

    def begin(
        self, key: Hashable, deadline: float, work: Callable[[Flight[T]], Coroutine[Any, Any, T]]
    ) -> None:
        """Start `work` in the background unless it is in progress. Only callers that join it
        receive what it raises.
        """
        if key not in self._flights:
            self._start(key, deadline, work).waiters += 1  # it goes on without callers

    def shut(self) -> None:
        """Start no more work; a caller that asks for some gets `Shut`."""
        self._closed = True

    async def close(self) -> None:
        """End all work; its callers are cancelled."""
        self.shut()
        tasks = {flight.task for flight in self._flights.values()} | self._ending
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(
        self, key: Hashable, deadline: float, work: Callable[[Flight[T]], Coroutine[Any, Any, T]]
    ) -> Flight[T]:
        if self._closed:
            raise Shut
        flight = self._flights[key] = Flight(deadline)
        flight.task = asyncio.create_task(work(flight))
        flight.task.add_done_callback(partial(self._land, key, flight))
        return flight

    def _abandon(self, key: Hashable, flight: Flight[T]) -> None:
        """End work that no caller waits for, so that the next caller starts anew."""
        if not flight.task.done():
            self._ending.add(flight.task)
            flight.task.cancel()
        if self._flights.get(key) is flight:
            del self._flights[key]

    def _land(self, key: Hashable, flight: Flight[T], task: asyncio.Task[T]) -> None:
        self._ending.discard(task)
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not task.cancelled():
            task.exception()  # mark it as retrieved, even if no caller is left
