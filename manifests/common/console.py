"""Tables and live views on a terminal: the rules of `manifests/common/terminal.py`, for rich."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from manifests.common.terminal import plain


class PlainConsole(Console):
    """A console for text of any origin: nothing in the text controls the terminal. Markup in it
    counts only if `markup` is set.

    Texts are made plain before they are laid out, so columns and lines keep their layout.
    """

    def __init__(self, *, narrowest: int = 0, markup: bool = False, **options: Any) -> None:
        super().__init__(markup=markup, emoji=False, highlight=False, **options)
        if narrowest > self.width:
            self.width = narrowest

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
