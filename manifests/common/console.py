"""Tables and live views on a terminal: the rules of `manifests/common/terminal.py`, for rich."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from manifests.common.terminal import plain

UNBOUNDED = 100_000
"""Columns of an output that is no terminal: nothing wraps there, and each row is one line."""


class PlainConsole(Console):
    """A console for text of any origin: nothing in the text controls the terminal. Markup in it
    counts only if `markup` is set. It has at least `narrowest` columns on a terminal, and
    `UNBOUNDED` elsewhere. `NO_COLOR` and `TERM=dumb` count as rich has them.

    Texts are made plain before they are laid out, so columns and lines keep their layout.
    """

    def __init__(self, *, narrowest: int = 0, markup: bool = False, **options: Any) -> None:
        super().__init__(markup=markup, emoji=False, highlight=False, **options)
        if "width" not in options:
            self.width = max(narrowest, self.width) if self.is_terminal else UNBOUNDED

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(plain(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)
