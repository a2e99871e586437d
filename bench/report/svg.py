"""Turns matplotlib's SVG into an element of a page.

Styles become classes, so that the figure follows the page's light and dark colours and its
Content-Security-Policy. Only ids that are used remain. Figures are drawn in the colours of `PAINT`,
each of which is replaced by a class of the page's CSS.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAINT: Final = {
    "ink": "#010101",
    "soft": "#010102",
    "line": "#010103",
    "accent": "#010104",
    "rest": "#010105",
    "bad": "#010106",
    "ground": "#010107",
}

_CLASSES = {colour: name for name, colour in PAINT.items()}
_PAINTED = ("fill", "stroke")
_KEPT = (
    *("stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "text-anchor"),
    *("opacity", "fill-opacity", "stroke-opacity"),
)
_SIZE = re.compile(r"([\d.]+)px")
_USED = re.compile(r"#([\w.-]+)")


def svg(figure: "Figure", name: str, text: str) -> Markup:
    """A figure as an element. `name` is unique in the page, `text` describes the figure."""
    import matplotlib as mpl

    drawn = BytesIO()
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(drawn.getvalue())  # noqa: S314 - written by matplotlib
    for removed in ("metadata", "style"):
        for parent in list(root.iter()):
            for child in [c for c in parent if _local(c.tag) == removed]:
                parent.remove(child)
    used = set(_references(root))
    for element in root.iter():
        _clean(element, used)
    size = root.get("viewBox", "")
    root.attrib.clear()
    root.attrib |= {"viewBox": size, "role": "img", "aria-label": text}
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - as above


def _references(root: ElementTree.Element) -> Iterator[str]:
    for element in root.iter():
        for value in element.attrib.values():
            yield from _USED.findall(value)


def _clean(element: ElementTree.Element, used: set[str]) -> None:
    element.tag = _local(element.tag)
    given, classes = {_local(name): value for name, value in element.attrib.items()}, []
    for declaration in given.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name in _PAINTED and value in _CLASSES:
            classes.append(f"{name}-{_CLASSES[value]}")
        elif name in _PAINTED or name in _KEPT:
            given[name] = value
        elif name in ("font", "font-size") and (size := _SIZE.search(value)):
            given["font-size"] = size.group(1)  # the page sets the font family
    if given.get("id") not in used:
        given.pop("id", None)
    if classes:
        given["class"] = " ".join(classes)
    element.attrib.clear()
    element.attrib |= given


def _local(name: str) -> str:
    return name.rpartition("}")[2]
