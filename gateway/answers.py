"""Where an answer comes from: what is kept, a snapshot, or upstream, as the gateway's mode says.

`live`: what is kept and good enough (`cache/freshness.py`), else upstream. `record`: upstream, and
into the snapshot before the caller has it. `replay`: the snapshot, else as `live`. `offline`: the
snapshot alone; there is no adapter that could reach anything. Errors are recorded, never kept.
A transactional tool is executed for each call: its answer is the caller's alone, and is neither
looked for, shared, kept nor recorded.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import orjson
from anyio import to_thread

from adapters.adapter import Adapter
from adapters.akshare import Pool
from cache import (
    CacheControl,
    Clock,
    DiskTier,
    Entry,
    Flight,
    Flights,
    Kept,
    MemoryTier,
    Recorder,
    Snapshot,
    SnapshotError,
    Tier,
    Use,
    decide,
)
from cache.flight import Late, Shut
from cache.freshness import ANYTHING, CLOCK_SKEW_S
from cache.row import OK
from gateway.bind import BoundCall
from gateway.context import CallContext
from gateway.errors import CallError, ErrorCode
from gateway.execute import PATIENCE_S, execute
from gateway.recorded import (
    never_recorded,
    not_in_snapshot,
    recorded_now,
    row_of_answer,
    row_of_error,
)
from gateway.result import ProvenanceSource
from gateway.settings import GatewaySettings
from gateway.upstreams.hosts import Hosts, plans_of
from gateway.upstreams.opening import open_upstream
from manifests import Catalog, Source

log = logging.getLogger("finport")

PAUSE_S = 5.0
"""After a refresh has failed, stale answers are given for so long without asking upstream again."""

TIER_WAIT_S = 1.0
"""How long a look-up waits for a tier before it goes on without it."""

RECORDING_WAIT_S = 2.0
"""How long a call that is late already waits until its error is recorded."""

AT_ONCE = 2**20
"""Bytes of data that are hashed on the event loop (1 ms a MB); more go to a thread."""

TIMER_S = 0.05
"""By so much a timer may be early, and an adapter that is out of time may say so."""

REFRESHES = 256
"""Refreshes behind callers that may be under way at once; the others wait for a later caller."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One call on its way to an answer: `asked` of kept ones, by loop time `deadline`.

    `hurry` is what a caller is told when a limit of its own has passed that no upstream can be
    expected to keep.
    """

    bound: BoundCall
    asked: CacheControl
    client: str
    deadline: float
    hurry: CallError | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the search for an answer ended with: an entry or an error, and where from."""

    kept: Kept | None = None
    error: CallError | None = None
    source: ProvenanceSource | None = None
    attempts: int = 0
    snapshot: str | None = None


