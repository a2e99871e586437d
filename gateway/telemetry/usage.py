"""Usage: how many calls each client made of each tool, by UTC day, and what was sent for them.

Calls are counted in memory, and a thread adds the counts to a file every `WRITE_S`, so a killed
process forgets the calls of that time at most. What can't be written is kept and tried again.

No name comes from a caller: clients are those with a key, and tools those of the catalogue.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import anyio

from gateway.call import Gateway
from gateway.context import CallContext
from gateway.pipeline.bind import BoundCall
from gateway.result import Result
from gateway.telemetry.exposition import OTHER
from gateway.telemetry.usage_store import Place, UsageStore
from gateway.upstreams.hosts import host_of
from manifests import Manifest
from manifests.common.threads import run_in

log = logging.getLogger("finport")

WRITE_S = 1.0
LEAST_S = 0.01
"""How often what was counted is written, and how soon before midnight at the earliest."""

MOST_WAITING = 100_000
"""Clients and tools whose counts may wait to be written."""

DAY_S = 86_400

_CALLS, _CACHED, _FAILED, _REQUESTS, _BYTES = range(5)


class Usage:
    """Counts the calls of one gateway (`gateway.call.Observer`). Made by `Usage.open`."""

    def __init__(self, gateway: Gateway, name_of: Callable[[str], str | None]) -> None:
        self._wall = gateway.answers.clock.wall
        self._name_of = name_of
        self._counts: dict[Place, list[int]] = {}
        self._places: dict[tuple[str, str], list[int]] = {}
        self._day = 0
        self._unwritten: dict[int, dict[Place, list[int]]] = {}
        self._failure: str | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="usage")
        self._store: UsageStore
        self._closing = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, gateway: Gateway, name_of: Callable[[str], str | None] = lambda _: None
    ) -> AsyncIterator["Usage"]:
        """Count the gateway's calls while the context is open. `name_of` returns the name of a
        client by its id. Raises `OSError`.
        """
        usage = cls(gateway, name_of)
        try:
            path = gateway.settings.usage_path
            usage._store = await run_in(usage._thread, UsageStore, path)
            usage._begin()
            writer = asyncio.create_task(usage._write_often())
            gateway.answers.sent = usage.sent
            try:
                with gateway.observed(usage):
                    yield usage
            finally:
                gateway.answers.sent = None
                usage._closing.set()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([writer])
                    await run_in(usage._thread, usage._store.close)
        finally:
            usage._thread.shutdown(wait=False)

    def ended(self, result: Result, bound: BoundCall | None, context: CallContext) -> None:
        client = "" if context.grant is None else context.client  # without a key it may be any name
        tool = "" if bound is None else result.tool
        try:
            counts = self._places[client, tool]
        except KeyError:
            counts = self._first(client, None if bound is None else bound.plan.manifest)
        counts[_CALLS] += 1
        if result.error is not None:
            counts[_FAILED] += 1
        elif result.source == "cached" or result.source == "stale":
            counts[_CACHED] += 1
        if result.view is not None:
            counts[_BYTES] += len(result.view.data)

    def sent(self, manifest: Manifest, client: str, requests: int) -> None:
        """Count the requests of an execution, which calls of several clients may share: they are
        the first one's.
        """
        counts = self._places.get((client, manifest.name)) or self._first(client, manifest)
        counts[_REQUESTS] += requests

    def _first(self, client: str, manifest: Manifest | None) -> list[int]:
        """The counts of a client and a tool that none are waiting of."""
        name = (self._name_of(client) or OTHER) if client else ""
        tool, host = ("", "") if manifest is None else (manifest.name, _host_of(manifest))
        waiting = sum(map(len, self._unwritten.values())) if self._unwritten else 0
        if waiting + len(self._counts) >= MOST_WAITING:
            return self._counts.setdefault((OTHER, tool, host), [0] * 5)
        counts = self._counts.setdefault((name, tool, host), [0] * 5)
        self._places[client, tool] = counts
        return counts

    def _begin(self) -> None:
        """Count anew, for the day that it is now."""
        self._counts, self._places, self._day = {}, {}, int(self._wall() // DAY_S)

    async def _write_often(self) -> None:
        while not self._closing.is_set():
            left_s = DAY_S - self._wall() % DAY_S
            with anyio.move_on_after(min(WRITE_S, max(left_s, LEAST_S))):
                await self._closing.wait()
            await self._write()
        if self._unwritten:
            calls = sum(c[_CALLS] for of in self._unwritten.values() for c in of.values())
            log.error("the usage of %d calls is lost: %s", calls, self._failure)

    async def _write(self) -> None:
        counted, day = self._counts, self._day
        self._begin()
        if counted and (waiting := self._unwritten.setdefault(day, counted)) is not counted:
            for place, counts in counted.items():
                before = waiting.setdefault(place, counts)
                if before is not counts:
                    before[:] = map(sum, zip(before, counts, strict=True))
        if not self._unwritten:
            return
        try:
            await run_in(self._thread, self._store.add, self._unwritten, OTHER)
            self._unwritten, failure = {}, None
        except Exception as error:  # noqa: BLE001 - it must go on counting, whatever a file does
            failure = str(error)
        if failure != self._failure:
            self._failure = failure
            if failure is None:
                log.warning("usage can be written again")
            else:
                log.error("usage can't be written, and is counted in memory: %s", failure)


def _host_of(manifest: Manifest) -> str:
    """The host that is asked for a tool; empty if the gateway answers it itself."""
    return "" if manifest.is_local else host_of(manifest)
