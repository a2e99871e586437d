"""Runs Python functions of the user's as tools, whatever upstream is chosen for the packaged ones.

A coroutine function runs on the event loop, any other in a thread, so that it may block, or in a
worker process if it says so. A thread that goes on after its caller has left counts as busy until
it ends; a process is killed.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from anyio import BrokenWorkerProcess, to_process, to_thread

from adapters.adapter import Adapter
from adapters.fault import UpstreamFault
from adapters.normalise import Answer, from_own
from adapters.provider import Parts, Provider
from adapters.python import worker
from manifests import Catalog, Manifest, Scalar
from manifests.common.threads import Uncarried, in_daemon
from manifests.functions import FunctionTool

log = logging.getLogger("finport")

THREADS: Final = 16
"""Calls of functions that may block, at once."""


class FunctionAdapter(Adapter):
    """Calls functions."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._threads = asyncio.Semaphore(THREADS)
        self._busy: set[asyncio.Future[Any]] = set()

    def close(self) -> None:
        """Wait no longer for threads that are busy; they end with the process."""
        for work in self._busy:
            work.cancel()

    async def fetch(
        self,
        manifest: Manifest,
        arguments: Mapping[str, Scalar],
        timeout_s: float,  # noqa: ARG002 - the caller ends the wait
        client: str = "",  # noqa: ARG002
    ) -> Answer:
        """Raises `UpstreamFault`: `rejected` with the words of a `ValueError`, `crashed` with the
        type of any other exception.
        """
        tool = self._catalog.functions[manifest.revision]
        try:
            if tool.in_process:
                return await _in_process(tool, arguments)
            if inspect.iscoroutinefunction(tool.function):
                value = await tool.call(arguments)
            else:
                value = await self._in_thread(tool, arguments)
            return await to_thread.run_sync(from_own, value)
        except (UpstreamFault, GeneratorExit):
            raise
        except BaseException as error:  # the function's, unless this task is cancelled
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                raise
            cause = error.__cause__ if isinstance(error, Uncarried) else None
            kind, text, line = worker.told(manifest.name, cause or error)
            if line:
                log.error("%s failed: %s", manifest.upstream, line)
            raise UpstreamFault(kind, text) from None

    async def _in_thread(self, tool: FunctionTool, arguments: Mapping[str, Scalar]) -> Any:
        await self._threads.acquire()
        work = asyncio.ensure_future(in_daemon(tool.call, arguments))
        self._busy.add(work)
        work.add_done_callback(self._ended)
        return await asyncio.shield(work)

    def _ended(self, work: "asyncio.Future[Any]") -> None:
        self._busy.discard(work)
        self._threads.release()
        if not work.cancelled():
            work.exception()  # its caller may have left: nobody else reads it


async def _in_process(tool: FunctionTool, arguments: Mapping[str, Scalar]) -> Answer:
    name, function = tool.manifest.name, tool.function
    file = inspect.getfile(function)
    place = f"{function.__module__}:{function.__qualname__}"
    try:
        answer, kind, text, line = await to_process.run_sync(
            worker.call, name, file, place, arguments, cancellable=True
        )
    except BrokenWorkerProcess:
        raise UpstreamFault("crashed", f"the worker process of {name} ended") from None
    if line:
        log.error("%s failed: %s", tool.manifest.upstream, line)
    if answer is None:
        raise UpstreamFault(kind, text)
    return answer


@asynccontextmanager
async def _open(parts: Parts) -> AsyncIterator[Adapter]:
    adapter = FunctionAdapter(parts.catalog)
    try:
        yield adapter
    finally:
        adapter.close()


PYTHON = Provider("python", "Python functions", _open, tls=None)
