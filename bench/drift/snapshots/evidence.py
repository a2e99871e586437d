"""What a page shows of a field before and after: numbers by date, numbers by range, texts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log10
from typing import Any, Final

from bench.drift.snapshots.records import number
from bench.drift.snapshots.statistics import quantile

POINTS: Final = 60
BARS: Final = 16


def series(dates: Sequence[float], pairs: Sequence[tuple[Any, Any]]) -> Mapping[str, Any] | None:
    """Two lines over time, of at most `POINTS` evenly spaced dates (Unix seconds)."""
    values = sorted(
        (date, x, y)
        for date, (a, b) in zip(dates, pairs, strict=True)
        if (x := number(a)) is not None and (y := number(b)) is not None
    )
    step = max(-(-len(values) // POINTS), 1)
    chosen = values[::step]
    if len(chosen) < 2:
        return None
    return {
        "kind": "series",
        "dates": [date for date, _, _ in chosen],
        "before": [x for _, x, _ in chosen],
        "after": [y for _, _, y in chosen],
    }


def histogram(before: Sequence[float], after: Sequence[float]) -> Mapping[str, Any] | None:
    """Shares of sorted values in ranges of equal width; of positive values over several decades, of
    equal ratio.
    """
    low = min(quantile(before, 0.01), quantile(after, 0.01))
    high = max(quantile(before, 0.99), quantile(after, 0.99))
    if not low < high or high - low > 1e300:
        return None
    is_log = low > 0 and high / low > 100
    first, last = (log10(low), log10(high)) if is_log else (low, high)

    def shares(values: Sequence[float]) -> list[float]:
        bars = [0] * BARS
        for value in values:
            place = log10(max(value, low)) if is_log else value
            bars[min(max(int((place - first) / (last - first) * BARS), 0), BARS - 1)] += 1
        return [round(count / len(values), 4) for count in bars]

    return {
        "kind": "histogram",
        "low": low,
        "high": high,
        "log": is_log,
        "before": shares(before),
        "after": shares(after),
    }


def counts(before: Counter[str], after: Counter[str]) -> Mapping[str, Any]:
    """How often the most frequent texts stand on each side."""
    names = [name for name, _ in (before + after).most_common(12)]
    return {
        "kind": "counts",
        "names": names,
        "before": [before[name] for name in names],
        "after": [after[name] for name in names],
    }
