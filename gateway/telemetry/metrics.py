"""What the gateway counts, and how the worker processes of a run share it.

Each worker writes its figures to a file of its own in the run's folder; the worker that is scraped
adds them all up. Counters of an ended worker stay, its gauges are dropped. Labels come from the
catalogue, the settings, the clients file and the gateway itself, never from a caller.
"""

import asyncio
import logging
import os
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import orjson
from anyio import CapacityLimiter, to_thread

from gateway.call import Gateway
from gateway.context import CallContext
from gateway.errors import ErrorCode
from gateway.pipeline.bind import BoundCall
from gateway.result import Result
from gateway.telemetry.exposition import (
    BOUNDS_S,
    BYTES,
    MAX_CLIENTS,
    OTHER,
    TEXT,
    TIME,
    Figures,
    Format,
    Series,
    exposed,
)
from gateway.telemetry.reports import WorkerReport, read_others, together
from gateway.telemetry.vitals import Vitals
from gateway.upstreams.hosts import host_of
from manifests.common.files import replaced_file
from manifests.common.memory import rss_bytes

log = logging.getLogger("finport")

WRITE_S = 1.0
"""How often a worker writes its figures."""

LOOK_S = 1.0
"""How long reading the health of the other workers may take."""

KNOWN_S = 1.0
"""How long what was read is used: reading costs file access, and anyone may cause it."""

REMEMBERED = 10_000
"""Clients whose names are cached; keys come and go."""

_MOST_NAMES = MAX_CLIENTS + 2  # plus those for callers without a key and for all others
_BOUNDS_MS = tuple(bound * 1e3 for bound in BOUNDS_S)
_FIRST_MS = _BOUNDS_MS[0]


class CallMetrics:
    """Counts calls and the time they took (`gateway.call.Observer`).

    A call that could not be made counts under no tool and no host, whatever its caller named. A
    call of a caller without a key counts under no client. `name_of` returns the name of a client by
    its id.
    """

    def __init__(self, name_of: Callable[[str], str | None] = lambda _: None) -> None:
        self._name_of = name_of
        self._hosts = {"": ""}
        self._tallies: dict[tuple[str, str | None, ErrorCode | None, str], list[float]] = {}
        self._by_name: dict[str, dict[ErrorCode | None, int]] = {"": {}, OTHER: {}}
        self._by_client: dict[str, dict[ErrorCode | None, int]] = {}

    def ended(self, result: Result, bound: BoundCall | None, context: CallContext) -> None:
        error, view, took_ms = result.error, result.view, result.elapsed_ms
        code, fault = (None, "") if error is None else (error.code, error.fault)
        tool = "" if bound is None else result.tool
        kind = (tool, result.source, code, fault)
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
        client = "" if context.grant is None else context.client  # without a key it may be any name
        try:
            self._by_client[client][code] += 1
        except KeyError:
            self._count_first(client, code)

    def figures(self) -> Figures:
        """The rows: one a kind of call, with its buckets, its time in whole microseconds and its
        bytes, and one a client and code.
        """
        rows: list[Series] = []
        for (tool, source, code, fault), tally in self._tallies.items():
            labels = [tool, self._hosts[tool], source or "", _label(code), fault]
            rows.append((labels, [*tally[:TIME], round(tally[TIME] * 1e3), tally[BYTES]]))
        clients: list[Series] = [
            ([name, _label(code)], [count])
            for name, codes in self._by_name.items()
            for code, count in codes.items()
        ]
        return {"calls": rows, "finport_client_calls_total": clients}

    def _count_first(self, client: str, code: ErrorCode | None) -> None:
        """Count the first call of a client, or its first with that code."""
        codes = self._by_client.get(client)
        if codes is None:
            name = self._name_of(client) if client else ""
            if name is None or (name not in self._by_name and len(self._by_name) >= _MOST_NAMES):
                name = OTHER
            codes = self._by_name.setdefault(name, {})
            if len(self._by_client) < REMEMBERED:
                self._by_client[client] = codes
        codes[code] = codes.get(code, 0) + 1


def _label(code: ErrorCode | None) -> str:
    return "ok" if code is None else code.value


