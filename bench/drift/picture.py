"""Survival curves as SVG: steps with their 95 % intervals as bands."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from markupsafe import Markup

from bench.drift.history import CURVES
from bench.metrics.interval import percent
from gateway.common import drawing as d

_WIDTH, _HEIGHT = 560.0, 280.0

_LABEL = 24.0
"""The least distance between the labels of two curves."""


def of_releases(content: Mapping[str, Any], style: str = "") -> Markup:
    """The curves of the content of `history`, as `curves` draws them."""
    return curves(
        f"Functions of AkShare {content['oldest']} that still exist",
        f"{content['unit']} since {content['oldest']}; a mark for each release read",
        {label: content["survival"][name] for name, label in CURVES.items()},
        "functions",
        [row["time"] for row in content["releases"]],
        content["unit"],
        style,
    )


def picture(content: Mapping[str, Any]) -> str:
    """The curves of the content of `history` as a file of its own."""
    return f"{of_releases(content, d.style())}\n"


def curves(
    title: str,
    since: str,
    survival: Mapping[str, Mapping[str, Any]],
    counts: str,
    times: Sequence[float],
    unit: str,
    style: str = "",
) -> Markup:
    """One or two survival curves, the last one in the accent colour.

    `survival` has the curves by label, as `bench.drift.survival.followed` gives them, with the key
    `counts`. `times` are those at which was looked, in a `unit` that counts `since` something.
    """
    shares = [
        step["interval"][0] if step["interval"] else step["survival"]
        for series in survival.values()
        for step in series["steps"]
    ]
    least = max(ceil(min(shares, default=1.0) * 20 - 1) / 20, 0.0)  # a round share below all
    x, y = d.Scale(0, times[-1], 40, _WIDTH - 140), d.Scale(least, 1, _HEIGHT - 44, 28)
    cut = f"; the other axis begins at {least:.0%}" if least else ""
    parts = [
        d.text((x.start, 14), title),
        *d.y_axis(y, x.start, {share: f"{share:.0%}" for share in y.ticks(6)}, x.end),
        *d.x_axis(x, y.start, x.ticks(8)),
        *(d.line([(x(at), y.start), (x(at), y.start - 5)], "strong-line", 0.7) for at in times),
        d.text(((x.start + x.end) / 2, _HEIGHT - 10), f"{since}{cut}", "soft", "middle"),
    ]
    last = {label: _last(series) for label, series in survival.items()}
    places = d.apart({label: y(share) for label, share in last.items()}, _LABEL)
    paints = ("soft", "accent")[-len(survival) :]
    for (label, series), paint in zip(survival.items(), paints, strict=True):
        parts += _curve(series, x, y, paint)
        beside = x.end + 14
        parts.append(d.text((beside, places[label] + 3), f"{percent(last[label])} {label}", paint))
        ended = f"{len(series['ended']):,} of {series[counts]:,} ended"
        parts.append(d.text((beside, places[label] + 14), ended, "soft"))
    said = "; ".join(
        f"{label}: {percent(last[label])} of {series[counts]:,}"
        for label, series in survival.items()
    )
    text = f"{title}, after {times[-1]:g} {unit}: {said}"
    return d.drawing(parts, _WIDTH, _HEIGHT, text, style)


def _last(series: Mapping[str, Any]) -> float:
    return float(series["steps"][-1]["survival"]) if series["steps"] else 1.0


def _curve(series: Mapping[str, Any], x: d.Scale, y: d.Scale, paint: str) -> list[str]:
    steps = series["steps"]
    edges = [*map(x, (0.0, *(step["time"] for step in steps), series["followed"]))]
    shares = [1.0, *(step["survival"] for step in steps)]
    intervals = [(1.0, 1.0), *(step["interval"] or [step["survival"]] * 2 for step in steps)]
    line, low, high = (
        d.stairs(edges, [*map(y, values)]) for values in (shares, *zip(*intervals, strict=True))
    )
    # The last step may be at the very end, where its band has no width: a bar beside it has.
    beside = edges[-1] + (6 if paint == "soft" else 3)
    return [
        d.line(low + high[::-1], paint, 0, fill=paint),
        d.line(line, paint, 2, dash="6 3" if paint == "soft" else ""),
        d.line([(beside, y(end)) for end in intervals[-1]], paint, 2),
        d.mark(line[-1], paint, size=3),
    ]
