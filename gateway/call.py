"""The road: what happens to a call, from its name and arguments to a result and a record.

`Gateway.call` never raises for anything a caller, a tool or an upstream did: every outcome is a
`Result`, and every call leaves exactly one record. The cached road does no I/O, takes no lock and
makes no task.
"""

import asyncio
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
from cache import DiskTier, Entry, Flight, Flights, MemoryTier, call_key, key_prefix, lifetime_s
from cache.flight import Late
from gateway.errors import CallError, ErrorCode
from gateway.execute import execute
from gateway.result import ProvenanceSource, Result
from gateway.settings import GatewaySettings
from gateway.trace import CallRecord, Trace, TraceError, redacted
from gateway.upstream import open_upstream
from manifests import ArgumentError, Catalog, Manifest, Scalar, Signature, Source

log = logging.getLogger("finport")


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a caller asks for beside the answer.

    `deadline_s` shortens the time for the whole call, `max_rows` the rows given back; `episode` and
    `step` say in the record on whose behalf the call was made.
    """

    deadline_s: float | None = None
    max_rows: int | None = None
    episode: str | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A tool made ready for calls, on first use."""

    manifest: Manifest
    signature: Signature
    key_prefix: bytes
    lifetime_s: float


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
        self._adapters = adapters
        self._memory = MemoryTier(settings.memory_bytes)
        self._disk = disk
        self._flights = flights
        self._trace = trace
        self._plans: dict[str, Plan] = {}
        self._call_ids = (f"{os.getpid():x}-{time.time_ns():x}-{n:x}" for n in count(1))

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
        arguments: Mapping[str, Any],
        context: CallContext = CallContext(),
    ) -> Result:
        """Answer one call; see the module's promise."""
        started = time.perf_counter()
        result = Result(tool, next(self._call_ids))
        plan: Plan | None = None
        try:
            found = self._plans.get(tool) or self._resolve(tool)
            if isinstance(found, CallError):
                result.error = found
            else:
                plan = found
                arguments = plan.signature.bind(arguments)
                await self._answer(result, plan, arguments, context)
        except ArgumentError as error:
            result.error = _unbound(plan, error)
        except Exception:
            log.exception("call %s failed inside the gateway", result.call_id)
            message = f"the gateway failed; its log has the details under {result.call_id}"
            result.error = CallError(ErrorCode.INTERNAL, message)
        result.elapsed_ms = round((time.perf_counter() - started) * 1e3, 3)
        await self._record(result, plan, arguments, context)
        return result

    async def refuse(self, tool: str, error: CallError) -> Result:
        """A result, and a record, for a call that failed at a door before it could be made."""
        result = Result(tool, next(self._call_ids), error=error)
        await self._record(result, None, {}, CallContext())
        return result

    async def recall(self, handle: str) -> Entry | None:
        """The whole kept answer behind a result's handle, or None when it is no longer kept."""
        return self._memory.get(handle) or await self._disk.get(handle)

    def _resolve(self, tool: str) -> Plan | CallError:
        manifest = self.catalog.get(tool)
        if manifest is None:
            nearest = self.catalog.nearest(tool[:64])
            hint = f"; did you mean {', '.join(nearest)}?" if nearest else ""
            return CallError(
                ErrorCode.UNKNOWN_TOOL,
                f"no tool is named {tool[:64]!r}{hint}",
                details={"nearest": nearest},
            )
        if manifest.unavailable is not None:
            return CallError(
                ErrorCode.UNAVAILABLE, f"{tool} is unavailable: {manifest.unavailable}"
            )
        prefix = key_prefix(tool, manifest.revision)
        plan = Plan(manifest, Signature(manifest), prefix, lifetime_s(manifest.timeliness))
        self._plans[tool] = plan
        return plan

    async def _answer(
        self, result: Result, plan: Plan, arguments: Mapping[str, Scalar], context: CallContext
    ) -> None:
        key = call_key(plan.key_prefix, arguments)
        now = time.time()
        entry = self._memory.get(key)
        if entry is not None and now - entry.stored_at < plan.lifetime_s:
            result.source = "cached"
        else:
            outcome = await self._miss(plan, key, arguments, context)
            entry, result.error = outcome.entry, outcome.error
            result.source, result.attempts = outcome.source, outcome.attempts
            if entry is None:
                return
        result.entry = entry
        result.age_s = round(max(now - entry.stored_at, 0.0), 3)
        result.data, result.truncated = entry.head(context.max_rows or self.settings.max_rows)
        result.handle = key if result.truncated else None

    async def _miss(
        self, plan: Plan, key: str, arguments: Mapping[str, Scalar], context: CallContext
    ) -> Outcome:
        limit = min(context.deadline_s or self.settings.deadline_s, self.settings.deadline_s)
        deadline = asyncio.get_running_loop().time() + limit
        try:
            return await self._flights.join(key, deadline, partial(self._fly, plan, key, arguments))
        except Late as late:
            message = f"no answer within the call's {limit:g} s"
            return Outcome(error=CallError(ErrorCode.TIMEOUT, message), attempts=late.attempts)

    async def _fly(
        self, plan: Plan, key: str, arguments: Mapping[str, Scalar], flight: Flight[Outcome]
    ) -> Outcome:
        """Disk, else upstream; what comes is kept."""
        entry = await self._disk.get(key)
        if entry is not None and time.time() - entry.stored_at < plan.lifetime_s:
            self._memory.put(key, entry)
            return Outcome(entry, source="cached")
        adapter = self._adapters[plan.manifest.source]
        started = time.perf_counter()
        answer = await execute(adapter, plan.manifest, arguments, flight, self.settings)
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
        self._memory.put(key, entry)
        self._disk.put(key, entry, plan.lifetime_s)
        return Outcome(entry, source=self.settings.upstream, attempts=flight.attempts)

    async def _record(
        self, result: Result, plan: Plan | None, arguments: Mapping[str, Any], context: CallContext
    ) -> None:
        error = result.error
        self.outcomes[error.code.value if error else result.source] += 1
        if self._trace is None:
            return
        record = CallRecord(
            call_id=result.call_id,
            at=round(time.time() - result.elapsed_ms / 1e3, 3),
            tool=result.tool,
            host=plan.manifest.upstream if plan else None,
            arguments=redacted(arguments),
            ok=error is None,
            code=error.code.value if error else None,
            fault=error.fault if error else None,
            message=error.message if error else None,
            source=None if error else result.source,
            upstream=result.entry.upstream if result.entry else None,
            age_s=result.age_s,
            attempts=result.attempts,
            elapsed_ms=result.elapsed_ms,
            rows=result.entry.rows if result.entry else None,
            bytes=len(result.data),
            episode=context.episode,
            step=context.step,
        )
        try:
            self._trace.put(record)
            if self._trace.full:
                await self._trace.room()
        except TraceError as fault:  # no answer goes out unrecorded
            result.entry, result.error = None, CallError(ErrorCode.INTERNAL, str(fault))


def _unbound(plan: Plan | None, error: ArgumentError) -> CallError:
    details = {
        "problems": [
            {"argument": p.argument, "problem": p.problem, "expected": p.expected}
            for p in error.problems
        ],
        "allowed": plan.signature.allowed() if plan else {},
    }
    return CallError(ErrorCode.INVALID_ARGUMENTS, str(error), details=details)
