"""Makes text of any origin safe for a terminal or a page.

In text of settings, files, upstreams and models, control characters (C0 and C1, which begin escape
sequences), those that change the writing direction, and Unicode's own line and paragraph separators
are shown as escapes, `\\u001b`. Line breaks and tabs stay.
"""

import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from manifests.common.collector import quick_start_and_end

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


STARTED = 8
"""Threads that a command which opens a gateway runs at once. libuv aborts the process if its own
four, which it starts late, can't be started.
"""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Why a disk takes no more. Commands handle such errors of the files that they write."""


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


class LackError(Exception):
    """The process lacks what it works with: the system gives it no more threads, processes or
    memory, or other code in it closed its files or cancelled its tasks.
    """


class Commands(click.Group):
    """Commands whose error messages are printed as `echo` prints text. Ctrl-C ends each with the
    exit code 130, and a `LackError` with 1.
    """

    def __call__(self, *args: Any, **extra: Any) -> Any:
        """Run a command as the whole of this process."""
        with quick_start_and_end():
            return super().__call__(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _plain_errors(), _told_output(), told_lack():
                return super().invoke(ctx)
        except KeyboardInterrupt:  # before the command could say what becomes of its work
            echo(f"{ctx.find_root().info_name}: interrupted", err=True)
            sys.exit(128 + signal.SIGINT)
        except LackError as error:
            echo(f"{ctx.find_root().info_name}: {error}", err=True)
            sys.exit(1)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _plain_errors(), _told_output():
            return super().make_context(*args, **extra)


def check_threads() -> None:
    """Raises `LackError` unless this process can start `STARTED` threads."""
    over, started = threading.Event(), list[threading.Thread]()
    try:
        with told_lack():
            for _ in range(STARTED):
                thread = threading.Thread(target=over.wait)
                thread.start()
                started.append(thread)
    finally:
        over.set()
        for thread in started:
            thread.join()


@contextmanager
def told_lack() -> Iterator[None]:
    """Make a `LackError` of what Python raises where the system gives no more."""
    try:
        yield
    except Exception as error:
        if (lack := lack_of(error)) is None:
            raise
        raise LackError(lack) from error


def lack_of(error: BaseException) -> str | None:
    """What was missing, if an error says that."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(lack_of, error.exceptions)), None)
    said = str(error)
    is_forking = isinstance(error, BlockingIOError) and not hasattr(error, "characters_written")
    if is_forking or (isinstance(error, RuntimeError) and "can't start new thread" in said):
        return (
            "no more threads or processes can be started: raise the limit on them (ulimit -u, or "
            "the pids of the container) or on memory (ulimit -v)"
        )
    is_loading = isinstance(error, ImportError | OSError) and _NO_ROOM.search(said)
    if is_loading or isinstance(error, MemoryError):
        return "no memory is left: raise the limit on it (ulimit -v, or that of the container)"
    return None


_NO_ROOM = re.compile("failed to map segment|[Cc]annot allocate memory")
"""What the loader of shared objects says, and the system (ENOMEM)."""


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        vars(error).update(message=plain(error.message))
        raise


@contextmanager
def _told_output() -> Iterator[None]:
    """Make a standard output that can't be written, as on a full disk, an error of the command."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        with suppress(OSError):  # what the buffer holds would be a second error at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        text = f"standard output can't be written: {error.strerror}"
        raise click.ClickException(text) from error
