"""Compares formulas in processes, so that no answer can hold the event loop, time or memory.

Each comparison has a deadline. One that misses it, or ends its process, counts as unequal; the
process is killed, and the next comparison starts a new one. At most two run at a time. Processes
get no secret and are ended with their `Mathematics`.
"""

import asyncio
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Final

from adapters.fault import UpstreamFault
from adapters.process import kill, receive, send, start
from bench.suites.finova.mathematics import Verdict
from bench.suites.suite import SuiteError

PROCESSES = 2
START_SECONDS = 60.0  # on a busy machine; alone it takes four
REMEMBERED = 65_536

_MODULE: Final = "bench.suites.finova.formulas"


class Mathematics:
    """Decides on comparisons."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._slots = asyncio.Semaphore(PROCESSES)
        self._idle: list[Process] = []
        self._running: set[Process] = set()
        self._known: dict[tuple[str, str], bool] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, seconds: float = 5.0) -> AsyncIterator["Mathematics"]:
        """Comparisons may take `seconds` each. Raises `SuiteError` without math-verify."""
        if find_spec("math_verify") is None:
            raise SuiteError("Finova needs math-verify: pip install 'finport[finova]'")
        mathematics = cls(seconds)
        try:
            yield mathematics
        finally:
            await mathematics._close()

    async def holds(self, verdict: Verdict) -> bool:
        """The verdict, after its comparisons. Raises `SuiteError` if no process can start."""
        if isinstance(verdict, bool):
            return verdict
        for gold, given in verdict:
            if not await self._are_equal_formulas(gold, given):
                return False
        return True

    async def _are_equal_formulas(self, gold: str, given: str) -> bool:
        async with self._slots:
            known = self._known.get((gold, given))
            if known is not None:
                return known
            equal = await self._ask(gold, given)
            if len(self._known) >= REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[gold, given] = equal
            return equal

    async def _ask(self, gold: str, given: str) -> bool:
        process = self._idle.pop() if self._idle else await self._start()
        try:
            async with asyncio.timeout(self._seconds):
                send(process, {"gold": gold, "given": given})
                answer, _ = await receive(process)
        except (TimeoutError, asyncio.IncompleteReadError):
            await self._end(process)
            return False
        except asyncio.CancelledError:
            kill(process)
            raise
        self._idle.append(process)
        return bool(answer["equal"])

    async def _start(self) -> Process:
        try:
            process = await start(_MODULE)
        except UpstreamFault as fault:
            raise SuiteError(f"the process that compares formulas can't start: {fault}") from fault
        self._running.add(process)
        try:
            async with asyncio.timeout(START_SECONDS):
                await receive(process)
        except (TimeoutError, asyncio.IncompleteReadError) as error:
            await self._end(process)
            raise SuiteError("the process that compares formulas does not start") from error
        return process

    async def _end(self, process: Process) -> None:
        self._running.discard(process)
        kill(process)
        await process.wait()

    async def _close(self) -> None:
        for process in tuple(self._running):
            await self._end(process)
