"""Makes text of any origin safe for a terminal or a page.

In text of settings, files, upstreams and models, control characters (C0 and C1, which begin escape
sequences), those that change the writing direction, and Unicode's own line and paragraph separators
are shown as escapes, `\\u001b`. Line breaks and tabs stay.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from gateway.collector import quick_start_and_end

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """`text` with the controlling characters as escapes, and as UTF-8 can hold it."""
    if text.isprintable():
        return text
    return _visible(text.replace("\r\n", "\n")).encode("utf-8", "replace").decode()


def escaped(json: bytes) -> bytes:
    """The same JSON with the controlling characters as escapes."""
    return _visible(json.decode()).encode()


def _visible(text: str) -> str:
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def echo(text: object = "", *, err: bool = False) -> None:
    """Print text of any origin as a line."""
    click.echo(plain(str(text)), err=err)


class Commands(click.Group):
    """Commands whose error messages are printed as `echo` prints text."""

    def __call__(self, *args: Any, **extra: Any) -> Any:
        """Run a command as the whole of this process."""
        with quick_start_and_end():
            return super().__call__(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _plain_errors():
            return super().invoke(ctx)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _plain_errors():
            return super().make_context(*args, **extra)


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        vars(error).update(message=plain(error.message))
        raise
