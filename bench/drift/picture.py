"""The survival curves as SVG: steps with their 95 % intervals as bands, and labelled axes.

Colours are classes. A page brings its own style for them; a file of its own gets `_STYLE`, which
follows the reader's light or dark colours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any, Final

from bench.drift.history import CURVES
from bench.metrics.interval import percent

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 178, 36, 56
_LABEL = 32
"""The least distance between the labels of two curves."""

_BARS: Final = {"all": 6, "catalogue": 2.5}
"""How far beside the end of a curve the bar of its last interval stands."""

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #57606a }
.title { font-size: 13px; fill: #1f2328 }
.grid { stroke: #d8dee4 } .axis { stroke: #8c959f }
.curve { fill: none; stroke-width: 2 }
.all.curve { stroke: #6e7781; stroke-dasharray: 6 3 } .all.band { fill: #6e7781 }
.catalogue.curve { stroke: #0969da } .catalogue.band { fill: #0969da }
.band { stroke: none; opacity: 0.14 } .bar { stroke-width: 3; opacity: 0.6 }
.all.bar { stroke: #6e7781 } .all.dot { fill: #6e7781 }
.catalogue.bar { stroke: #0969da } .catalogue.dot { fill: #0969da }
.catalogue.label { fill: #0969da }
.label { font-weight: 600 }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 } .title { fill: #f0f6fc } .grid { stroke: #3d444d }
  .axis { stroke: #7d8590 }
  .all.curve { stroke: #9198a1 } .all.band { fill: #9198a1 }
  .catalogue.curve { stroke: #4493f8 } .catalogue.band { fill: #4493f8 }
  .all.bar { stroke: #9198a1 } .all.dot { fill: #9198a1 }
  .catalogue.bar { stroke: #4493f8 } .catalogue.dot, .catalogue.label { fill: #4493f8 }
}
"""


@dataclass(frozen=True, slots=True)
class Curves:
    """Survival curves to draw: their title, what time counts since, the label of each, and the
    times at which was looked. A curve's name is the class of its colours, `all` or `catalogue`.
    """

    title: str
    since: str
    survival: Mapping[str, Mapping[str, Any]]
    labels: Mapping[str, str]
    counts: str
    times: Sequence[float]
    unit: str


def of_releases(content: Mapping[str, Any]) -> Curves:
    """The curves of the content of `history`."""
    return Curves(
        f"Functions of AkShare {content['oldest']} that still exist",
        f"{content['unit']} since {content['oldest']}; a mark for each release read",
        {name: content["survival"][name] for name in CURVES},
        CURVES,
        "functions",
        [row["time"] for row in content["releases"]],
        content["unit"],
    )


def picture(content: Mapping[str, Any]) -> str:
    """The curves of the content of `history` as a file of its own."""
    return drawing(of_releases(content), _STYLE) + "\n"


def drawing(curves: Curves, style: str = "") -> str:
    """The curves as an element of a page, which has the style of their classes."""
    survival = curves.survival
    scale = _Scale(curves.times[-1], _least(survival.values()))
    parts = [f'<text class="title" x="{_LEFT}" y="18">{escape(curves.title)}</text>']
    parts += scale.axes(curves.since, curves.times)
    for name, series in survival.items():
        parts += _curve(name, series, scale)
    parts += _labels(curves, scale)
    said = "; ".join(
        f"{curves.labels[name]}: {percent(_last(series))} of {series[curves.counts]:,}"
        for name, series in survival.items()
    )
    label = escape(f"{curves.title}, after {scale.longest:g} {curves.unit}: {said}")
    styled = f"<style>{style}</style>" if style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{label}">{styled}{"".join(parts)}</svg>'
    )


