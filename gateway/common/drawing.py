"""Drawings as SVG: scales, axes, lines, bars and marks.

Functions give elements as text, and `drawing` makes a picture of them. Colours are classes, named
by `PAINTS` after the variables of the shared palette: a page has `CSS` for them, and a file of its
own has `style()` within, which follows the reader's light or dark colours. Lengths are in units of
the picture's view box, whose origin is at its upper left.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import pairwise
from math import ceil, floor, log10
from unicodedata import east_asian_width

from markupsafe import Markup

from manifests.common.terminal import plain

PAINTS = ("ink", "soft", "line", "strong-line", "accent", "rest", "bad-ink", "ground")
"""Variables of `palette.css` that are colours of drawings."""

_RULE = ".fill-{0} {{ fill: {1}; }}\n.stroke-{0} {{ stroke: {1}; }}\n"

CSS = "".join(_RULE.format(paint, f"var(--{paint})") for paint in PAINTS)
"""The classes of drawings in a page that has the palette."""

SIZE = 9.5
"""The height of letters."""

SHAPES = {
    "circle": "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0Z",
    "square": "M-.9-.9H.9V.9H-.9Z",
    "triangle": "M0-1.1L1 .8H-1Z",
    "diamond": "M0-1.2L1.2 0L0 1.2L-1.2 0Z",
    "wedge": "M0 1.1L1-.8H-1Z",
    "cross": "M-1 0H1M0-1V1",
    "tick": "M0-1.2V1.2",
}
"""Marks around the origin, about 2 units wide."""

Point = tuple[float, float]


def drawing(
    parts: Iterable[str], width: float, height: float, label: str, style: str = ""
) -> Markup:
    """A picture as an element of a page, or with a `style` as a file. The `label` says in words
    what is to be seen.
    """
    styled = f"<style>{style}</style>" if style else ""
    return Markup(  # noqa: S704 - all texts in it are escaped
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(plain(label))}">{styled}{"".join(parts)}</svg>'
    )


def style() -> str:
    """The style of a picture that is a file of its own."""
    palette = (files("gateway.api") / "static" / "palette.css").read_text(encoding="utf-8")
    colours = re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", palette)
    light, dark = (
        "".join(_RULE.format(paint, pair[scheme]) for paint, *pair in colours if paint in PAINTS)
        for scheme in (0, 1)
    )
    text = "text { font-family: system-ui, sans-serif }"
    return f"{text}\n{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


@dataclass(frozen=True, slots=True)
class Scale:
    """Where values are drawn: `low` at the place `start`, `high` at the place `end`."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = log10(low), log10(high), log10(value)
        return self.start + (self.end - self.start) * (value - low) / ((high - low) or 1)

    def ticks(self, most: int = 5, *, least: float = 0.0) -> dict[float, str]:
        """At most about so many round values with their texts, `least` apart at the least."""
        exact = max((self.high - self.low) / most, least) or 1.0
        power = 10.0 ** floor(log10(exact))
        step = next(power * by for by in (1, 2, 5, 10) if power * by >= 0.999 * exact)
        digits = max(-floor(log10(step) + 1e-9), 0)
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        values = [place * step for place in range(first, last + 1)]
        return {value: f"{value:,.{digits}f}" for value in values}


def width_of(text: str) -> float:
    """About how wide a text is, whatever the font."""
    wide, upper = (sum(map(is_so, text)) for is_so in (_is_wide, str.isupper))
    return SIZE * (0.58 * len(text) + 0.42 * wide + 0.17 * upper)


def _is_wide(character: str) -> bool:
    return east_asian_width(character) in "WF"


def text(at: Point, said: str, paint: str = "ink", anchor: str = "start") -> str:
    """A text whose letters stand on the line of `at`."""
    placed = f'x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="{SIZE}" text-anchor="{anchor}"'
    return f'<text class="fill-{paint}" {placed}>{escape(plain(said))}</text>'


