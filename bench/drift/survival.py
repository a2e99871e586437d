"""The share of things that last longer than a time, from when each was last seen or seen to end.

The estimator is Kaplan and Meier's (JASA 53(282), 1958), its variance Greenwood's (1926). The 95 %
interval is symmetric for log(-log S), so it stays within 0 and 1 (Kalbfleisch and Prentice, 1980).
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any

from bench.metrics.interval import DIGITS, Z_95, rounded


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long one thing was followed, and whether it ended then. One that did not end is censored:
    nothing is known of it after `time`.
    """

    time: float
    ended: bool


@dataclass(frozen=True, slots=True)
class Step:
    """The estimate from `time` on, until the next step: `survival` with its standard error and its
    95 % interval. Of the `at_risk` that were followed up to `time`, `ended` ended then.

    Once nothing survives, Greenwood's variance does not exist; `error` and `interval` are None.
    """

    time: float
    at_risk: int
    ended: int
    survival: float
    error: float | None
    interval: tuple[float, float] | None


def survival(lifetimes: Iterable[Lifetime]) -> list[Step]:
    """The survival curve: a step for each time at which something ended, in order of time. Before
    the first step survival is 1. Something censored at a time is still at risk at that time.
    """
    ended: Counter[float] = Counter()
    followed: Counter[float] = Counter()
    for lifetime in lifetimes:
        followed[lifetime.time] += 1
        ended[lifetime.time] += lifetime.ended
    at_risk, share, greenwood = followed.total(), 1.0, 0.0
    steps = []
    for time in sorted(followed):
        if ended[time]:
            left = at_risk - ended[time]
            share *= left / at_risk
            if left:
                greenwood += ended[time] / (at_risk * left)
                interval = _log_log_interval(share, greenwood)
                steps.append(
                    Step(time, at_risk, ended[time], share, share * sqrt(greenwood), interval)
                )
            else:
                steps.append(Step(time, at_risk, ended[time], 0.0, None, None))
        at_risk -= followed[time]
    return steps


def followed(
    names: Iterable[str], times: Sequence[float], there: Sequence[Container[str]], what: str
) -> dict[str, Any]:
    """How long `names` last, as JSON: `there` says which exist at each of `times`. One ends at the
    first time at which it is missing. The key `what` holds how many were followed.
    """
    lifetimes = []
    ends: dict[str, float] = {}
    for name in names:
        gone = next((t for t, now in zip(times, there, strict=True) if name not in now), None)
        lifetimes.append(Lifetime(times[-1] if gone is None else gone, gone is not None))
        if gone is not None:
            ends[name] = gone
    steps = [
        {
            "time": step.time,
            "at_risk": step.at_risk,
            "ended": step.ended,
            "survival": round(step.survival, DIGITS),
            "error": None if step.error is None else round(step.error, DIGITS),
            "interval": rounded(step.interval),
        }
        for step in survival(lifetimes)
    ]
    return {
        what: len(lifetimes),
        "followed": times[-1],
        "steps": steps,
        "ended": sorted(ends),
        "returned": sorted(name for name in ends if name in there[-1]),
    }


def _log_log_interval(share: float, greenwood: float) -> tuple[float, float]:
    reach = Z_95 * sqrt(greenwood) / -log(share)
    return share ** exp(reach), share ** exp(-reach)
