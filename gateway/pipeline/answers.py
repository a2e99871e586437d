"""Finds the answer to a bound call in the cache, in a snapshot or upstream, by the gateway's mode.

`live` uses a cached answer that is good enough (`cache/freshness.py`), else asks upstream. `record`
asks upstream and writes the answer to the snapshot before the caller gets it. `replay` uses the
snapshot, else works as `live`. `offline` uses the snapshot alone and has no adapter. Errors are
recorded, never cached. A transactional tool, and one with sessions, is executed for each call: its
answer belongs to that caller alone and is never looked up, shared, cached or recorded.
"""

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any

from cache import Clock, Entry, Recorder, SnapshotError, Use, decide
from cache.flight import Late, Shut
from cache.freshness import ANYTHING
from gateway.context import CallContext
from gateway.errors import CallError, ErrorCode
from gateway.pipeline.bind import BoundCall
from gateway.pipeline.cached import KeptAnswers
from gateway.pipeline.execute import PATIENCE_S
from gateway.pipeline.fetch import Fetcher
from gateway.pipeline.outcome import Outcome, Wanted
from gateway.pipeline.snapshot_rows import never_recorded, not_in_snapshot, row_of_error
from gateway.settings import GatewaySettings
from gateway.shapes.watch import ShapeWatch
from gateway.sharing.store import SharedStore
from gateway.upstreams.hosts import Hosts

log = logging.getLogger("finport")

RECORDING_WAIT_S = 2.0
"""How long a call that is already late waits for its error to be recorded."""


