"""The survival curves as SVG: steps with their 95 % intervals as bands, and labelled axes.

Colours are classes. A page brings its own style for them; a file of its own gets `_STYLE`, which
follows the reader's light or dark colours.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any, Final, NamedTuple

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


def of_releases(content: Mapping[str, Any], style: str = "") -> str:
    """The curves of the content of `history`, as `curves` draws them."""
    return curves(
        f"Functions of AkShare {content['oldest']} that still exist",
        f"{content['unit']} since {content['oldest']}; a mark for each release read",
        {label: (name, content["survival"][name]) for name, label in CURVES.items()},
        "functions",
        [row["time"] for row in content["releases"]],
        content["unit"],
        style,
    )


def picture(content: Mapping[str, Any]) -> str:
    """The curves of the content of `history` as a file of its own."""
    return of_releases(content, _STYLE) + "\n"


def curves(
    title: str,
    since: str,
    survival: Mapping[str, tuple[str, Mapping[str, Any]]],
    counts: str,
    times: Sequence[float],
    unit: str,
    style: str = "",
) -> str:
    """Survival curves as an element of a page, which has the style of their classes.

    `survival` has by label the class of a curve's colours, `all` or `catalogue`, and the curve as
    `bench.drift.survival.followed` gives it, with the key `counts`. `times` are those at which was
    looked, in a `unit` that counts `since` something.
    """
    scale = _Scale(times[-1], _least([series for _, series in survival.values()]))
    parts = [f'<text class="title" x="{_LEFT}" y="18">{escape(title)}</text>']
    parts += _axes(scale, since, times)
    for name, series in survival.values():
        parts += _curve(name, series, scale)
    parts += _labels(survival, counts, scale)
    said = "; ".join(
        f"{label}: {percent(_last(series))} of {series[counts]:,}"
        for label, (_, series) in survival.items()
    )
    label = escape(f"{title}, after {scale.longest:g} {unit}: {said}")
    styled = f"<style>{style}</style>" if style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{label}">{styled}{"".join(parts)}</svg>'
    )


class _Scale(NamedTuple):
    """Where times and shares are drawn. The axis of shares begins at `least`."""

    longest: float
    least: float

    def x(self, time: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * time / (self.longest or 1)

    def y(self, share: float) -> float:
        part = (share - self.least) / (1 - self.least)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * part


def _axes(scale: _Scale, since: str, marks: Sequence[float]) -> Iterator[str]:
    """Grid, ticks and labels, and a mark on the axis for each time at which was looked."""
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    step = _step(1 - scale.least)
    for place in range(round((1 - scale.least) / step) + 1):
        share = 1 - place * step
        y = scale.y(share)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
    yield f'<path class="axis" d="M{_LEFT} {bottom}H{right}"/>'
    for time in marks:
        yield f'<path class="axis" d="M{scale.x(time):.1f} {bottom}v-6"/>'
    step = _step(scale.longest)
    for place in range(floor(scale.longest / step) + 1):
        x = f"{scale.x(place * step):.1f}"
        yield f'<path class="axis" d="M{x} {bottom}v5"/>'
        yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{place * step:g}</text>'
    cut = "" if scale.least == 0 else f"; the other axis begins at {scale.least:.0%}"
    middle = f'x="{(_LEFT + right) / 2}" y="{_HEIGHT - 14}" text-anchor="middle"'
    yield f"<text {middle}>{escape(since)}{cut}</text>"


def _step(span: float) -> float:
    """A round distance between ticks, so that there are about five to ten."""
    exact = (span or 1) / 6
    power = 10.0 ** floor(log10(exact))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= exact * 0.999)


def _least(several: Sequence[Mapping[str, Any]]) -> float:
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


def _labels(
    survival: Mapping[str, tuple[str, Mapping[str, Any]]], counts: str, scale: _Scale
) -> Iterator[str]:
    """The name and the last share of each curve beside its end, moved apart if they overlap."""
    x, next_free = _WIDTH - _RIGHT + 14, 0.0
    for label, (name, series) in sorted(survival.items(), key=lambda item: -_last(item[1][1])):
        y = max(scale.y(_last(series)), next_free)
        next_free = y + _LABEL
        share = f"{percent(_last(series))} {label}"
        yield f'<text class="{name} label" x="{x}" y="{y + 4:.1f}">{share}</text>'
        text = f"{len(series['ended']):,} of {series[counts]:,} ended"
        yield f'<text x="{x}" y="{y + 18:.1f}">{text}</text>'
