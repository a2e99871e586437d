"""Work that may take long. It is done in threads, and nobody waits for it longer than `PATIENCE_S`.

The threads don't delay the end of the process, which must not wait for Python's own.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from manifests.common.threads import in_daemon

PATIENCE_S = 2.0
AT_ONCE = 2

T = TypeVar("T")


Tell = Callable[[str], None]
"""Told by work how far it is, in a sentence."""


class UnderWayError(Exception):
    """The work has not ended yet; it goes on. The text says how far it is."""


@dataclass(slots=True)
class _Work(Generic[T]):
    """What is known of one piece of work: its last result, and of which state that is, or the error
    that nobody was told yet. `told` says how far it is.
    """

    result: T | None = None
    state: object = None
    error: Exception | None = None
    task: "asyncio.Task[Exception | None] | None" = None
    told: str = ""

    def tell(self, text: str) -> None:
        self.told = text


class Kept(Generic[T]):
    """Results by name: those of the last `most` pieces of work."""

    def __init__(self, most: int, threads: asyncio.Semaphore) -> None:
        self._most = most
        self._threads = threads
        self._works: OrderedDict[str, _Work[T]] = OrderedDict()

    def last(self, name: str) -> T | None:
        """The last result of that name, whatever has changed since."""
        known = self._works.get(name)
        return None if known is None else known.result

    async def get(self, name: str, state: object, work: Callable[[Tell], T]) -> T:
        """The result of `work` for this `state` of what it reads. If that takes long, the result
        for an earlier state, or `UnderWayError`. Raises as `work` does.
        """
        known = self._works.get(name)
        if known is None:
            if not self._has_room():
                raise UnderWayError("Other files are read first.")
            known = self._works[name] = _Work()
        self._works.move_to_end(name)
        if known.task is None and known.error is None:
            if known.result is not None and known.state == state:
                return known.result
            known.task = asyncio.create_task(self._done(known, state, work))
        error, task = known.error, known.task
        if task is not None:
            await asyncio.wait({task}, timeout=PATIENCE_S)
            error = task.result() if task.done() else None
        if error is not None:
            known.error = None
            raise error
        if known.result is None:
            raise UnderWayError(known.told)
        return known.result

    async def _done(
        self, known: _Work[T], state: object, work: Callable[[Tell], T]
    ) -> Exception | None:
        """Do the work; its error, if it failed."""
        try:
            async with self._threads:
                known.result = await in_daemon(work, known.tell)
            known.state = state
        except Exception as error:  # noqa: BLE001 - who asked is told
            known.result, known.error = None, error
        finally:
            known.task = None
        return known.error

    def _has_room(self) -> bool:
        """Make room for another piece of work; not by giving up one that is under way."""
        for name in [name for name, work in self._works.items() if work.task is None]:
            if len(self._works) < self._most:
                break
            del self._works[name]
        return len(self._works) < self._most
