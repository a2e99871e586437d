"""The event loop of a command. It ends with the command's coroutine, whatever else runs in it.

Agents, judges and their libraries share the loop. In asyncio a call of `stop` ends it, and so does
a `SystemExit` or `KeyboardInterrupt` of any task or callback. Here the first is an error of its
caller, and so is `os._exit`, which would end the process as if all were done; of the second only
those learn that wait for the task.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar, cast

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
        leave, process = os._exit, os.getpid()

        def refuse(status: int) -> NoReturn:
            if os.getpid() != process:  # a fork leaves as it likes
                leave(status)
            raise RuntimeError("the process is shared and ends with its command; don't end it")

        self._is_held, os._exit = True, refuse
        try:
            yield
        finally:
            self._is_held, os._exit = False, leave

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
