"""Runs work in a thread that the event loop awaits: a dedicated one, or one that may block forever.

A hanging read of a pipe, name look-up or flush can't be ended. The process would wait for the
thread of a pool before it exits, but not for a daemon.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class Uncarried(Exception):
    """Work in a thread raised what would end the event loop, cancel its caller, or be lost on the
    way there; `__cause__` is that.
    """


async def run_in(thread: ThreadPoolExecutor, work: Callable[..., T], *arguments: object) -> T:
    """Run `work(*arguments)` in `thread`. Returns or raises as `work` does."""
    return await asyncio.get_running_loop().run_in_executor(thread, work, *arguments)


async def in_daemon(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread that does not delay the exit. A cancelled caller leaves it running.

    Raises as `work` does, and `Uncarried`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(given: T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast(T, given))

    def run() -> None:
        given: T | None = None
        error: Exception | None = None
        try:
            given = work(*args, **kwargs)
        except BaseException as raised:  # noqa: BLE001 - it is the caller's
            if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
                error = raised
            else:  # SystemExit and the like; no future takes a StopIteration
                error = Uncarried()
                error.__cause__ = raised
        with suppress(RuntimeError):  # the loop may have closed
            loop.call_soon_threadsafe(tell, given, error)

    threading.Thread(target=run, name="daemon", daemon=True).start()
    return await done
