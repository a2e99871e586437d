"""The share of things that last longer than a time, from when each was last seen or seen to end.

The estimator is Kaplan and Meier's (JASA 53(282), 1958), its variance Greenwood's (1926). The 95 %
interval is symmetric for log(-log S), so it stays within 0 and 1 (Kalbfleisch and Prentice, 1980).
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from math import exp, log, sqrt
from typing import Any

from bench.metrics.interval import DIGITS, Z_95, rounded


def survival(lifetimes: Iterable[tuple[float, bool]]) -> list[dict[str, Any]]:
    """The survival curve: a step for each time at which something ended, in order of time. A
    lifetime is how long one thing was followed, and whether it ended then; one that did not end is
    censored, and still at risk at that time.

    A step has the `survival` from its `time` on, with its standard `error` and its 95 % `interval`.
    Of the `at_risk` that were followed up to then, `ended` ended. Before the first step survival is
    1. Once nothing survives, Greenwood's variance does not exist, nor do error and interval.
    """
    ended: Counter[float] = Counter()
    followed: Counter[float] = Counter()
    for time, is_end in lifetimes:
        followed[time] += 1
        ended[time] += is_end
    at_risk, share, greenwood = followed.total(), 1.0, 0.0
    steps = []
    for time in sorted(followed):
        if ended[time]:
            left = at_risk - ended[time]
            share *= left / at_risk
            error, interval = None, None
            if left:
                greenwood += ended[time] / (at_risk * left)
                error = round(share * sqrt(greenwood), DIGITS)
                reach = Z_95 * sqrt(greenwood) / -log(share)
                interval = share ** exp(reach), share ** exp(-reach)
            steps.append(
                {
                    "time": time,
                    "at_risk": at_risk,
                    "ended": ended[time],
                    "survival": round(share, DIGITS),
                    "error": error,
                    "interval": rounded(interval),
                }
            )
        at_risk -= followed[time]
    return steps


def followed(
    names: Iterable[str], times: Sequence[float], there: Sequence[Container[str]], what: str
) -> dict[str, Any]:
    """How long `names` last, as JSON: `there` says which exist at each of `times`. One ends at the
    first time at which it is missing. The key `what` holds how many were followed.
    """
    ends: dict[str, float | None] = {
        name: next((t for t, now in zip(times, there, strict=True) if name not in now), None)
        for name in names
    }
    ended = sorted(name for name, end in ends.items() if end is not None)
    steps = survival((times[-1], False) if end is None else (end, True) for end in ends.values())
    return {
        what: len(ends),
        "followed": times[-1],
        "steps": steps,
        "ended": ended,
        "returned": [name for name in ended if name in there[-1]],
    }
