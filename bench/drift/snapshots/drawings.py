"""What a page shows of a field before and after, numbers by date, numbers by range or texts, and of
a series of snapshots; and how it is drawn: as SVG with classes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from typing import Any, Final

from bench.drift.finding import LEVELS
from bench.drift.snapshots.records import number
from bench.drift.snapshots.statistics import quantile
from bench.drift.snapshots.time_checks import day
from manifests.common.terminal import plain

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


_WIDTH, _HEIGHT, _LEFT, _BASE = 420, 120, 8, 96

SIDES: Final = ("before", "after")


def drawing(evidence: Mapping[str, Any], name: str) -> str:
    """What `evidence` holds of the field `name`."""
    match evidence["kind"]:
        case "series":
            body, said = _lines(evidence)
        case "histogram":
            body, said = _bars(evidence)
        case _:
            return _counts(evidence, name)
    return _svg(body, f"{name}: {said}", _HEIGHT)


def timeline(series: Sequence[Mapping[str, Any]]) -> str:
    """For each snapshot but the first, the findings since the one before, as stacked bars; and a
    line of how many tools answered.
    """
    width, height, base = 720, 240, 190
    most = max((sum(row["findings"].values()) for row in series[1:]), default=0) or 1
    answered = max(row["answered"] for row in series) or 1
    step = (width - 100) / max(len(series) - 1, 1)
    parts, line = [], []
    for place, row in enumerate(series):
        x, y = 50 + place * step, float(base)
        for level in LEVELS if row["findings"] else ():
            tall = row["findings"][level] / most * (base - 30)
            y -= tall
            wide = min(step * 0.6, 40)
            shape = f'x="{x - wide / 2:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}"'
            said = f"{row['findings'][level]} {level}"
            parts.append(f'<rect class="{level.lower()}" {shape}><title>{said}</title></rect>')
        line.append(f"{x:.1f} {base - row['answered'] / answered * (base - 30):.1f}")
        if place in (0, len(series) - 1) or len(series) <= 8:
            at = day(row["recorded_from"])
            parts.append(f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">{at}</text>')
    parts.append(f'<path class="after line" d="M{"L".join(line)}"/>')
    parts.append(f'<path class="axis" d="M20 {base}H{width - 20}"/>')
    said = f"bars: findings since the snapshot before, at most {most:,}"
    said += f"; line: tools that answered, at most {answered:,}"
    parts.append(f'<text x="20" y="{height - 8}">{said}</text>')
    return _svg("".join(parts), f"Findings over {len(series)} snapshots; {said}", height, width)


def _lines(evidence: Mapping[str, Any]) -> tuple[str, str]:
    values = [*evidence["before"], *evidence["after"]]
    low, high = min(values), max(values)
    dates = evidence["dates"]
    span = (dates[-1] - dates[0]) or 1
    parts = []
    for side in SIDES:
        points = [
            f"{_LEFT + (date - dates[0]) / span * (_WIDTH - 2 * _LEFT):.1f} "
            f"{_BASE - (value - low) / ((high - low) or 1) * (_BASE - 12):.1f}"
            for date, value in zip(dates, evidence[side], strict=True)
        ]
        parts.append(f'<path class="{side} line" d="M{"L".join(points)}"/>')
    first, last = day(dates[0]), day(dates[-1])
    parts += _scale(first, last)
    parts.append(f'<text x="{_LEFT}" y="10">{high:,.6g}</text>')
    return "".join(parts), f"from {first} to {last}, between {low:,.6g} and {high:,.6g}"


def _bars(evidence: Mapping[str, Any]) -> tuple[str, str]:
    count = len(evidence["before"])
    most = max(*evidence["before"], *evidence["after"]) or 1
    wide = (_WIDTH - 2 * _LEFT) / count
    parts = []
    for offset, side in zip((0.08, 0.5), SIDES, strict=True):
        for place, share in enumerate(evidence[side]):
            tall = share / most * (_BASE - 12)
            shape = (
                f'x="{_LEFT + (place + offset) * wide:.1f}" y="{_BASE - tall:.1f}" '
                f'width="{wide * 0.42:.1f}" height="{tall:.1f}"'
            )
            parts.append(f'<rect class="{side}" {shape}/>')
    low, high = f"{evidence['low']:,.6g}", f"{evidence['high']:,.6g}"
    parts += _scale(low, f"{high}{' (log)' if evidence['log'] else ''}")
    return "".join(parts), f"values from {low} to {high}"


def _counts(evidence: Mapping[str, Any], name: str) -> str:
    most = max(*evidence["before"], *evidence["after"], 1)
    parts = []
    for place, text in enumerate(evidence["names"]):
        y = 6 + 30 * place
        said = plain(text if len(text) <= 24 else f"{text[:24]}...")
        parts.append(f'<text x="{_LEFT}" y="{y + 14}">{escape(said)}</text>')
        for offset, side in zip((0, 11), SIDES, strict=True):
            wide = evidence[side][place] / most * 200
            shape = f'x="200" y="{y + offset}" width="{wide:.1f}" height="9"'
            parts.append(f'<rect class="{side}" {shape}/>')
    height = 12 + 30 * len(evidence["names"])
    return _svg("".join(parts), f"{name}: how often each text stands", height)


def _scale(first: str, last: str) -> list[str]:
    return [
        f'<path class="axis" d="M{_LEFT} {_BASE}H{_WIDTH - _LEFT}"/>',
        f'<text x="{_LEFT}" y="{_BASE + 16}">{first}</text>',
        f'<text x="{_WIDTH - _LEFT}" y="{_BASE + 16}" text-anchor="end">{last}</text>',
    ]


def _svg(body: str, label: str, height: int, width: int = _WIDTH) -> str:
    said = escape(plain(label[:300]))
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{said}">{body}</svg>'
