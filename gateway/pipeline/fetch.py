"""Fetches answers from upstream; identical concurrent calls share one execution.

An answer is cached, and recorded before the caller gets it. An error is not. Nor is the answer of a
tool that is executed for each caller alone (`Manifest.is_for_one`).
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import count

from anyio import to_thread

from adapters.adapter import Adapter
from cache import Clock, Entry, Flight, Flights, Kept, Recorder
from cache.flight import Late
from gateway.errors import CallError, ErrorCode
from gateway.pipeline.cached import KeptAnswers
from gateway.pipeline.execute import execute, execute_in_session
from gateway.pipeline.outcome import Outcome, Wanted
from gateway.pipeline.snapshot_rows import recorded_now, row_of_answer
from gateway.result import ProvenanceSource
from gateway.settings import GatewaySettings
from gateway.shapes.watch import ShapeWatch
from gateway.sharing.flights import SharedFlights
from gateway.upstreams.hosts import Hosts
from manifests import Source

log = logging.getLogger("finport")

PAUSE_S = 5.0
"""How long after a failed refresh stale answers are returned without asking upstream again."""

AT_ONCE = 2**20
"""Bytes of data that are hashed on the event loop (1 ms a MB); more are hashed in a thread."""

TIMER_S = 0.05
"""How early a timer may fire, and an adapter may say that its time is up."""

REFRESHES = 256
"""Background refreshes that may be under way at once; the others wait for a later caller."""


class Fetcher:
    """The executions of one event loop."""

    def __init__(
        self,
        settings: GatewaySettings,
        adapters: Mapping[Source, Adapter],
        hosts: Hosts,
        kept: KeptAnswers,
        recorder: Recorder | None,
        clock: Clock,
        shapes: ShapeWatch | None = None,
        shared: SharedFlights | None = None,
    ) -> None:
        self.shapes = shapes
        self._shared = shared if recorder is None else None
        self._settings = settings
        self._adapters = adapters
        self._hosts = hosts
        self._kept = kept
        self._recorder = recorder
        self._clock = clock
        self._flights: Flights[Outcome] = Flights()
        self._numbers = count(1)

    @property
    def under_way(self) -> int:
        """Executions that have not ended."""
        return len(self._flights)

    def workers(self) -> dict[str, int]:
        """The state of the AkShare worker processes; empty if there are none."""
        return next((w for adapter in self._adapters.values() if (w := adapter.workers())), {})

    @property
    def market(self) -> str | None:
        """A hash of the recorded market, if there is one."""
        digests = (adapter.digest for adapter in self._adapters.values())
        return next((digest for digest in digests if digest), None)

    def shut(self) -> None:
        """Start no more executions."""
        self._flights.shut()

    async def close(self) -> None:
        """End all executions and cancel their callers."""
        await self._flights.close()

    async def fetch_alone(self, call: Wanted) -> Outcome:
        """Fetch from upstream, for this caller alone."""
        return await self._flown(f"{call.bound.key} {next(self._numbers)}", call)

    async def fetch(self, call: Wanted) -> Outcome:
        """Fetch from upstream. Calls with `no_store` share executions only among themselves."""
        key = f"{call.bound.key} not kept" if call.asked.no_store else call.bound.key
        return await self._flown(key, call)

    async def fetch_or_give_stale(self, call: Wanted, kept: Kept) -> Outcome:
        """Fetch from upstream; return the cached answer in place of an error that may pass (RFC
        5861, section 4).
        """
        attempts = 0
        try:
            outcome = await self.fetch(call)
            attempts = outcome.attempts
            if outcome.error is None or not outcome.error.retryable:
                return outcome
        except Late as late:
            attempts = late.attempts
        kept.retry_at = self._clock.passed() + PAUSE_S
        return Outcome(kept, source="stale", attempts=attempts)

    def refresh(self, call: Wanted, kept: Kept, now: float) -> None:
        """Fetch a newer answer in the background."""
        if now < kept.retry_at or len(self._flights) >= REFRESHES:
            return

        async def refresh(flight: Flight[Outcome]) -> Outcome:
            try:
                outcome = await self._fly(call, flight)
            except Exception:
                log.exception("refreshing %s failed inside the gateway", call.bound.key)
                outcome = Outcome(error=CallError(ErrorCode.INTERNAL, "the refresh failed"))
            if outcome.error is not None:
                kept.retry_at = self._clock.passed() + PAUSE_S
            return outcome

        deadline = asyncio.get_running_loop().time() + self._settings.deadline_s
        self._flights.begin(call.bound.key, deadline, refresh)

    async def _flown(self, key: str, call: Wanted) -> Outcome:
        """Join a flight and return its outcome. A flight may report that its last caller's time is
        up before that caller does.
        """
        outcome = await self._flights.join(key, call.deadline, partial(self._fly, call))
        error, now = outcome.error, asyncio.get_running_loop().time()
        if call.hurry is None or error is None or error.code is not ErrorCode.TIMEOUT:
            return outcome
        return replace(outcome, error=call.hurry) if now >= call.deadline - TIMER_S else outcome

    async def _fly(self, call: Wanted, flight: Flight[Outcome]) -> Outcome:
        """Run one execution, in this gateway or in another that shares the answer."""
        if self._shared is None or call.asked.no_store or call.bound.plan.is_for_one:
            return await self._execute(call, flight)
        return await self._shared.fly(call, flight, self._execute, self._kept, self._clock)

    async def _execute(self, call: Wanted, flight: Flight[Outcome]) -> Outcome:
        """Run one execution, as the module docstring says."""
        bound, plan, settings = call.bound, call.bound.plan, self._settings
        adapter, started = self._adapters[plan.manifest.source], time.perf_counter()
        upstream: ProvenanceSource = settings.upstream
        if plan.manifest.has_session:
            upstream = "recorded"
            answer = await execute_in_session(adapter, bound, flight, settings, call.client)
        else:
            host = self._hosts.of(plan.manifest)
            answer = await execute(adapter, host, bound, flight, settings, call.client)
        if isinstance(answer, CallError):
            return Outcome(error=answer, source=upstream, attempts=flight.attempts)
        make = partial(
            Entry,
            data=answer.data,
            columns=answer.columns,
            rows=answer.rows,
            recorded_at=recorded_now(self._clock),
            latency_ms=round((time.perf_counter() - started) * 1e3, 3),
            upstream=upstream,
            tool=plan.manifest.name,
        )
        entry = make() if len(answer.data) <= AT_ONCE else await to_thread.run_sync(make)
        if call.asked.no_store or plan.is_for_one:
            now = self._clock.passed()
            kept = Kept(entry, now, fresh_until=now, stored=False)
        else:
            kept = self._kept.keep(bound, entry, for_its_handle=self._recorder is not None)
        if self.shapes is not None and not (call.asked.no_store or plan.is_for_one):
            self.shapes.look(bound, entry)
        if self._recorder is not None and not plan.is_for_one:
            await self._recorder.add(row_of_answer(bound, entry))
        return Outcome(kept, source=upstream, attempts=flight.attempts)