def line(
    points: Iterable[Point], paint: str, width: float = 1.2, *, dash: str = "", fill: str = ""
) -> str:
    """A line through points; with `fill` also the area that it encloses, in a soft shade."""
    way = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    drawn = f'class="stroke-{paint}" stroke-width="{width:g}"'
    drawn += f' stroke-dasharray="{dash}"' if dash else ""
    area = f'<path class="fill-{fill}" fill-opacity="0.2" d="M{way}Z"/>' if fill else ""
    return f'{area}<path {drawn} fill="none" d="M{way}"/>'


def stairs(edges: Sequence[float], values: Sequence[float]) -> list[Point]:
    """The corners of a line that has each value between two edges."""
    return [(x, y) for ends, y in zip(pairwise(edges), values, strict=True) for x in ends]


def bar(corner: Point, width: float, height: float, paint: str) -> str:
    """A filled rectangle with its upper left corner."""
    shape = f'x="{corner[0]:.1f}" y="{corner[1]:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="fill-{paint}" {shape}/>'


def mark(at: Point, paint: str, shape: str = "circle", size: float = 3.2, fill: str = "") -> str:
    """A mark in one colour. Its inside has another with `fill`, which may be `none`."""
    inside = 'fill="none"' if fill == "none" else ""
    classes = f"stroke-{paint}" + ("" if inside else f" fill-{fill or paint}")
    placed = f'transform="translate({at[0]:.1f} {at[1]:.1f}) scale({size:g})"'
    stroke = f'stroke-width="{1 / size:.2f}"'
    return f'<path class="{classes}" {inside} {stroke} {placed} d="{SHAPES[shape]}"/>'


def x_axis(x: Scale, y: float, ticks: Mapping[float, str], top: float | None = None) -> list[str]:
    """A horizontal axis at `y` with texts below it, and a grid up to `top`."""
    parts = []
    for value, said in ticks.items():
        if top is not None:
            parts.append(line([(x(value), y), (x(value), top)], "line", 0.7))
        parts.append(text((x(value), y + SIZE + 4), said, "soft", "middle"))
    return [*parts, line([(x.start, y), (x.end, y)], "strong-line", 0.7)]


def y_axis(y: Scale, x: float, ticks: Mapping[float, str], right: float) -> list[str]:
    """A vertical axis at `x` with texts beside it, and a grid to the `right`."""
    parts = []
    for value, said in ticks.items():
        parts.append(line([(x, y(value)), (right, y(value))], "line", 0.7))
        parts.append(text((x - 4, y(value) + SIZE / 3), said, "ink", "end"))
    return [*parts, line([(x, y.start), (x, y.end)], "strong-line", 0.7)]


def names(said: Sequence[str], top: float, step: float, most: float) -> tuple[float, list[str]]:
    """Names of rows below each other, `step` apart, and how wide they are: at most `most`."""
    cut = [
        name if width_of(name) <= most else f"{name[: int(most / SIZE / 0.58) - 1]}…"
        for name in said
    ]
    width = max(map(width_of, cut), default=0.0)
    places = [(width, top + step * (place + 0.5) + SIZE / 3) for place in range(len(cut))]
    return width, [text(at, name, "ink", "end") for at, name in zip(places, cut, strict=True)]


def apart(ends: Mapping[str, float], least: float) -> dict[str, float]:
    """Where the names of lines stand that end at these heights: from above, `least` apart."""
    placed, free = dict[str, float](), float("-inf")
    for name, end in sorted(ends.items(), key=lambda item: item[1]):
        placed[name] = max(end, free)
        free = placed[name] + least
    return placed


def legend(
    entries: Mapping[str, Callable[[Point], str]], at: Point, width: float
) -> tuple[float, list[str]]:
    """What marks mean: each entry draws its mark around a place. The height, and the elements."""
    x, y, parts = *at, list[str]()
    for name, draw in entries.items():
        needed = width_of(name) + 24
        if x > at[0] and x + needed > at[0] + width:
            x, y = at[0], y + SIZE + 5
        parts += [draw((x + 5, y)), text((x + 13, y + SIZE / 3), name)]
        x += needed
    return y - at[1] + SIZE + 5, parts
