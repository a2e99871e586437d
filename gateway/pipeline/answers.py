"""Finds the answer to a bound call in the cache, in a snapshot or upstream, by the gateway's mode.

`live` uses a cached answer that is good enough, else asks upstream. `record` asks upstream and
writes the answer to the snapshot before the caller gets it. `replay` uses the snapshot, else works
as `live`. `offline` uses the snapshot alone and has no adapter. What is done with a cached answer,
or without one, is decided by `cache.freshness.decide` alone; `Answers` looks up, and acts on it.

Identical concurrent calls share one execution. Errors are recorded, never cached. A tool that is
executed for each caller alone (`Manifest.is_for_one`) is never looked up, shared, cached or
recorded.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from anyio import to_thread

from cache import Clock, Entry, Flight, Flights, Kept, Recorder, SnapshotError, Use, decide
from cache.entry import INVENTED
from cache.flight import Late, Shut
from cache.freshness import ANYTHING
from gateway.context import CallContext
from gateway.errors import CallError, ErrorCode
from gateway.pipeline.bind import BoundCall
from gateway.pipeline.cached import CachedAnswers, Outcome, PendingCall
from gateway.pipeline.execute import PATIENCE_S, Execution, Sent, execute_locally
from gateway.pipeline.snapshot_rows import (
    never_recorded,
    not_in_snapshot,
    recorded_now,
    row_of,
    row_of_error,
)
from gateway.result import ProvenanceSource
from gateway.settings import GatewaySettings
from gateway.shapes.watch import ShapeWatch
from gateway.sharing.flights import SharedFlights
from gateway.sharing.store import SharedStore
from gateway.upstreams.hosts import Hosts
from gateway.upstreams.opening import Adapters
from manifests import Source

log = logging.getLogger("finport")

RECORDING_WAIT_S = 2.0
"""How long a call that is already late waits for its error to be recorded."""

PAUSE_S = 5.0
"""How long after a failed refresh stale answers are returned without asking upstream again."""

AT_ONCE = 2**20
"""Bytes of data that are hashed on the event loop (1 ms a MB); more are hashed in a thread."""

TIMER_S = 0.05
"""How early a timer may fire, and an adapter may say that its time is up."""

REFRESHES = 256
"""Background refreshes that may be under way at once; the others wait for a later caller."""


_MADE_BY: Mapping[Source, ProvenanceSource] = {
    "market": "recorded",
    "finport": "finport",
    "python": "live",
    "http": "live",
    "mcp": "live",
}
"""Where answers of a source are made, whatever upstream the settings name."""


class Answers:
    """Answers to bound calls, for one event loop. `store` is the Redis that it shares, if any, and
    `shapes` compares the shapes of live answers, if that is on. `sent` is told of the requests that
    were sent to hosts, if it is set.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        cached: CachedAnswers,
        adapters: Adapters,
        hosts: Hosts,
        clock: Clock,
        recorder: Recorder | None = None,
        shapes: ShapeWatch | None = None,
        shared: SharedFlights | None = None,
        store: SharedStore | None = None,
    ) -> None:
        self.clock = clock
        self.store = store
        self.memory = cached.memory
        self.shapes = shapes
        self.hosts = hosts
        self.pending = 0
        self.sent: Sent | None = None
        self._settings = settings
        self._cached = cached
        self._snapshot = cached.snapshot
        self._adapters = adapters
        self.recorder = recorder
        self._shared = shared if recorder is None else None
        self._flights: Flights[Outcome] = Flights()
        self._numbers = count(1)

    @property
    def snapshot_id(self) -> str | None:
        """The id of the replayed snapshot, or of the one that a closed recorder has written."""
        summary = self.recorder.summary if self.recorder else None
        summary = self._snapshot.summary if self._snapshot else summary
        return summary.id if summary else None

    @property
    def upstream(self) -> str:
        """The upstreams that answers come from: `live`, `simulated`, or `live and simulated`."""
        made = set() if self._settings.mode == "offline" else {str(self._settings.upstream)}
        if self._snapshot is not None:
            made.update(self._snapshot.summary.made_by)
        return " and ".join(sorted(made))

    @property
    def market(self) -> str | None:
        """A hash of the recorded market, if there is one."""
        digests = (adapter.digest for adapter in self._adapters.values())
        return next((digest for digest in digests if digest), None)

    @property
    def failed(self) -> bool:
        """Whether a recording has failed; from then on no call is answered."""
        return self.recorder is not None and self.recorder.failure is not None

    @property
    def under_way(self) -> int:
        """Executions that have not ended."""
        return len(self._flights)

    def state(self) -> dict[str, Any]:
        """The state of the cache tiers, and of the recording if there is one."""
        state = self._cached.state()
        if self.recorder is not None:
            state["recording"] = {"calls": self.recorder.calls, "failed": self.failed}
        return state

    def workers(self) -> dict[str, int]:
        """The state of the AkShare worker processes; empty if there are none."""
        return next((w for adapter in self._adapters.values() if (w := adapter.workers())), {})

    async def close(self) -> None:
        """End all work and cancel its callers."""
        self._flights.shut()
        self._cached.shut()
        await self._flights.close()
        await self._cached.close()
        await self.hosts.close()

    async def recall(self, tool: str, key: str, version: str) -> Entry | None:
        """The entry of that tool, key and version, wherever it is cached."""
        return await self._cached.recall(tool, key, version, self._settings.deadline_s)

    async def obtain(self, bound: BoundCall, context: CallContext) -> Outcome:
        """Answer a call that memory alone could not answer at once."""
        if self.recorder is not None and self.failed:  # asking upstream would be in vain
            return Outcome(error=_unusable())
        if self.pending >= self._settings.max_pending_calls:
            text = f"{self.pending} calls are already on their way to an answer"
            return Outcome(error=CallError(ErrorCode.OVERLOADED, text, retry_after_s=1.0))
        limit_s = self._settings.deadline_s
        if context.deadline_s is not None and context.deadline_s < limit_s:
            limit_s = context.deadline_s
        deadline = asyncio.get_running_loop().time() + limit_s
        call = PendingCall(bound, context.cache or ANYTHING, context.client, limit_s, deadline)
        self.pending += 1
        try:
            try:
                outcome = await self._answer(call)
            except Late as late:
                outcome = self._late(call, late)
            return outcome if outcome.error is None else await self._failed(call, outcome)
        except SnapshotError as error:  # no unrecorded or damaged answer goes out
            log.error("%s", error)
            return Outcome(error=_unusable())
        except Shut:
            text = "the gateway is closing and starts nothing more"
            return Outcome(error=CallError(ErrorCode.OVERLOADED, text))
        finally:
            self.pending -= 1

    async def _answer(self, call: PendingCall) -> Outcome:
        """Look the call up, and act on what is decided. Raises `Late`, `Shut`, `SnapshotError`."""
        plan, mode, kept = call.bound.plan, self._settings.mode, None
        if plan.is_for_one:
            if mode == "offline" and plan.transactional:
                return Outcome(error=never_recorded(call.bound, self.snapshot_id))
        elif self.recorder is None:
            if self._snapshot is not None:
                replayed = await self._cached.replay(call.bound, call.deadline, self._snapshot)
                if replayed is not None:
                    return replayed
                if mode == "offline":
                    return Outcome(error=await not_in_snapshot(call.bound, self._snapshot))
            kept = await self._cached.find(call.bound, call.deadline)
        if kept is None:
            use = decide(None, plan.freshness, 0.0, call.asked)
        else:
            now = self.clock.passed()
            time_now, rests = kept.time(now), now < kept.retry_at
            use = decide(kept.entry.recorded_at, plan.freshness, time_now, call.asked, rests=rests)
        match use:
            case Use.FETCH:
                return await self._fetch(call)
            case Use.REFUSE:
                text = "the caller asked for a kept answer, and none is good enough"
                return Outcome(error=CallError(ErrorCode.NOT_CACHED, text))
            case Use.IF_ERROR if kept is not None:
                return await self._fetch_or_use(call, kept)
            case Use.REVALIDATE if kept is not None:
                self._refresh(call, kept)
        return Outcome(kept, source="cached" if use is Use.FRESH else "stale")

    async def _fetch(self, call: PendingCall) -> Outcome:
        """Fetch from upstream, or join an execution of the same call. Calls with `no_store` share
        executions only among themselves. Raises `Late`.
        """
        key = call.bound.key
        if call.bound.plan.is_for_one:
            key = f"{key} {next(self._numbers)}"
        elif call.asked.no_store:
            key = f"{key} not kept"
        return await self._flights.join(key, call.deadline, self._work(call))

    def _work(self, call: PendingCall) -> Callable[[Flight[Outcome]], Coroutine[Any, Any, Outcome]]:
        """One execution, in this gateway or in another that shares the answer."""
        if self._shared is None or call.asked.no_store or call.bound.plan.is_for_one:
            return partial(self._execute, call)
        return partial(self._shared.fly, call, self._execute, self._cached, self.clock)

    async def _fetch_or_use(self, call: PendingCall, kept: Kept) -> Outcome:
        """Fetch from upstream; return the cached answer in place of an error that may pass (RFC
        5861, section 4).
        """
        try:
            outcome = await self._fetch(call)
            if outcome.error is None or not outcome.error.retryable:
                return outcome
            attempts = outcome.attempts
        except Late as late:
            attempts = late.attempts
        kept.retry_at = self.clock.passed() + PAUSE_S
        return Outcome(kept, source="stale", attempts=attempts)

    def _refresh(self, call: PendingCall, kept: Kept) -> None:
        """Fetch a newer answer in the background. No upstream is opened for that alone."""
        if len(self._flights) >= REFRESHES or not self._adapters:
            return

        async def refresh(flight: Flight[Outcome]) -> Outcome:
            try:
                outcome = await self._work(call)(flight)
            except Exception:
                log.exception("refreshing %s failed inside the gateway", call.bound.key)
                outcome = Outcome(error=CallError(ErrorCode.INTERNAL, "the refresh failed"))
            if outcome.error is not None:
                kept.retry_at = self.clock.passed() + PAUSE_S
            return outcome

        deadline = asyncio.get_running_loop().time() + self._settings.deadline_s
        self._flights.begin(call.bound.key, deadline, refresh)

    async def _execute(self, call: PendingCall, flight: Flight[Outcome]) -> Outcome:
        """Ask upstream. An answer is cached, and recorded before the caller gets it."""
        bound, plan, settings = call.bound, call.bound.plan, self._settings
        source = plan.manifest.source
        if source not in self._adapters:
            await self._adapters.opened()
        adapter, started = self._adapters[source], time.perf_counter()
        upstream: ProvenanceSource = settings.upstream
        if source in _MADE_BY:
            upstream = _MADE_BY[source]
        if plan.manifest.is_local:
            answer = await execute_locally(adapter, bound, flight, settings, call.client)
        else:
            host = self.hosts.of(plan.manifest)
            execution = Execution(adapter, host, bound, flight, settings, call.client, self.sent)
            answer = await execution.run()
        if isinstance(answer, CallError):
            return Outcome(error=answer, source=upstream, attempts=flight.attempts)
        make = partial(
            Entry,
            data=answer.data,
            columns=answer.columns,
            rows=answer.rows,
            recorded_at=recorded_now(self.clock),
            latency_ms=round((time.perf_counter() - started) * 1e3, 3),
            upstream=INVENTED if answer.invented else upstream,
            tool=plan.manifest.name,
            lied=answer.lied,
        )
        entry = make() if len(answer.data) <= AT_ONCE else await to_thread.run_sync(make)
        if call.asked.no_store or plan.is_for_one:
            now = self.clock.passed()
            kept = Kept(entry, now, fresh_until=now, stored=False)
        else:
            kept = self._cached.keep(bound, entry, for_its_handle=self.recorder is not None)
            if self.shapes is not None:
                self.shapes.look(bound, entry)
        if self.recorder is not None and not plan.is_for_one:
            await self.recorder.add(row_of(bound, entry))
        return Outcome(kept, source=upstream, attempts=flight.attempts)

    def _late(self, call: PendingCall, late: Late) -> Outcome:
        """The outcome of a call whose time has passed."""
        error = CallError(ErrorCode.TIMEOUT, f"no answer within the call's {call.limit_s:g} s")
        if late.in_queue and not late.attempts:
            error = self.hosts.of(call.bound.plan.manifest).not_admitted(call.limit_s)
        source = _MADE_BY.get(call.bound.plan.manifest.source, self._settings.upstream)
        return Outcome(error=error, source=source, attempts=late.attempts)

    async def _failed(self, call: PendingCall, outcome: Outcome) -> Outcome:
        """What the caller gets of a call that failed; recorded if the gateway records. Raises
        `SnapshotError`.
        """
        error, plan = outcome.error, call.bound.plan
        assert error is not None  # noqa: S101 - the caller's condition
        now = asyncio.get_running_loop().time()
        if error.code is ErrorCode.TIMEOUT and now >= call.deadline - TIMER_S:
            # A flight may report that its last caller's time is up before that caller does.
            error = self._too_short(call.limit_s) or error
        if plan.transactional and outcome.attempts:
            # It may have been executed all the same, so the error never suggests a retry.
            error = replace(error, again=False)
        if (
            self.recorder is not None
            and not plan.is_for_one
            and outcome.attempts
            and error.fault != "gateway"
        ):
            await self._record_error(call, error, self.recorder)
        return outcome if error is outcome.error else replace(outcome, error=error)

    async def record(self, bound: BoundCall, error: CallError) -> CallError | None:
        """Record an error with which nothing was sent upstream, because another tool answered in
        its place. Returns the error with which the call ends if that fails.
        """
        if self.recorder is None:
            return None
        now = asyncio.get_running_loop().time()
        call = PendingCall(bound, ANYTHING, "", 0.0, now)
        try:
            await self._record_error(call, error, self.recorder)
        except SnapshotError as fault:
            log.error("%s", fault)
            return _unusable()
        return None

    def _too_short(self, limit_s: float) -> CallError | None:
        """The error for a caller whose own limit was too short for any upstream, if it was."""
        settings = self._settings
        enough_s = min(PATIENCE_S, settings.attempt_timeout_s, settings.deadline_s)
        if limit_s >= enough_s:
            return None
        text = (
            f"the caller's own limit of {limit_s:g} s was too short for an answer; allow "
            f"{enough_s:g} s or more, or leave it out: then it is {settings.deadline_s:g} s"
        )
        return CallError(ErrorCode.TIMEOUT, text, by="agent")

    async def _record_error(self, call: PendingCall, error: CallError, recorder: Recorder) -> None:
        """Record an error on disk before the caller gets it."""
        began = call.deadline - call.limit_s
        took_ms = (asyncio.get_running_loop().time() - began) * 1e3
        made_by = _MADE_BY.get(call.bound.plan.manifest.source, self._settings.upstream)
        row = row_of_error(call.bound, error, made_by, took_ms, self.clock)
        try:
            async with asyncio.timeout(RECORDING_WAIT_S):
                await recorder.add(row)
        except TimeoutError:
            text = f"an error could not be recorded within {RECORDING_WAIT_S:g} s"
            raise SnapshotError(text) from None


def _unusable() -> CallError:
    text = "the snapshot could not be read or written; the gateway's log says why"
    return CallError(ErrorCode.INTERNAL, text)
