"""The figures as a picture: the share that is kept against the budget, of ours and the baselines.

It is written as SVG without a library, because it stands alone and has to follow the reader's light
or dark colours by itself.
"""

from collections.abc import Mapping
from html import escape
from math import log10
from typing import Any

from bench.compression.measure import METHODS, OURS
from bench.metrics.interval import percent

_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 132, 34, 46
_LABEL = 13
"""The least distance between the labels of two lines."""

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #57606a }
.title { font-size: 13px; fill: #1f2328 }
.grid { stroke: #d8dee4 }
.rest { stroke: #8c959f; fill: none; stroke-width: 1.5 }
.ours { stroke: #0969da; fill: none; stroke-width: 2.5 }
.dot { fill: #0969da; stroke: none }
.named { fill: #0969da; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 } .title { fill: #f0f6fc } .grid { stroke: #3d444d }
  .rest { stroke: #7d8590 } .ours { stroke: #4493f8 } .dot, .named { fill: #4493f8 }
}
"""
_DASHES = ("", "6 3", "2 3", "8 3 2 3")


def picture(content: Mapping[str, Any]) -> str:
    """The SVG of the figures of `measure`."""
    kept = content["kept"]
    limits = [int(limit) for limit in kept[OURS]]
    title = f"Questions whose cells are all kept, of {content['cases']} ({content['part']} part)"
    parts = [f'<text class="title" x="{_LEFT}" y="18">{escape(title)}</text>']
    for tick in (0, 25, 50, 75, 100):
        y = _y(tick / 100)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick} %</text>')
    for limit in limits:
        x, y = _x(limit, limits), _HEIGHT - _BOTTOM + 18
        parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{limit:,}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    label = f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">budget in tokens</text>'
    parts.append(label)
    dashes = dict(zip(METHODS[1:], _DASHES, strict=True))
    for method in reversed(METHODS):
        parts += _line(kept[method], limits, dashes.get(method))
    parts += _labels({method: _shares(kept[method])[-1] for method in METHODS})
    said = "; ".join(f"{name} {_said(kept[name])}" for name in METHODS)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(f"{title}, by budget in tokens: {said}")}">'
        f"<style>{_STYLE}</style>{''.join(parts)}</svg>\n"
    )


def _shares(kept: Mapping[str, Any]) -> list[float]:
    return [rates["all"]["share"] or 0.0 for rates in kept.values()]


def _said(kept: Mapping[str, Any]) -> str:
    return ", ".join(f"{limit}: {percent(rates['all']['share'])}" for limit, rates in kept.items())


def _line(kept: Mapping[str, Any], limits: list[int], dash: str | None) -> list[str]:
    """A line; of ours, which has no dash, with the intervals."""
    places = [(_x(limit, limits), _y(at)) for limit, at in zip(limits, _shares(kept), strict=True)]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    if dash is not None:
        drawn = f' stroke-dasharray="{dash}"' if dash else ""
        return [f'<path class="rest" d="{path}"{drawn}/>']
    parts = [f'<path class="ours" d="{path}"/>']
    for (x, y), rates in zip(places, kept.values(), strict=True):
        low, high = rates["all"]["interval"] or (0, 0)
        parts.append(f'<path class="ours" d="M{x:.1f} {_y(low):.1f}V{_y(high):.1f}"/>')
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
    return parts


def _labels(ends: Mapping[str, float]) -> list[str]:
    """The names of the lines at their ends, moved apart where they would overlap."""
    parts, last = list[str](), -1e9
    for method, end in sorted(ends.items(), key=lambda item: -item[1]):
        last = max(_y(end), last + _LABEL)
        name = ' class="named"' if method == OURS else ""
        x = _WIDTH - _RIGHT + 10
        parts.append(f'<text{name} x="{x}" y="{last + 4:.1f}">{escape(method)}</text>')
    return parts


def _x(limit: int, limits: list[int]) -> float:
    span = log10(limits[-1] / limits[0]) or 1
    return _LEFT + 12 + (_WIDTH - _LEFT - _RIGHT - 24) * log10(limit / limits[0]) / span


def _y(part: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * part
