"""The road: what happens to a call, from its name and arguments to a result and a record.

`Gateway.call` never raises for anything a caller, a tool or an upstream did: every outcome is a
`Result`, and every call leaves exactly one record, also one that was cancelled. The cached road
does no I/O, takes no lock and makes no task.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from adapters.adapter import Adapter
from cache import DiskTier, Entry, Flight, Flights, MemoryTier
from cache.flight import Late
from gateway.bind import Binder, BoundCall, Refused, printable
from gateway.errors import CallError, ErrorCode
from gateway.execute import execute
from gateway.result import ProvenanceSource, Result
from gateway.settings import GatewaySettings
from gateway.trace import CallRecord, Trace, TraceError
from gateway.upstream import open_upstream
from manifests import Catalog, Source

log = logging.getLogger("finport")


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a caller asks for beside the answer.

    `deadline_s` shortens the time for the whole call, `max_rows` says how many rows to give back;
    `episode` and `step` say in the record on whose behalf the call was made. Raises `ValueError`
    for a deadline or a number of rows that is not positive.
    """

    deadline_s: float | None = None
    max_rows: int | None = None
    episode: str | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        if self.deadline_s is not None and not self.deadline_s > 0:
            raise ValueError(f"deadline_s must be above 0, not {self.deadline_s}")
        if self.max_rows is not None and self.max_rows < 1:
            raise ValueError(f"max_rows must be 1 or more, not {self.max_rows}")


