"""What the gateway counts, and how the worker processes of a run share it.

Each worker keeps its figures in a file of its own in the run's folder; whichever is scraped adds
them up. Counters of a worker that has ended stay, its gauges go. Labels come from the catalogue,
the settings and the gateway itself, never from a caller.
"""

import asyncio
import logging
import os
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import orjson
from anyio import CapacityLimiter, to_thread
from pydantic import TypeAdapter

from gateway.bind import BoundCall
from gateway.call import Gateway
from gateway.context import CallContext
from gateway.errors import ErrorCode
from gateway.exposition import BOUNDS_S, BYTES, TEXT, TIME, Figures, Format, Row, exposed
from gateway.hosts import host_of
from gateway.memory import rss_bytes
from gateway.result import Result
from gateway.vitals import Vitals

log = logging.getLogger("finport")

WRITE_S = 1.0
"""How often a worker writes its figures."""

STALE_S = 15.0
"""A worker that has written nothing for so long is gone, even if some process has its id."""

_BOUNDS_MS = tuple(bound * 1e3 for bound in BOUNDS_S)
_FIRST_MS = _BOUNDS_MS[0]


class CallMetrics:
    """Counts calls and the time they took (`gateway.call.Observer`).

    A call that could not be made counts under no tool and no host, whatever its caller named.
    """

    def __init__(self) -> None:
        self._hosts = {"": ""}
        self._tallies: dict[tuple[str, str | None, ErrorCode | None], list[float]] = {}

    def ended(self, result: Result, bound: BoundCall | None, context: CallContext) -> None:  # noqa: ARG002 - call shape of Observer
        error, view, took_ms = result.error, result.view, result.elapsed_ms
        tool = "" if bound is None else result.tool
        kind = (tool, result.source, None if error is None else error.code)
        try:
            tally = self._tallies[kind]
        except KeyError:
            tally = self._tallies[kind] = [0] * (BYTES + 1)
            if bound is not None:
                self._hosts[tool] = host_of(bound.plan.manifest)
        # most calls are answered from memory and need no search for their bucket
        tally[0 if took_ms < _FIRST_MS else bisect_left(_BOUNDS_MS, took_ms)] += 1
        tally[TIME] += took_ms
        if view is not None:
            tally[BYTES] += len(view.data)

    def figures(self) -> Figures:
        """One row a kind of call: its buckets, its time in whole microseconds, its bytes."""
        rows: list[Row] = []
        for (tool, source, code), tally in self._tallies.items():
            labels = [tool, self._hosts[tool], source or "", code.value if code else "ok"]
            rows.append((labels, [*tally[:TIME], round(tally[TIME] * 1e3), tally[BYTES]]))
        return {"calls": rows}


@dataclass(frozen=True, slots=True)
class State:
    """The figures of one worker process `at` some Unix time; JSON by orjson."""

    pid: int
    index: int
    at: float
    counters: Figures
    gauges: Figures

    @property
    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # another user's: there is one
        return abs(time.time() - self.at) < STALE_S


_STATE = TypeAdapter(State)


