"""Drawings of a field before and after, and of a series of snapshots, as SVG with classes."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from bench.drift.finding import LEVELS
from bench.drift.snapshots.time_checks import day
from manifests.common.terminal import plain

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