DEFAULT_CONTEXT = CallContext()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a miss ended with: an entry or an error."""

    entry: Entry | None = None
    error: CallError | None = None
    source: ProvenanceSource = "live"
    attempts: int = 0


class Gateway:
    """One road for one event loop. Made by `Gateway.open`."""

    def __init__(
        self,
        settings: GatewaySettings,
        catalog: Catalog,
        adapters: Mapping[Source, Adapter],
        disk: DiskTier,
        flights: Flights[Outcome],
        trace: Trace | None,
    ) -> None:
        self.settings = settings
        self.catalog = catalog
        self.outcomes: Counter[str] = Counter()
        self._max_rows = settings.max_rows
        self._adapters = adapters
        self._memory = MemoryTier(settings.memory_bytes)
        self._disk = disk
        self._flights = flights
        self._trace = trace
        self._binder = Binder(catalog)
        self._call_prefix = f"{os.getpid():x}-{time.time_ns():x}-"
        self._call_numbers = count(1)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: GatewaySettings | None = None,
        *,
        catalog: Catalog | None = None,
        trace: Trace | None = None,
    ) -> AsyncIterator["Gateway"]:
        """A running gateway; leaving ends everything that it started.

        Raises `SettingsError`, `CatalogError`, and `OSError` where the cache can't be opened.
        """
        settings = settings or GatewaySettings.read()
        catalog = catalog or Catalog.load()
        async with AsyncExitStack() as parts:
            adapters = await parts.enter_async_context(open_upstream(settings, catalog))
            directory = settings.cache_dir / settings.cache_name
            disk = await parts.enter_async_context(DiskTier.open(directory, settings.disk_bytes))
            flights: Flights[Outcome] = Flights()
            parts.push_async_callback(flights.close)
            yield cls(settings, catalog, adapters, disk, flights, trace)

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | bytes,
        context: CallContext = DEFAULT_CONTEXT,
    ) -> Result:
        """Answer one call, as the module promises; `arguments` may be an object's JSON text."""
        started = time.perf_counter()
        result = self._result(tool)
        bound, given = None, None
        try:
            bound = self._binder.bind(tool, arguments)
            now = time.time()
            entry = self._memory.get(bound.key)
            if entry is not None and now - entry.stored_at < bound.plan.lifetime_s:
                result.source = "cached"
                self._answer(result, bound, entry, now, context)
            else:
                outcome = await self._miss(bound, context)
                result.source, result.attempts = outcome.source, outcome.attempts
                result.error = outcome.error
                if outcome.entry is not None:
                    self._answer(result, bound, outcome.entry, now, context)
        except Refused as refused:
            result.tool = printable(tool)
            result.error, given = refused.error, refused.arguments
        except asyncio.CancelledError:
            self._cancelled(result, bound, context, started)
            raise
        except Exception:
            log.exception("call %s failed inside the gateway", result.call_id)
            message = f"the gateway failed; its log has the details under {result.call_id}"
            result.error = CallError(ErrorCode.INTERNAL, message)
        result.elapsed_ms = int((time.perf_counter() - started) * 1e6) / 1e3
        if self._trace is not None:
            await self._record(self._trace, result, bound, given, context)
        self.outcomes[result.error.code.value if result.error else result.source] += 1
        return result

    async def refuse(self, tool: str, error: CallError) -> Result:
        """A result, and a record, for a call that failed at a door before it could be made."""
        result = self._result(printable(tool))
        result.error = error
        self.outcomes[error.code.value] += 1
        if self._trace is not None:
            await self._record(self._trace, result, None, None, DEFAULT_CONTEXT)
        return result

    async def recall(self, handle: str) -> Entry | None:
        """The whole kept answer behind a result's handle, or None when it is no longer kept."""
        return self._memory.get(handle) or await self._disk.get(handle)

    def _result(self, tool: str) -> Result:
        return Result(tool, f"{self._call_prefix}{next(self._call_numbers):x}")

    def _answer(
        self, result: Result, bound: BoundCall, entry: Entry, now: float, context: CallContext
    ) -> None:
        result.view = entry.view(context.max_rows or self._max_rows)
        result.rows, result.columns, result.upstream = entry.rows, entry.columns, entry.upstream
        result.handle = bound.key if result.view.truncated else None
        result.aliases = bound.aliases
        result.age_s = max(int((now - entry.stored_at) * 1e3), 0) / 1e3

    async def _miss(self, bound: BoundCall, context: CallContext) -> Outcome:
        limit = min(context.deadline_s or self.settings.deadline_s, self.settings.deadline_s)
        deadline = asyncio.get_running_loop().time() + limit
        try:
            return await self._flights.join(bound.key, deadline, partial(self._fly, bound))
        except Late as late:
            message = f"no answer within the call's {limit:g} s"
            return Outcome(error=CallError(ErrorCode.TIMEOUT, message), attempts=late.attempts)

    async def _fly(self, bound: BoundCall, flight: Flight[Outcome]) -> Outcome:
        """Disk, else upstream; what comes is kept."""
        plan = bound.plan
        entry = await self._disk.get(bound.key)
        if entry is not None and time.time() - entry.stored_at < plan.lifetime_s:
            self._memory.put(bound.key, entry)
            return Outcome(entry, source="cached")
        adapter = self._adapters[plan.manifest.source]
        started = time.perf_counter()
        answer = await execute(adapter, plan.manifest, bound.arguments, flight, self.settings)
        if isinstance(answer, CallError):
            return Outcome(error=answer, attempts=flight.attempts)
        entry = Entry(
            data=answer.data,
            columns=answer.columns,
            rows=answer.rows,
            stored_at=round(time.time(), 3),
            latency_ms=round((time.perf_counter() - started) * 1e3, 3),
            upstream=self.settings.upstream,
        )
        self._memory.put(bound.key, entry)
        self._disk.put(bound.key, entry, plan.lifetime_s)
        return Outcome(entry, source=self.settings.upstream, attempts=flight.attempts)

    async def _record(
        self,
        trace: Trace,
        result: Result,
        bound: BoundCall | None,
        given: Mapping[str, Any] | None,
        context: CallContext,
    ) -> None:
        """One record a call; `given` are the arguments of one that did not bind."""
        try:
            trace.put(_record_of(result, bound, given, context))
            if trace.full:
                await trace.room()
        except TraceError as fault:  # no answer goes out once recording has failed
            log.error("%s", fault)
            message = "the call could not be recorded; the gateway's log says why"
            result.view, result.error = None, CallError(ErrorCode.INTERNAL, message)

    def _cancelled(
        self, result: Result, bound: BoundCall | None, context: CallContext, started: float
    ) -> None:
        """Record a call whose caller has gone. Nothing is awaited on the way out."""
        result.elapsed_ms = int((time.perf_counter() - started) * 1e6) / 1e3
        result.error = CallError(ErrorCode.CANCELLED, "the caller went away")
        self.outcomes[result.error.code.value] += 1
        if self._trace is not None:
            with contextlib.suppress(TraceError):
                self._trace.put(_record_of(result, bound, None, context))


def _record_of(
    result: Result,
    bound: BoundCall | None,
    given: Mapping[str, Any] | None,
    context: CallContext,
) -> CallRecord:
    error = result.error
    return CallRecord(
        call_id=result.call_id,
        at=round(time.time() - result.elapsed_ms / 1e3, 3),
        tool=result.tool,
        host=bound.plan.host if bound else None,
        arguments=bound.arguments if bound else given or {},
        ok=error is None,
        code=error.code.value if error else None,
        fault=error.fault if error else None,
        message=error.message if error else None,
        source=None if error else result.source,
        upstream=result.upstream,
        age_s=result.age_s,
        attempts=result.attempts,
        elapsed_ms=result.elapsed_ms,
        rows=result.rows,
        bytes=len(result.data),
        episode=context.episode,
        step=context.step,
    )