class Answers:
    """Answers to bound calls, for one event loop."""

    def __init__(
        self,
        settings: GatewaySettings,
        adapters: Mapping[Source, Adapter],
        hosts: Hosts,
        tiers: Sequence[Tier],
        snapshot: Snapshot | None,
        recorder: Recorder | None,
        clock: Clock,
    ) -> None:
        self.clock = clock
        self.memory = MemoryTier(settings.memory_bytes)
        self.snapshot = snapshot
        self.recorder = recorder
        self.hosts = hosts
        self.pending = 0
        self._settings = settings
        self._adapters = adapters
        self._tiers = tiers
        self._flights: Flights[Outcome] = Flights()
        self._replays: Flights[Outcome | None] = Flights()
        self._executions = count(1)

    @property
    def snapshot_id(self) -> str | None:
        """The id of the snapshot that is replayed, or that a closed recorder has made."""
        summary = self.recorder.summary if self.recorder else None
        summary = self.snapshot.summary if self.snapshot else summary
        return summary.id if summary else None

    @property
    def upstream(self) -> str:
        """Where answers are made, or were: `live`, `simulated`, or `live and simulated`."""
        made = set() if self._settings.mode == "offline" else {str(self._settings.upstream)}
        if self.snapshot is not None:
            made |= self.snapshot.summary.upstreams.keys()
        return " and ".join(sorted(made))

    @property
    def failed(self) -> bool:
        """Whether a recording has failed: then nothing is answered any more."""
        return self.recorder is not None and self.recorder.failure is not None

    def state(self) -> dict[str, Any]:
        """How the tiers, and the recording if any, are doing."""
        memory = {"entries": len(self.memory), "bytes": self.memory.bytes}
        state = {"memory": memory, **{tier.name: tier.state() for tier in self._tiers}}
        if self.recorder is not None:
            state["recording"] = {"calls": self.recorder.calls, "failed": self.failed}
        return state

    def workers(self) -> dict[str, int]:
        """How the processes that run AkShare are doing; empty where there are none."""
        pool = self._adapters.get("akshare")
        return pool.state() if isinstance(pool, Pool) else {}

    @property
    def under_way(self) -> int:
        """Executions that have not ended."""
        return len(self._flights)

    async def close(self) -> None:
        """End all work; its callers are cancelled."""
        every = (self._flights, self._replays)
        for flights in every:
            flights.shut()
        for flights in every:
            await flights.close()

    async def obtain(self, bound: BoundCall, context: CallContext) -> Outcome:
        """The answer to a call that memory alone could not give at once."""
        if self.failed:  # it would be asked for in vain
            return Outcome(error=_unusable())
        if self.pending >= self._settings.max_pending_calls:
            text = f"{self.pending} calls are already on their way to an answer"
            return Outcome(error=CallError(ErrorCode.OVERLOADED, text, retry_after_s=1.0))
        self.pending += 1
        try:
            outcome = await self._in_time(bound, context)
            if bound.plan.transactional and outcome.attempts and outcome.error is not None:
                # It may have been executed all the same, so nobody is told to try again.
                return replace(outcome, error=replace(outcome.error, again=False))
            return outcome
        except SnapshotError as error:  # no answer goes out unrecorded, and no damaged one
            log.error("%s", error)
            return Outcome(error=_unusable())
        except Shut:
            text = "the gateway is closing and starts nothing more"
            return Outcome(error=CallError(ErrorCode.OVERLOADED, text))
        finally:
            self.pending -= 1

    async def _in_time(self, bound: BoundCall, context: CallContext) -> Outcome:
        most_s = self._settings.deadline_s
        limit_s = min(context.deadline_s or most_s, most_s)
        deadline = asyncio.get_running_loop().time() + limit_s
        hurry = self._hurry(limit_s)
        call = Wanted(bound, context.cache or ANYTHING, context.client, deadline, hurry)
        started = time.perf_counter()
        try:
            if bound.plan.transactional:
                return await self._executed(call)
            if self.recorder is not None:
                if call.asked.only_if_cached:
                    return Outcome(error=_not_cached())
                outcome = await self._fetched(call)
                error = outcome.error
                if error is not None and error.fault != "gateway" and outcome.attempts:
                    await self._record_error(bound, error, started, self.recorder)
                return outcome
            if self.snapshot is not None:
                replayed = await self._replayed(call, self.snapshot)
                if replayed is not None:
                    return replayed
                if self._settings.mode == "offline":
                    return Outcome(error=await not_in_snapshot(bound, self.snapshot))
            return await self._live(call)
        except Late as late:
            text = f"no answer within the call's {limit_s:g} s"
            error = hurry or CallError(ErrorCode.TIMEOUT, text)
            if late.in_line and not late.attempts:
                error = self.hosts.of(bound.plan.manifest).no_turn(limit_s)
            if self.recorder is not None and late.attempts and not bound.plan.transactional:
                await self._record_error(bound, error, started, self.recorder)
            return Outcome(error=error, source=self._settings.upstream, attempts=late.attempts)

    def _hurry(self, limit_s: float) -> CallError | None:
        settings = self._settings
        enough_s = min(PATIENCE_S, settings.attempt_timeout_s, settings.deadline_s)
        if limit_s >= enough_s:
            return None
        text = (
            f"the caller's own limit of {limit_s:g} s was too short for an answer; allow "
            f"{enough_s:g} s or more, or leave it out: then it is {settings.deadline_s:g} s"
        )
        return CallError(ErrorCode.TIMEOUT, text, by="agent")

    async def recall(self, tool: str, key: str, version: str) -> Entry | None:
        """The entry of that tool, key and version, wherever it is kept."""

        def is_meant(entry: Entry) -> bool:
            return (entry.tool, entry.version) == (tool, version)

        kept = self.memory.get(key)
        if kept is not None and is_meant(kept.entry):
            return kept.entry
        try:
            async with asyncio.timeout(self._settings.deadline_s):
                for tier in self._tiers:
                    entry = await tier.get(key)
                    if entry is not None and is_meant(entry):
                        return entry
                row = await to_thread.run_sync(self.snapshot.get, key) if self.snapshot else None
        except (TimeoutError, SnapshotError) as error:
            log.error("a handle could not be followed: %s", error)
            return None
        is_answer = row is not None and row.status == OK and is_meant(row.entry)
        return row.entry if row is not None and is_answer else None

    async def _executed(self, call: Wanted) -> Outcome:
        """From upstream, for this caller alone."""
        if self._settings.mode == "offline":
            return Outcome(error=never_recorded(call.bound, self.snapshot_id))
        if call.asked.only_if_cached:
            return Outcome(error=_not_cached())
        key = f"{call.bound.key} {next(self._executions)}"
        return await self._flown(key, call)

    async def _live(self, call: Wanted) -> Outcome:
        bound, asked = call.bound, call.asked
        kept = await self._find(bound, call.deadline)
        now = self.clock.passed()
        use = Use.NO
        if kept is not None:
            recorded_at = kept.entry.recorded_at
            use = decide(recorded_at, bound.plan.freshness, kept.time(now), asked)
        if use is Use.FRESH:
            return Outcome(kept, source="cached")
        if use is Use.REVALIDATE and kept is not None and not asked.no_store:
            self._refresh(call, kept, now)
        if use in (Use.REVALIDATE, Use.STALE):
            return Outcome(kept, source="stale")
        if asked.only_if_cached:
            return Outcome(error=_not_cached())
        if use is not Use.IF_ERROR or kept is None:
            return await self._fetched(call)
        if now < kept.retry_at and not asked.demands:
            return Outcome(kept, source="stale")
        return await self._fetched_or_stale(call, kept)

    async def _find(self, bound: BoundCall, deadline: float) -> Kept | None:
        """What is kept: from memory where that is fresh, else the newest of all tiers, which then
        stands in memory. Raises `Late`.
        """
        kept, loop = self.memory.get(bound.key), asyncio.get_running_loop()
        if kept is not None and self.clock.passed() < kept.fresh_until:
            return kept
        for tier in self._tiers:
            entry = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(loop.time() + TIER_WAIT_S, deadline)):
                    entry = await tier.get(bound.key)
            kept = self.memory.get(bound.key) or kept  # it may have come while this caller waited
            if entry is None:
                continue
            is_newer = kept is None or kept.entry.recorded_at < entry.recorded_at
            age_s = self.clock.age_s(entry.recorded_at)
            if is_newer and age_s >= -CLOCK_SKEW_S:  # else how old it is nobody knows
                return self._remember(bound, entry, age_s)
        if loop.time() >= deadline:
            raise Late(0, in_line=False)
        return kept

    def _refresh(self, call: Wanted, kept: Kept, now: float) -> None:
        """Fetch a newer answer behind the caller."""
        if now < kept.retry_at or len(self._flights) >= REFRESHES:
            return

        async def refresh(flight: Flight[Outcome]) -> Outcome:
            try:
                outcome = await self._fly(call, flight)
            except Exception:
                log.exception("refreshing %s failed inside the gateway", call.bound.key)
                outcome = Outcome(error=CallError(ErrorCode.INTERNAL, "the refresh failed"))
            if outcome.error is not None:
                kept.retry_at = self.clock.passed() + PAUSE_S
            return outcome

        deadline = asyncio.get_running_loop().time() + self._settings.deadline_s
        self._flights.begin(call.bound.key, deadline, refresh)

    async def _fetched(self, call: Wanted) -> Outcome:
        """From upstream; callers who want nothing kept fly apart from the others."""
        key = f"{call.bound.key} not kept" if call.asked.no_store else call.bound.key
        return await self._flown(key, call)

    async def _flown(self, key: str, call: Wanted) -> Outcome:
        """What the flight ends with. One that runs out of its last caller's time may say so before
        that caller does.
        """
        outcome = await self._flights.join(key, call.deadline, partial(self._fly, call))
        error, now = outcome.error, asyncio.get_running_loop().time()
        if call.hurry is None or error is None or error.code is not ErrorCode.TIMEOUT:
            return outcome
        return replace(outcome, error=call.hurry) if now >= call.deadline - TIMER_S else outcome

    async def _fetched_or_stale(self, call: Wanted, kept: Kept) -> Outcome:
        """From upstream; what is kept in place of an error that may pass (RFC 5861, section 4)."""
        attempts = 0
        try:
            outcome = await self._fetched(call)
            attempts = outcome.attempts
            if outcome.error is None or not outcome.error.retryable:
                return outcome
        except Late as late:
            attempts = late.attempts
        kept.retry_at = self.clock.passed() + PAUSE_S
        return Outcome(kept, source="stale", attempts=attempts)

    async def _fly(self, call: Wanted, flight: Flight[Outcome]) -> Outcome:
        """From upstream; an answer is kept, and recorded before it goes out, an error neither.

        One of a transactional tool is neither kept nor recorded.
        """
        bound, upstream = call.bound, self._settings.upstream
        plan = bound.plan
        adapter, host = self._adapters[plan.manifest.source], self.hosts.of(plan.manifest)
        started = time.perf_counter()
        answer = await execute(adapter, host, bound, flight, self._settings, call.client)
        if isinstance(answer, CallError):
            return Outcome(error=answer, source=upstream, attempts=flight.attempts)
        make = partial(
            Entry,
            data=answer.data,
            columns=answer.columns,
            rows=answer.rows,
            recorded_at=recorded_now(self.clock),
            latency_ms=round((time.perf_counter() - started) * 1e3, 3),
            upstream=upstream,
            tool=plan.manifest.name,
        )
        entry = make() if len(answer.data) <= AT_ONCE else await to_thread.run_sync(make)
        if call.asked.no_store or plan.transactional:
            now = self.clock.passed()
            kept = Kept(entry, now, fresh_until=now, stored=False)
        else:
            kept = self._remember(bound, entry, 0.0)
            for tier in self._tiers:
                tier.put(bound.key, entry, plan.freshness.keep_s)
        if self.recorder is not None and not plan.transactional:
            await self.recorder.add(row_of_answer(bound, entry))
        return Outcome(kept, source=upstream, attempts=flight.attempts)

    def _remember(self, bound: BoundCall, entry: Entry, age_s: float) -> Kept:
        """Keep in memory; what a recording gateway asks for anew is kept for its handle only."""
        fresh_s = bound.plan.freshness.fresh_until(entry.recorded_at) - entry.recorded_at
        since = self.clock.passed() - max(age_s, 0.0)
        kept = Kept(entry, since, since + (fresh_s if self.recorder is None else 0.0))
        self.memory.put(bound.key, kept)
        return kept

    async def _record_error(
        self, bound: BoundCall, error: CallError, started: float, recorder: Recorder
    ) -> None:
        """What a caller is told is on disk by then."""
        took_ms = (time.perf_counter() - started) * 1e3
        try:
            async with asyncio.timeout(RECORDING_WAIT_S):
                await recorder.add(
                    row_of_error(bound, error, self._settings.upstream, took_ms, self.clock)
                )
        except TimeoutError:
            text = f"an error could not be recorded within {RECORDING_WAIT_S:g} s"
            raise SnapshotError(text) from None

    async def _replayed(self, call: Wanted, snapshot: Snapshot) -> Outcome | None:
        """What the snapshot holds, be it an answer or an error; None where it holds neither."""
        bound = call.bound
        kept = self.memory.get(bound.key)
        if kept is not None and kept.snapshot is not None:
            return Outcome(kept, source="replayed")

        async def read(_: Flight[Outcome | None]) -> Outcome | None:
            row = await to_thread.run_sync(snapshot.get, bound.key)
            if row is None:
                return None
            if row.status != OK:
                try:
                    error = CallError.from_dict(orjson.loads(row.entry.data))
                except (KeyError, ValueError) as unread:
                    text = f"{snapshot.path}: the error recorded of {row.tool} is none: {unread}"
                    raise SnapshotError(text) from None
                return Outcome(error=error, source="replayed", snapshot=snapshot.id)
            since = self.clock.passed() - max(self.clock.age_s(row.entry.recorded_at), 0.0)
            kept = Kept(row.entry, since, fresh_until=float("inf"), snapshot=snapshot.id)
            self.memory.put(bound.key, kept)
            return Outcome(kept, source="replayed")

        return await self._replays.join(bound.key, call.deadline, read)