class Answers:
    """Answers to bound calls, for one event loop. `store` is the Redis that it shares, if any."""

    def __init__(
        self,
        settings: GatewaySettings,
        kept: KeptAnswers,
        fetcher: Fetcher,
        hosts: Hosts,
        recorder: Recorder | None,
        clock: Clock,
        store: SharedStore | None = None,
    ) -> None:
        self.clock = clock
        self.store = store
        self.memory = kept.memory
        self.snapshot = kept.snapshot
        self.recorder = recorder
        self.hosts = hosts
        self.pending = 0
        self._settings = settings
        self._kept = kept
        self._fetcher = fetcher

    @property
    def snapshot_id(self) -> str | None:
        """The id of the replayed snapshot, or of the one that a closed recorder has written."""
        summary = self.recorder.summary if self.recorder else None
        summary = self.snapshot.summary if self.snapshot else summary
        return summary.id if summary else None

    @property
    def upstream(self) -> str:
        """The upstreams that answers come from: `live`, `simulated`, or `live and simulated`."""
        made = set() if self._settings.mode == "offline" else {str(self._settings.upstream)}
        if self.snapshot is not None:
            made |= self.snapshot.summary.upstreams.keys()
        return " and ".join(sorted(made))

    @property
    def shapes(self) -> ShapeWatch | None:
        """What compares the shapes of live answers, if that is on."""
        return self._fetcher.shapes

    @property
    def market(self) -> str | None:
        """A hash of the recorded market, if there is one."""
        return self._fetcher.market

    @property
    def failed(self) -> bool:
        """Whether a recording has failed; from then on no call is answered."""
        return self.recorder is not None and self.recorder.failure is not None

    def state(self) -> dict[str, Any]:
        """The state of the cache tiers, and of the recording if there is one."""
        state = self._kept.state()
        if self.recorder is not None:
            state["recording"] = {"calls": self.recorder.calls, "failed": self.failed}
        return state

    def workers(self) -> dict[str, int]:
        """The state of the AkShare worker processes; empty if there are none."""
        return self._fetcher.workers()

    @property
    def under_way(self) -> int:
        """Executions that have not ended."""
        return self._fetcher.under_way

    async def close(self) -> None:
        """End all work and cancel its callers."""
        self._fetcher.shut()
        self._kept.shut()
        await self._fetcher.close()
        await self._kept.close()
        await self.hosts.close()

    async def obtain(self, bound: BoundCall, context: CallContext) -> Outcome:
        """Answer a call that memory alone could not answer at once."""
        if self.failed:  # asking upstream would be in vain
            return Outcome(error=_unusable())
        if self.pending >= self._settings.max_pending_calls:
            text = f"{self.pending} calls are already on their way to an answer"
            return Outcome(error=CallError(ErrorCode.OVERLOADED, text, retry_after_s=1.0))
        self.pending += 1
        try:
            outcome = await self._in_time(bound, context)
            if bound.plan.transactional and outcome.attempts and outcome.error is not None:
                # It may have been executed all the same, so the error never suggests a retry.
                return replace(outcome, error=replace(outcome.error, again=False))
            return outcome
        except SnapshotError as error:  # no unrecorded or damaged answer goes out
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
            if bound.plan.is_for_one:
                return await self._for_one(call)
            if self.recorder is not None:
                if call.asked.only_if_cached:
                    return Outcome(error=_not_cached())
                outcome = await self._fetcher.fetch(call)
                error = outcome.error
                if error is not None and error.fault != "gateway" and outcome.attempts:
                    await self._record_error(bound, error, started, self.recorder)
                return outcome
            if self.snapshot is not None:
                replayed = await self._kept.replay(bound, call.deadline, self.snapshot)
                if replayed is not None:
                    return replayed
                if self._settings.mode == "offline":
                    return Outcome(error=await not_in_snapshot(bound, self.snapshot))
            return await self._live(call)
        except Late as late:
            text = f"no answer within the call's {limit_s:g} s"
            error = hurry or CallError(ErrorCode.TIMEOUT, text)
            if late.in_queue and not late.attempts:
                error = self.hosts.of(bound.plan.manifest).not_admitted(limit_s)
            if self.recorder is not None and late.attempts and not bound.plan.is_for_one:
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
        """The entry of that tool, key and version, wherever it is cached."""
        return await self._kept.recall(tool, key, version, self._settings.deadline_s)

    async def _for_one(self, call: Wanted) -> Outcome:
        if self._settings.mode == "offline" and call.bound.plan.transactional:
            return Outcome(error=never_recorded(call.bound, self.snapshot_id))
        if call.asked.only_if_cached:
            return Outcome(error=_not_cached())
        return await self._fetcher.fetch_alone(call)

    async def _live(self, call: Wanted) -> Outcome:
        bound, asked = call.bound, call.asked
        kept = await self._kept.find(bound, call.deadline)
        now = self.clock.passed()
        use = Use.NO
        if kept is not None:
            recorded_at = kept.entry.recorded_at
            use = decide(recorded_at, bound.plan.freshness, kept.time(now), asked)
        if use is Use.FRESH:
            return Outcome(kept, source="cached")
        if use is Use.REVALIDATE and kept is not None and not asked.no_store:
            self._fetcher.refresh(call, kept, now)
        if use in (Use.REVALIDATE, Use.STALE):
            return Outcome(kept, source="stale")
        if asked.only_if_cached:
            return Outcome(error=_not_cached())
        if use is not Use.IF_ERROR or kept is None:
            return await self._fetcher.fetch(call)
        if now < kept.retry_at and not asked.demands:
            return Outcome(kept, source="stale")
        return await self._fetcher.fetch_or_give_stale(call, kept)

    async def _record_error(
        self, bound: BoundCall, error: CallError, started: float, recorder: Recorder
    ) -> None:
        """Record an error on disk before the caller gets it."""
        took_ms = (time.perf_counter() - started) * 1e3
        try:
            async with asyncio.timeout(RECORDING_WAIT_S):
                await recorder.add(
                    row_of_error(bound, error, self._settings.upstream, took_ms, self.clock)
                )
        except TimeoutError:
            text = f"an error could not be recorded within {RECORDING_WAIT_S:g} s"
            raise SnapshotError(text) from None


def _not_cached() -> CallError:
    text = "the caller asked for a kept answer, and none is good enough"
    return CallError(ErrorCode.NOT_CACHED, text)


def _unusable() -> CallError:
    text = "the snapshot could not be read or written; the gateway's log says why"
    return CallError(ErrorCode.INTERNAL, text)
