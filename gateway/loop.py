"""The event loop of a command. It ends with the command's coroutine, whatever else runs in it.

Agents, judges and their libraries share the loop. In asyncio a call of `stop` ends it, and so does
a `SystemExit` or `KeyboardInterrupt` of any task or callback. Here the first is an error of its
caller; of the second only those learn that wait for the task.
"""

import asyncio
import logging
from collections.abc import Awaitable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import uvloop

log = logging.getLogger("finport")

T = TypeVar("T")


class CommandLoop(uvloop.Loop):
    """Can't be ended from within while it is `held`."""

    _is_held = False
    _was_told = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """The command's own coroutine runs in this context, in which it handles its signals."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    def stop(self) -> None:
        """Raises `RuntimeError` while the loop is held."""
        if self._is_held:
            raise RuntimeError("the event loop is shared and ends with its command; don't stop it")
        super().stop()

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        task = asyncio.ensure_future(cast("Awaitable[T]", future), loop=self)
        while True:
            try:
                return super().run_until_complete(task)
            except (KeyboardInterrupt, SystemExit) as error:
                if not self._is_held:
                    raise
                self._tell(error)

    def _tell(self, error: BaseException) -> None:
        """Say it once: whoever waits for a task gets its error, but nobody that of a callback."""
        if not self._was_told:
            self._was_told = True
            kind = type(error).__name__
            log.warning("%s in a task or callback does not end the command", kind)
