"""The health of one process, as data, and of several that serve together.

Counts are added up over all processes, including those that have ended. Current values are added up
over the living ones. Of times the longest is taken, and of breakers the worst state.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from gateway.call import Gateway
from gateway.telemetry.quantile import Quantiles
from gateway.telemetry.shared import Record
from gateway.telemetry.vitals import Vitals

_WORSE = {"closed": 0, "half_open": 1, "open": 2}


@dataclass(frozen=True, slots=True)
class Health(Record):
    """The health of one process. `state` holds current values, except those that `together` treats
    separately.
    """

    has_ended: bool
    failed: bool
    uptime_s: float
    lag_ms: tuple[tuple[int, int], ...]
    calls: dict[str, int]
    state: dict[str, Any]

    @property
    def serves(self) -> bool:
        return not self.has_ended and self.is_alive


def health_state(gateway: Gateway, vitals: Vitals) -> dict[str, Any]:
    """The current values of this process."""
    answers, measured = gateway.answers, vitals.result()
    del measured["loop_lag_ms"]
    return {
        "cache": answers.state(),
        "pending": answers.pending,
        "hosts": answers.hosts.state(),
        **measured,
    }


def together(every: Iterable[Health]) -> dict[str, Any]:
    """The health of the gateway that these processes make up, or made up."""
    every = [*every]
    living = list({health.pid: health for health in every if health.serves}.values())
    lag = Quantiles()
    for health in living:
        lag.merge(Quantiles(dict(health.lag_ms)))
    return {
        "alive": len(living),
        "failed": any(health.failed for health in living),
        "uptime_s": max((health.uptime_s for health in living), default=0.0),
        "calls": _sum([health.calls for health in every]),
        **_sum([health.state for health in living]),
        "loop_lag_ms": lag.result(),
    }


def _sum(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return reduce(_both, states, {})


def _both(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, dict):
        return {name: _both(first.get(name), second.get(name)) for name in {**first, **second}}
    if isinstance(first, str):
        return max(first, second, key=lambda state: _WORSE.get(state, 0))
    return first or second if isinstance(first, bool) else round(first + second, 1)