def _not_cached() -> CallError:
    text = "the caller asked for a kept answer, and none is good enough"
    return CallError(ErrorCode.NOT_CACHED, text)


def _unusable() -> CallError:
    text = "the snapshot could not be read or written; the gateway's log says why"
    return CallError(ErrorCode.INTERNAL, text)


@asynccontextmanager
async def open_answers(
    settings: GatewaySettings, catalog: Catalog, clock: Clock
) -> AsyncIterator[Answers]:
    """All that the mode needs, and nothing else: offline there is no adapter and no other tier.

    Raises `SettingsError`, `SnapshotError`, and `OSError` where the cache can't be opened.
    """
    async with AsyncExitStack() as parts:
        plans = plans_of(settings, catalog)
        adapters: dict[Source, Adapter] = {}
        tiers: list[Tier] = []
        snapshot, recorder = None, None
        if settings.snapshot is not None and settings.mode == "record":
            withheld = {manifest.name for manifest in catalog.select(intent="transactional")}
            opened = Recorder.open(settings.snapshot, settings.cache_name, withheld)
            recorder = await parts.enter_async_context(opened)
        elif settings.snapshot is not None:
            snapshot = await to_thread.run_sync(Snapshot, settings.snapshot)
            parts.callback(snapshot.close)
        if settings.mode != "offline":
            adapters |= await parts.enter_async_context(
                open_upstream(settings, catalog, plans, clock)
            )
            directory = settings.cache_dir / settings.cache_name
            disk = DiskTier.open(directory, settings.disk_bytes)
            tiers.append(await parts.enter_async_context(disk))
        hosts = Hosts(settings, plans)
        answers = Answers(settings, adapters, hosts, tiers, snapshot, recorder, clock)
        parts.push_async_callback(answers.close)
        yield answers
