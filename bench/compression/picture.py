"""The figures as a picture: the share that is kept against the budget, of ours and the baselines.

It stands alone, so it follows the reader's light or dark colours by itself.
"""

from collections.abc import Mapping
from typing import Any

from bench import drawing as d
from bench.compression.measure import METHODS, OURS
from bench.metrics.interval import percent

_WIDTH, _HEIGHT = 500, 266
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 396, 26, 230
_DASHES = ("", "5 2.5", "1.5 2.5", "6 2.5 1.5 2.5")


def picture(content: Mapping[str, Any]) -> str:
    """The SVG of the figures of `measure`."""
    kept = content["kept"]
    limits = [int(limit) for limit in kept[OURS]]
    x = d.Scale(limits[0], limits[-1], _LEFT + 10, _RIGHT - 10, is_log=True)
    y = d.Scale(0, 1, _BOTTOM, _TOP)
    title = f"Questions whose cells are all kept, of {content['cases']} ({content['part']} part)"
    parts = [
        d.text((_LEFT, 14), title),
        *d.y_axis(y, _LEFT, {tick / 100: f"{tick} %" for tick in (0, 25, 50, 75, 100)}, _RIGHT),
        *d.x_axis(x, _BOTTOM, {float(limit): f"{limit:,}" for limit in limits}),
        d.text(((_LEFT + _RIGHT) / 2, _HEIGHT - 6), "budget in tokens", "soft", "middle"),
    ]
    ends = {}
    for method, dash in zip(reversed(METHODS), (*reversed(_DASHES), ""), strict=True):
        rates = [rate["all"] for rate in kept[method].values()]
        points = [(x(limit), y(r["share"] or 0.0)) for limit, r in zip(limits, rates, strict=True)]
        is_ours = method == OURS
        parts.append(
            d.line(points, "accent" if is_ours else "strong-line", 1.2 + is_ours, dash=dash)
        )
        for (place, at), rate in zip(points, rates, strict=True) if is_ours else ():
            low, high = rate["interval"] or (0, 0)
            parts.append(d.line([(place, y(low)), (place, y(high))], "accent", 2))
            parts.append(d.mark((place, at), "accent", size=2.8))
        ends[method] = points[-1][1]
    for method, at in d.apart({name: ends[name] for name in METHODS}, d.SIZE + 1).items():
        paint = "accent" if method == OURS else "soft"
        parts.append(d.text((_RIGHT + 8, at + d.SIZE / 3), method, paint))
    said = "; ".join(f"{name} {_said(kept[name])}" for name in METHODS)
    label = f"{title}, by budget in tokens: {said}"
    return f"{d.drawing(parts, _WIDTH, _HEIGHT, label, d.style())}\n"


def _said(kept: Mapping[str, Any]) -> str:
    return ", ".join(f"{limit}: {percent(rate['all']['share'])}" for limit, rate in kept.items())