class Metrics:
    """Figures of this worker and of those it shares a folder with. Made by `Metrics.open`."""

    def __init__(
        self, gateway: Gateway, vitals: Vitals, calls: CallMetrics, folder: Path | None, index: int
    ) -> None:
        self._gateway = gateway
        self._vitals = vitals
        self._calls = calls
        self._file = folder and folder / f"worker-{index}-{os.getpid()}.json"
        self._index = index
        self._is_written = True
        self._closing = asyncio.Event()
        self._scrapes = CapacityLimiter(1)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        gateway: Gateway,
        vitals: Vitals,
        calls: CallMetrics,
        folder: Path | None = None,
        index: int = 0,
    ) -> AsyncIterator["Metrics"]:
        """`calls` observes the gateway. With a folder, one of this run only, the figures are shared
        there as those of worker `index`. Raises `OSError` for a folder that can't be made.
        """
        metrics = cls(gateway, vitals, calls, folder, index)
        if metrics._file is None:
            yield metrics
            return
        await to_thread.run_sync(_make_room, metrics._file)
        writer = asyncio.create_task(metrics._write_often(metrics._file))
        try:
            yield metrics
        finally:
            metrics._closing.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([writer])

    def state(self) -> State:
        """This worker's figures."""
        counters, gauges = _figures(self._gateway, self._vitals)
        counters |= self._calls.figures()
        return State(os.getpid(), self._index, time.time(), counters, gauges)

    async def exposition(self, format_: Format = TEXT) -> bytes:
        """The figures of all workers."""
        return await to_thread.run_sync(self._exposed, self.state(), format_, limiter=self._scrapes)

    async def _write_often(self, file: Path) -> None:
        while not self._closing.is_set():
            await to_thread.run_sync(self._write, file, self.state())
            with anyio.move_on_after(WRITE_S):
                await self._closing.wait()
        await to_thread.run_sync(self._write, file, replace(self.state(), gauges={}))

    def _write(self, file: Path, state: State) -> None:
        try:
            part = file.with_suffix(".part")
            part.write_bytes(orjson.dumps(state))
            part.replace(file)
        except OSError as error:
            if self._is_written:
                log.warning("metrics can't be shared: %s", error)
            self._is_written = False
        else:
            self._is_written = True

    def _exposed(self, own: State, format_: Format) -> bytes:
        states = [*sorted(_others(self._file), key=lambda state: state.at), own]
        living = {state.pid: state for state in states if state.is_alive}  # an id is one process
        counters = (state.counters for state in states)
        gauges = (state.gauges for state in living.values())
        return exposed(self._gateway, counters, gauges, format_)


def _figures(gateway: Gateway, vitals: Vitals) -> tuple[Figures, Figures]:
    """Counters and gauges of this process, but for its calls."""
    answers = gateway.answers
    hosts, tiers, workers = answers.hosts.state(), answers.state(), answers.workers()
    tiers.pop("recording", None)
    started = workers.pop("started", 0)
    counters: Figures = {
        "finport_host_breaker_opened_total": _by(hosts, "breaker_opened"),
        "finport_cache_faults_total": [
            ([tier, kind], [state[kind]])
            for tier, state in tiers.items()
            for kind in ("refused", "failed", "left_out")
            if kind in state
        ],
        "finport_akshare_workers_started_total": [([], [started])],
    }
    gauges: Figures = {
        "finport_workers": [([], [1])],
        "finport_pending_calls": [([], [answers.pending])],
        "finport_flights": [([], [answers.under_way])],
        "finport_host_in_flight": _by(hosts, "in_flight"),
        "finport_host_waiting": _by(hosts, "waiting"),
        "finport_host_retry_tokens": _by(hosts, "retry_tokens"),
        "finport_host_breaker_state": [
            ([host, known], [int(state["breaker"] == known)])
            for host, state in hosts.items()
            for known in ("closed", "half_open", "open")
        ],
        "finport_akshare_workers": [([state], [count]) for state, count in workers.items()],
        "finport_cache_entries": _by(tiers, "entries"),
        "finport_cache_bytes": _by(tiers, "bytes"),
        "finport_cache_queued": _by(tiers, "queued"),
        "finport_resident_bytes": [([], [rss_bytes()])],
        "lag": [([str(bucket)], [count]) for bucket, count in vitals.lag_ms.buckets.items()],
    }
    return counters, gauges


def _by(states: Mapping[str, Mapping[str, float]], name: str) -> list[Row]:
    return [([label], [state[name]]) for label, state in states.items() if name in state]


def _make_room(file: Path) -> None:
    """Counters of an earlier process with the same index and id are to stay."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.exists():
        file.rename(file.with_stem(f"{file.stem}-{time.time_ns()}"))


def _others(own: Path | None) -> Iterator[State]:
    for file in own.parent.glob("worker-*.json") if own else ():
        if file != own:
            try:
                yield _STATE.validate_json(file.read_bytes())
            except (OSError, ValueError) as error:
                log.warning("metrics in %s can't be read: %s", file, error)
