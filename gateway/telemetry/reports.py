"""What each worker process of a run reports about itself, shared through files of the run's folder.

Each process replaces its own file as a whole, so none is read half-written. A report stays when its
process has ended. Counts are added up over all processes, including those that have ended. Current
values are added up over the living ones. Of times the longest is taken, and of breakers the worst
state.
"""

import logging
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from gateway.telemetry.exposition import Figures
from gateway.telemetry.quantile import Quantiles

log = logging.getLogger("finport")

STALE_S = 15.0
"""A worker that has written nothing for this long is gone, even if a process has its id."""

_WORSE = {"closed": 0, "half_open": 1, "open": 2}


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What process `pid`, worker `index` of its run, reports about itself at Unix time `at`.

    `calls` counts the calls by how they ended. `state` holds current values, except those that
    `together` treats separately. `counters` and `gauges` are the figures for Prometheus.
    """

    pid: int
    index: int
    at: float
    has_ended: bool
    failed: bool
    uptime_s: float
    calls: dict[str, int]
    state: dict[str, Any]
    counters: Figures
    gauges: Figures

    @property
    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # the process is another user's
        return abs(time.time() - self.at) < STALE_S

    @property
    def serves(self) -> bool:
        return not self.has_ended and self.is_alive

    @property
    def lag(self) -> Quantiles:
        """Milliseconds by which timers of the event loop were late."""
        return Quantiles({int(bucket): int(n) for (bucket,), (n,) in self.gauges.get("lag", ())})


_ADAPTER = TypeAdapter(WorkerReport)


def read_others(file: Path) -> list[WorkerReport]:
    """What the other processes of a run have last written beside this process's `file`, also those
    that have ended, the latest last. Blocks.
    """
    reports = []
    for other in file.parent.glob("worker-*.json"):
        if other != file:
            try:
                reports.append(_ADAPTER.validate_json(other.read_bytes()))
            except (OSError, ValueError) as error:
                log.warning("metrics in %s can't be read: %s", other, error)
    return sorted(reports, key=lambda report: report.at)


def together(every: Sequence[WorkerReport]) -> dict[str, Any]:
    """The health of the gateway that these processes make up, or made up."""
    living = list({report.pid: report for report in every if report.serves}.values())
    lag = Quantiles()
    for report in living:
        lag.merge(report.lag)
    return {
        "alive": len(living),
        "failed": any(report.failed for report in living),
        "uptime_s": max((report.uptime_s for report in living), default=0.0),
        "calls": _sum(report.calls for report in every),
        **_sum(report.state for report in living),
        "loop_lag_ms": lag.result(),
    }


def _sum(states: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return reduce(_both, states, {})


def _both(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, dict):
        return {name: _both(first.get(name), second.get(name)) for name in {**first, **second}}
    if isinstance(first, str):
        return max(first, second, key=lambda state: _WORSE.get(state, 0))
    return first or second if isinstance(first, bool) else round(first + second, 1)
