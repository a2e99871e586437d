"""Runs Python functions of the user's as tools, whatever upstream is chosen for the packaged ones.

A coroutine function runs on the event loop, any other in a thread, so that it may block. A thread
that goes on after its caller has left counts as busy until it ends.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from traceback import extract_tb
from typing import Any, Final

from anyio import to_thread

from adapters.adapter import Adapter
from adapters.fault import UpstreamFault
from adapters.normalise import Answer, from_object
from adapters.provider import Parts, Provider
from manifests import Manifest, Scalar
from manifests.common.threads import in_daemon
from manifests.functions import FunctionTool

log = logging.getLogger("finport")

THREADS: Final = 16
"""Calls of functions that may block, at once."""

LONGEST: Final = 200
"""The most characters of a function's own words that a caller is told."""


class FunctionAdapter(Adapter):
    """Calls functions."""

    def __init__(self, tools: Mapping[str, FunctionTool]) -> None:
        self._tools = tools
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
        tool = self._tools[manifest.name]
        try:
            if inspect.iscoroutinefunction(tool.function):
                value = await tool.call(arguments)
            else:
                value = await self._in_thread(tool, arguments)
            return await to_thread.run_sync(from_object, value)
        except (UpstreamFault, asyncio.CancelledError):
            raise
        except ValueError as error:
            text = f"{manifest.name} refuses this: {str(error)[:LONGEST]}"
            raise UpstreamFault("rejected", text) from None
        except Exception as error:  # noqa: BLE001 - it is the function's
            # Its words may hold a secret of the function's; the place is enough to find it.
            place = extract_tb(error.__traceback__)[-1]
            where = tool.manifest.binding.hosts[0]
            kind = type(error).__name__
            log.error("%s failed: %s in %s, line %d", where, kind, place.name, place.lineno or 0)
            text = f"{manifest.name} raised {type(error).__name__}; the gateway's log has more"
            raise UpstreamFault("crashed", text) from None

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


@asynccontextmanager
async def _open(parts: Parts) -> AsyncIterator[Adapter]:
    adapter = FunctionAdapter(parts.catalog.functions)
    try:
        yield adapter
    finally:
        adapter.close()


PYTHON = Provider("python", "Python functions", _open, tls=None)
