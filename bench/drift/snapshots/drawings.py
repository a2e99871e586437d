"""What a page shows of a field before and after, numbers by date, numbers by range or texts, and of
a series of snapshots; and how it is drawn as SVG.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from bench.drift.finding import LEVELS
from bench.drift.snapshots.records import number
from bench.drift.snapshots.statistics import quantile
from bench.drift.snapshots.time_checks import day
from gateway.common import drawing as d

POINTS: Final = 60
BARS: Final = 16

SIDES: Final = {"before": "soft", "after": "accent"}
"""Both sides of a comparison, each with its paint."""

_LEVEL_PAINTS: Final = dict(zip(LEVELS, ("bad-ink", "strong-line", "rest"), strict=True))

_WIDTH, _HEIGHT = 420.0, 120.0


def series(dates: Sequence[float], pairs: Sequence[tuple[Any, Any]]) -> Mapping[str, Any] | None:
    """Two lines over time, of at most `POINTS` evenly spaced dates (Unix seconds)."""
    values = sorted(
        (date, x, y)
        for date, (a, b) in zip(dates, pairs, strict=True)
        if (x := number(a)) is not None and (y := number(b)) is not None
    )
    step = max(-(-len(values) // POINTS), 1)
    if len(values[::step]) < 2:
        return None
    shown, before, after = zip(*values[::step], strict=True)
    return {"kind": "series", "dates": shown, "before": before, "after": after}


def histogram(before: Sequence[float], after: Sequence[float]) -> Mapping[str, Any] | None:
    """Shares of sorted values in ranges of equal width; of positive values over several decades, of
    equal ratio.
    """
    low = min(quantile(before, 0.01), quantile(after, 0.01))
    high = max(quantile(before, 0.99), quantile(after, 0.99))
    if not low < high or high - low > 1e300:
        return None
    is_log = low > 0 and high / low > 100
    place = d.Scale(low, high, 0, BARS, is_log)

    def shares(values: Sequence[float]) -> list[float]:
        bars = Counter(int(place(min(max(value, low), high))) for value in values)
        bars[BARS - 1] += bars[BARS]
        return [round(bars[n] / len(values), 4) for n in range(BARS)]

    ends = f"{low:,.6g}", f"{high:,.6g}{' (log)' if is_log else ''}"
    return {"kind": "histogram", "ends": ends, "before": shares(before), "after": shares(after)}


def counts(before: Counter[str], after: Counter[str]) -> Mapping[str, Any]:
    """How often the most frequent texts stand on each side."""
    names = [name for name, _ in (before + after).most_common(12)]
    sides = {"before": [before[n] for n in names], "after": [after[n] for n in names]}
    return {"kind": "counts", "names": names, **sides}


def drawing(evidence: Mapping[str, Any], name: str) -> Markup:
    """What `evidence` holds of the field `name`."""
    draw = {"series": _lines, "histogram": _bars, "counts": _counts}[evidence["kind"]]
    parts, height, said = draw(evidence)
    return d.drawing(parts, _WIDTH, height, f"{name}: {said}"[:300])


Drawn = tuple[list[str], float, str]
"""The elements of a drawing, its height, and what it shows in words."""


def _lines(evidence: Mapping[str, Any]) -> Drawn:
    dates = evidence["dates"]
    values = [*evidence["before"], *evidence["after"]]
    x = d.Scale(dates[0], dates[-1], 40, _WIDTH - 40)
    y = d.Scale(min(values), max(values), _HEIGHT - 24, 14)
    first, last, low, high = day(dates[0]), day(dates[-1]), f"{y.low:,.6g}", f"{y.high:,.6g}"
    parts = [*d.x_axis(x, y.start, {x.low: first, x.high: last}), d.text((8, 10), high, "soft")]
    for side, paint in SIDES.items():
        points = zip(map(x, dates), map(y, evidence[side]), strict=True)
        parts.append(d.line(points, paint, 2, dash="5 3" if side == "before" else ""))
    return parts, _HEIGHT, f"from {first} to {last}, between {low} and {high}"


def _bars(evidence: Mapping[str, Any]) -> Drawn:
    low, high = evidence["ends"]
    x = d.Scale(0, BARS, 20, _WIDTH - 20)
    most = max(*evidence["before"], *evidence["after"]) or 1
    y = d.Scale(0, most, _HEIGHT - 24, 8)
    parts = d.x_axis(x, y.start, {})
    parts.append(d.text((x.start, _HEIGHT - 10), low, "soft"))
    parts.append(d.text((x.end, _HEIGHT - 10), high, "soft", "end"))
    wide = 0.42 * (x(1) - x(0))
    for offset, (side, paint) in zip((0.08, 0.5), SIDES.items(), strict=True):
        for place, share in enumerate(evidence[side]):
            parts.append(d.bar((x(place + offset), y(share)), wide, y.start - y(share), paint))
    return parts, _HEIGHT, f"values from {low} to {high}"


def _counts(evidence: Mapping[str, Any]) -> Drawn:
    most = max(*evidence["before"], *evidence["after"], 1)
    left, parts = d.names(evidence["names"], 4, 26, 200)
    for offset, (side, paint) in zip((4, 14), SIDES.items(), strict=True):
        for place, count in enumerate(evidence[side]):
            parts.append(d.bar((left + 8, 4 + 26 * place + offset), count / most * 180, 8, paint))
    return parts, 8 + 26 * len(evidence["names"]), "how often each text stands"


def timeline(series: Sequence[Mapping[str, Any]]) -> Markup:
    """For each snapshot but the first, the findings since the one before, as stacked bars; and a
    line of how many tools answered.
    """
    width, height = 560.0, 190.0
    most = max((sum(row["findings"].values()) for row in series[1:]), default=0) or 1
    answered = max(row["answered"] for row in series) or 1
    x = d.Scale(0, max(len(series) - 1, 1), 40, width - 40)
    found, tools = d.Scale(0, most, height - 40, 20), d.Scale(0, answered, height - 40, 20)
    wide = min(0.6 * (x(1) - x(0)), 40)
    shown = {place for place in range(len(series)) if len(series) <= 8} | {0, len(series) - 1}
    parts = d.x_axis(x, found.start, {n: day(series[n]["recorded_from"]) for n in shown})
    for place, row in enumerate(series[1:], 1):
        below = 0
        for level, count in row["findings"].items():
            bottom, below = found(below), below + count
            corner = x(place) - wide / 2, found(below)
            parts.append(d.bar(corner, wide, bottom - found(below), _LEVEL_PAINTS[level]))
    line = [(x(place), tools(row["answered"])) for place, row in enumerate(series)]
    parts.append(d.line(line, "accent", 2))
    said = f"bars: findings since the snapshot before, at most {most:,}"
    said += f"; line: tools that answered, at most {answered:,}"
    parts.append(d.text((8, height - 6), said, "soft"))
    return d.drawing(parts, width, height, f"Findings over {len(series)} snapshots; {said}")
