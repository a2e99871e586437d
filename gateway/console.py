"""Tables and live views on a terminal: as `gateway/terminal.py` says, for rich."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from gateway.terminal import plain


class PlainConsole(Console):
    """Takes text of any origin: nothing in it steers the terminal. Markup in it counts only where
    that is asked for.

    What it leaves out has no width, so that columns and lines stay what they were laid out to be.
    """

    def __init__(self, *, narrowest: int = 0, markup: bool = False, **options: Any) -> None:
        super().__init__(markup=markup, emoji=False, highlight=False, **options)
        if narrowest > self.width:
            self.width = narrowest

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)