class _Scale:
    """Where times and shares are drawn. The axis of shares begins at `least`."""

    def __init__(self, longest: float, least: float) -> None:
        self.longest, self.least = longest, least

    def x(self, time: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * time / (self.longest or 1)

    def y(self, share: float) -> float:
        part = (share - self.least) / (1 - self.least)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * part

    def axes(self, since: str, marks: Sequence[float]) -> list[str]:
        """Grid, ticks and labels, and a mark on the axis for each time at which was looked."""
        parts = []
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        step = _step(1 - self.least)
        for place in range(round((1 - self.least) / step) + 1):
            share = 1 - place * step
            y = self.y(share)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
            text = f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
            parts.append(text)
        parts.append(f'<path class="axis" d="M{_LEFT} {bottom}H{right}"/>')
        parts += [f'<path class="axis" d="M{self.x(time):.1f} {bottom}v-6"/>' for time in marks]
        step = _step(self.longest)
        for place in range(floor(self.longest / step) + 1):
            time = place * step
            parts.append(f'<path class="axis" d="M{self.x(time):.1f} {bottom}v5"/>')
            text = f'<text x="{self.x(time):.1f}" y="{bottom + 18}" text-anchor="middle">'
            parts.append(f"{text}{time:g}</text>")
        middle = (_LEFT + right) / 2
        cut = "" if self.least == 0 else f"; the other axis begins at {self.least:.0%}"
        text = f'<text x="{middle}" y="{_HEIGHT - 14}" text-anchor="middle">'
        parts.append(f"{text}{escape(since)}{cut}</text>")
        return parts


def _step(span: float) -> float:
    """A round distance between ticks, so that there are about five to ten."""
    exact = (span or 1) / 6
    power = 10.0 ** floor(log10(exact))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= exact * 0.999)


def _least(several: Any) -> float:
    """The share at which the axis begins: a round one below all intervals."""
    shares = [
        step["interval"][0] if step["interval"] else step["survival"]
        for series in several
        for step in series["steps"]
    ]
    missing = 1 - min(shares, default=1.0)
    step = _step(max(missing, 0.05))
    return max(0.0, 1 - ceil(missing / step + 1e-9) * step) if missing else 0.95


def _last(series: Mapping[str, Any]) -> float:
    last: float = series["steps"][-1]["survival"] if series["steps"] else 1.0
    return last


def _curve(name: str, series: Mapping[str, Any], scale: _Scale) -> list[str]:
    steps = series["steps"]
    times = [0.0, *(step["time"] for step in steps), series["followed"]]
    shares = [1.0, *(step["survival"] for step in steps)]
    intervals = [(1.0, 1.0), *(step["interval"] or [step["survival"]] * 2 for step in steps)]
    line = _stairs(times, shares, scale)
    low = _stairs(times, [interval[0] for interval in intervals], scale)
    high = _stairs(times, [interval[1] for interval in intervals], scale)
    band = "L".join(low + high[::-1])
    # The last step may be at the very end, where its band has no width.
    end, (least, most) = scale.x(times[-1]), intervals[-1]
    beside = end + _BARS[name]
    bar = f"M{beside:.1f} {scale.y(least):.1f}V{scale.y(most):.1f}"
    return [
        f'<path class="{name} band" d="M{band}Z"/>',
        f'<path class="{name} curve" d="M{"L".join(line)}"/>',
        f'<path class="{name} bar" d="{bar}"/>',
        f'<circle class="{name} dot" cx="{end:.1f}" cy="{scale.y(shares[-1]):.1f}" r="3"/>',
    ]


def _stairs(times: Sequence[float], shares: Sequence[float], scale: _Scale) -> list[str]:
    """The corners of a line that is level from each time to the next."""
    return [
        f"{scale.x(time):.1f} {scale.y(share):.1f}"
        for (start, end), share in zip(pairwise(times), shares, strict=True)
        for time in (start, end)
    ]


def _labels(curves: Curves, scale: _Scale) -> list[str]:
    """The name and the last share of each curve beside its end, moved apart if they overlap."""
    parts, next_free = list[str](), 0.0
    for name, series in sorted(curves.survival.items(), key=lambda item: -_last(item[1])):
        y = max(scale.y(_last(series)), next_free)
        next_free = y + _LABEL
        x = _WIDTH - _RIGHT + 14
        ended = len(series["ended"])
        share = f"{percent(_last(series))} {curves.labels[name]}"
        parts.append(f'<text class="{name} label" x="{x}" y="{y + 4:.1f}">{share}</text>')
        text = f"{ended:,} of {series[curves.counts]:,} ended"
        parts.append(f'<text x="{x}" y="{y + 18:.1f}">{text}</text>')
    return parts