class Metrics:
    """The figures of this worker and of those that share its folder. Made by `Metrics.open`."""

    def __init__(
        self, gateway: Gateway, vitals: Vitals, calls: CallMetrics, folder: Path | None, index: int
    ) -> None:
        self._gateway = gateway
        self._vitals = vitals
        self._calls = calls
        self._index = index
        self._started = time.monotonic()
        # The time is part of the name: an earlier process may have had this id.
        name = f"worker-{index}-{os.getpid()}-{time.time_ns()}.json"
        self._file = folder and folder / name
        self._is_written = True
        self._known: list[WorkerReport] = []
        self._known_until = 0.0
        self._closing = asyncio.Event()
        self._scrapes = CapacityLimiter(1)
        self._looks = CapacityLimiter(1)

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
        """Open the metrics; `calls` observes the gateway. With a folder, which must be of this run
        only, the figures are shared there as those of worker `index`. Raises `OSError` if the
        folder can't be made.
        """
        metrics = cls(gateway, vitals, calls, folder, index)
        if folder is None:
            yield metrics
            return
        await to_thread.run_sync(partial(folder.mkdir, 0o700, parents=True, exist_ok=True))
        writer = asyncio.create_task(metrics._write_often())
        try:
            yield metrics
        finally:
            metrics._closing.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([writer])

    async def exposition(self, format_: Format = TEXT) -> bytes:
        """The figures of all workers."""
        own = self._report()
        return await to_thread.run_sync(self._exposed, own, format_, limiter=self._scrapes)

    async def health(self) -> dict[str, Any]:
        """The health of all workers (`together`). That of the others is what they last wrote or, if
        the folder can't be read in time, what was read before.
        """
        if time.monotonic() >= self._known_until:
            with anyio.move_on_after(LOOK_S):
                await to_thread.run_sync(self._look, limiter=self._looks, abandon_on_cancel=True)
        return together([*self._known, self._report()])

    def _report(self, *, has_ended: bool = False) -> WorkerReport:
        gateway, vitals, answers = self._gateway, self._vitals.result(), self._gateway.answers
        del vitals["loop_lag_ms"]
        counters, gauges = _figures(gateway, self._vitals)
        return WorkerReport(
            pid=os.getpid(),
            index=self._index,
            at=time.time(),
            has_ended=has_ended,
            failed=answers.failed,
            uptime_s=round(time.monotonic() - self._started, 3),
            calls=dict(gateway.outcomes),
            state={
                "cache": answers.state(),
                "pending": answers.pending,
                "hosts": answers.hosts.state(),
                **vitals,
            },
            counters=counters | self._calls.figures(),
            gauges={} if has_ended else gauges,
        )

    def _look(self) -> None:
        self._known = read_others(self._file) if self._file else []
        self._known_until = time.monotonic() + KNOWN_S

    async def _write_often(self) -> None:
        while not self._closing.is_set():
            await to_thread.run_sync(self._write, self._report())
            with anyio.move_on_after(WRITE_S):
                await self._closing.wait()
        await to_thread.run_sync(self._write, self._report(has_ended=True))

    def _write(self, report: WorkerReport) -> None:
        """Replace this process's report. A failure is logged once."""
        assert self._file is not None  # noqa: S101 - there is a folder
        try:
            with replaced_file(self._file, synced=False) as file:  # the report ends with its run
                file.write(orjson.dumps(report))
        except OSError as error:
            if self._is_written:
                log.warning("metrics can't be shared: %s", error)
            self._is_written = False
        else:
            self._is_written = True

    def _exposed(self, own: WorkerReport, format_: Format) -> bytes:
        reports = [*(read_others(self._file) if self._file else ()), own]
        living = {report.pid: report for report in reports if report.is_alive}  # one for each id
        counters = (report.counters for report in reports)
        gauges = (report.gauges for report in living.values())
        return exposed(self._gateway, counters, gauges, format_)


def _figures(gateway: Gateway, vitals: Vitals) -> tuple[Figures, Figures]:
    """Counters and gauges of this process, except those of its calls."""
    answers = gateway.answers
    hosts, tiers, workers = answers.hosts.state(), answers.state(), answers.workers()
    tiers.pop("recording", None)
    faults = ("refused", "failed", "left_out")
    breakers = ("closed", "half_open", "open")
    counters: Figures = {
        "finport_host_breaker_opened_total": _by(hosts, "breaker_opened"),
        "finport_cache_faults_total": _rows(
            {
                (tier, kind): n
                for tier, state in tiers.items()
                for kind, n in state.items()
                if kind in faults
            }
        ),
        "finport_stand_ins_total": _rows(gateway.stand_ins.counts),
        "finport_akshare_workers_started_total": _rows({(): workers.pop("started", 0)}),
        "finport_loop_late_seconds_total": _rows({(): vitals.late_s}),
    }
    if (shapes := answers.shapes) is not None:
        counters["finport_shape_changes_total"] = _rows(shapes.changes)
        counters["finport_shape_answers_total"] = _rows(shapes.answers)
    troubles: dict[tuple[()], float] = {}
    if (store := answers.store) is not None:
        counters["finport_redis_failures_total"] = _rows(store.failures)
        troubles = {(): int(store.trouble is not None)}
    gauges: Figures = {
        "finport_halted": _rows({(): int(answers.failed or gateway.halted is not None)}),
        "finport_redis_trouble": _rows(troubles),
        "finport_workers": _rows({(): 1}),
        "finport_pending_calls": _rows({(): answers.pending}),
        "finport_flights": _rows({(): answers.under_way}),
        "finport_host_in_flight": _by(hosts, "in_flight"),
        "finport_host_waiting": _by(hosts, "waiting"),
        "finport_host_retry_tokens": _by(hosts, "retry_tokens"),
        "finport_host_breaker_state": _rows(
            {
                (host, known): int(state["breaker"] == known)
                for host, state in hosts.items()
                for known in breakers
            }
        ),
        "finport_akshare_workers": _rows(workers),
        "finport_cache_entries": _by(tiers, "entries"),
        "finport_cache_bytes": _by(tiers, "bytes"),
        "finport_cache_queued": _by(tiers, "queued"),
        "finport_resident_bytes": _rows({(): rss_bytes()}),
        "lag": _rows({str(bucket): count for bucket, count in vitals.lag_ms.buckets.items()}),
    }
    return counters, gauges


def _rows(numbers: Mapping[Any, float]) -> list[Series]:
    """Rows of one number, by their label or tuple of labels."""
    return [([k] if isinstance(k, str) else [*k], [n]) for k, n in numbers.items()]


def _by(states: Mapping[str, Mapping[str, float]], name: str) -> list[Series]:
    return _rows({label: state[name] for label, state in states.items() if name in state})
