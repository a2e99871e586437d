"""Code that the commands of `finport` and `finbench` share: options, settings, running."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, cast

import click
import orjson

from manifests.common.terminal import LackError, check_threads, escaped, told_lack

if TYPE_CHECKING:
    from gateway.settings import GatewaySettings

Command = Callable[..., None]


def echo_json(value: object) -> None:
    """Print a value as indented JSON, in UTF-8 whatever the locale."""
    sys.stdout.buffer.write(escaped(orjson.dumps(value, option=orjson.OPT_INDENT_2)) + b"\n")
    sys.stdout.buffer.flush()


def print_table(
    rows: Sequence[Mapping[str, object]], *, width: int = 120, wrapped: str | None = None
) -> None:
    """Print a table of at least `width` columns of the terminal, so that no cell is cut. If one
    column is `wrapped`, the others stay on one line. Numbers stand to the right.
    """
    from rich.table import Table
    from rich.text import Text

    from manifests.common.console import PlainConsole

    table = Table(box=None)
    for name in rows[0]:
        are_numbers = all(isinstance(row[name], int | float | None) for row in rows)
        side: Literal["left", "right"] = "right" if are_numbers else "left"
        table.add_column(name, side, no_wrap=wrapped not in (None, name), overflow="fold")
    for row in rows:
        cells = (f"{one:,}" if type(one) is int else one for one in row.values())
        table.add_row(*(c if isinstance(c, Text) else "" if c is None else str(c) for c in cells))
    PlainConsole(narrowest=width).print(table)


def run(main: Callable[[], Coroutine[Any, Any, int]], *, interrupted: str = "") -> None:
    """Run a command's coroutine as `ended` does, and exit with its code."""
    sys.exit(ended(main, interrupted=interrupted))


def ended(
    main: Callable[[], Coroutine[Any, Any, int]], *, interrupted: str | Callable[[], str] = ""
) -> int:
    """Run a coroutine of a command on uvloop and return the exit code that it returns, or that of
    the signal that ended it. Only a signal is an interruption: where other code cancels the
    tasks of the command, that is a `LackError`.

    The first Ctrl-C cancels the coroutine, the second ends the process. With `interrupted`, which
    is printed at the first, SIGTERM does the same. A setting that turns out to be wrong when the
    gateway opens is a usage error. Raises `LackError`, also where the event loop can't end.
    """
    import uvloop

    from gateway.cli.loop import CommandLoop
    from gateway.settings_file import SettingsError

    # A shell ignores Ctrl-C for its background jobs, and only the main thread handles signals.
    in_main = threading.current_thread() is threading.main_thread()
    defaults: dict[signal.Signals, object] = {signal.SIGINT: signal.default_int_handler}
    if interrupted:
        defaults[signal.SIGTERM] = signal.SIG_DFL
    handled = [n for n, default in defaults.items() if in_main and signal.getsignal(n) is default]
    ended_by: list[int] = []
    own: BaseException | None = None

    async def cancellable() -> int:
        nonlocal own
        loop = cast(CommandLoop, asyncio.get_running_loop())
        try:
            with _cancelled_by(handled, interrupted, ended_by), loop.held():
                return await main()
        except asyncio.CancelledError as error:
            if ended_by:
                raise
            text = "other code in the process, as that of an agent, cancelled the command's tasks"
            raise LackError(text) from error
        except BaseException as error:
            own = error
            raise

    check_threads()
    try:
        with told_lack():
            return uvloop.run(cancellable(), loop_factory=CommandLoop)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 128 + next(iter(ended_by), signal.SIGINT)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    except Exception as error:
        if error is own or isinstance(error, LackError):
            raise
        text = "the event loop could not end: other code may have closed its files"
        raise LackError(text) from error


@contextmanager
def told_abort(text: Callable[[], str]) -> Iterator[None]:
    """Where native code aborts the process, print `text` and exit with 1. libuv does so if other
    code closed the files of the event loop; no handler in Python would run then.
    """
    import ctypes

    leave = os._exit  # not that of a `CommandLoop`, which refuses

    def tell(_: int) -> None:
        with suppress(OSError):
            os.write(2, f"{text()}\n".encode())
        leave(1)

    libc, handler = ctypes.CDLL(None), ctypes.CFUNCTYPE(None, ctypes.c_int)(tell)
    libc.signal.restype = ctypes.c_void_p
    before = libc.signal(signal.SIGABRT, handler)
    try:
        yield
    finally:
        libc.signal(signal.SIGABRT, ctypes.c_void_p(before))


@contextmanager
def _cancelled_by(
    numbers: Sequence[signal.Signals], text: str | Callable[[], str], ended_by: list[int]
) -> Iterator[None]:
    """Let the first of these signals cancel the current task, and a second one end the process. The
    number of the first is put into `ended_by`.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()

    def cancel(number: int) -> None:
        ended_by.append(number)
        again = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        ending = text() if callable(text) else text
        said = f"{ending} {again} again ends it at once\n".encode() if ending else b""
        for descriptor, told in ((1, _SHOW_CURSOR), (2, said)):
            with suppress(OSError):
                if told and (descriptor == 2 or os.isatty(descriptor)):
                    os.write(descriptor, told)  # `print` can't be entered again by a signal handler
        if task is not None:  # not here: the handler may interrupt code of asyncio's own
            loop.call_soon_threadsafe(task.cancel)

    with at_first_signal(cancel, *numbers):
        yield


@contextmanager
def at_first_signal(then: Callable[[int], object], *numbers: signal.Signals) -> Iterator[None]:
    """Call `then` with its number in the signal handler of the first of these signals. A second one
    has the default action, even while code blocks the event loop.
    """
    loop = asyncio.get_running_loop()

    def handle(number: int, _: object) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_DFL)
        then(number)
        loop.call_soon_threadsafe(lambda: None)  # wakes the loop

    before = {number: signal.signal(number, handle) for number in numbers}
    for number in numbers:
        _reset_by_first_signal(number)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM end what is done within as Ctrl-C does: by a `KeyboardInterrupt`, or as `ended`
    says where that runs a coroutine within.
    """
    told: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        told.append(number)
        of_ctrl_c = signal.getsignal(signal.SIGINT)
        if callable(of_ctrl_c):
            of_ctrl_c(signal.SIGINT, frame)
        else:  # a shell ignores Ctrl-C for its background jobs
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*told[:1]) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def exit_code_of(interrupt: KeyboardInterrupt) -> int:
    """The exit code of a command that Ctrl-C ended, or SIGTERM within `sigterm_interrupts`."""
    return 128 + int(interrupt.args[0] if interrupt.args else signal.SIGINT)


_SHOW_CURSOR = b"" if os.environ.get("TERM") == "dumb" else b"\x1b[?25h"
"""The live view hides the cursor, and can't show it again if the process is killed."""


def _reset_by_first_signal(number: int) -> None:
    """Let the system restore the default action when the signal comes. While code in C runs, no
    handler in Python can do that.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    with suppress(AttributeError):  # the functions of glibc
        for function in (libc.signal, libc.sysv_signal):
            function.argtypes, function.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
        libc.sysv_signal(number, libc.signal(number, None))


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several decorators as one, in the order in which `--help` shows them."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


upstream = click.option(
    "--upstream",
    type=click.Choice(["live", "simulated"]),
    help="The real upstreams, or a local simulation of them.",
)

simulation = together(
    upstream,
    click.option("--simulated-latency-s", type=float, help="Seconds before each answer."),
    click.option("--simulated-failure-rate", type=float, help="Share of requests that get a 503."),
    click.option("--simulated-hang-rate", type=float, help="Share of requests that get no answer."),
    click.option("--simulated-seed", type=int, help="Seed of the simulated market."),
    click.option("--simulated-now", metavar="DATE", help="Its last day. Default: 2026-06-30."),
    click.option("--simulated-lies", type=float, help="Share of answers with wrong content."),
    click.option("--simulated-lie-kinds", metavar="KIND,...", help="Of which kinds. Default: any."),
)
"""The options of commands that may use the simulated upstream."""


class OutPath(click.Path):
    """The path of something that a command writes."""

    def __init__(self, *, dir_okay: bool = True) -> None:
        super().__init__(dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty; name what to write", param, ctx)
        return super().convert(value, param, ctx)


force = click.option("--force", is_flag=True, help="Replace an existing --out.")


@contextmanager
def wrong_usage(*kinds: type[Exception]) -> Iterator[None]:
    """Turn an invalid selection of tools, and exceptions of these kinds, into a usage error."""
    from manifests import SelectionError

    wrong: tuple[type[Exception], ...] = (SelectionError, *kinds)
    try:
        yield
    except wrong as error:
        raise click.UsageError(str(error)) from error


@contextmanager
def failures(*kinds: type[Exception], of: Path | None = None) -> Iterator[None]:
    """Turn exceptions of these kinds, and files that can't be used, into the error that ends the
    command with exit code 1. `of` is the file where the system names none.
    """
    try:
        yield
    except kinds as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        if (name := error.filename or of) is None:
            raise
        raise click.ClickException(f"{name}: {error.strerror}") from error


modes = together(
    click.option(
        "--mode",
        type=click.Choice(["live", "record", "replay", "offline"]),
        help="Where answers come from. live: the cache, else upstream. record: upstream, and "
        "record the snapshot. replay: the snapshot, else as live. offline: the snapshot only.",
    ),
    click.option(
        "--snapshot",
        type=OutPath(dir_okay=False),
        help="The snapshot to record or to answer from.",
    ),
    click.option(
        "--market",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="A folder with a recorded market, which adds the tools market_*.",
    ),
)
"""The options of where answers come from: a snapshot, a recorded market."""


other_providers = together(
    click.option(
        "--catalog",
        type=click.Choice(["finport", "none"]),
        help="Which packaged tools come along. Default: finport, all of them.",
    ),
    click.option(
        "--manifests",
        multiple=True,
        metavar="PATH",
        help="Also serve the tools of a manifest file, or of a folder of them.",
    ),
    click.option(
        "--openapi",
        multiple=True,
        metavar="FILE|URL",
        help="Also serve the operations of an OpenAPI document.",
    ),
    click.option(
        "--mcp",
        multiple=True,
        metavar="URL|COMMAND",
        help="Also serve the tools of an MCP server.",
    ),
)
providers = together(
    click.option(
        "--tools",
        multiple=True,
        metavar="FILE.py",
        help="Also serve the functions of a Python file that @finport.tool decorates.",
    ),
    other_providers,
)
"""The options of commands that may serve tools of the user's own."""


def read_settings(**overrides: object) -> "GatewaySettings":
    """Read the settings; raise a usage error that names the setting that is wrong."""
    from gateway.settings import GatewaySettings, SettingsError

    for name in ("tools", "manifests", "openapi", "mcp"):
        if not overrides.get(name):
            overrides.pop(name, None)  # else those of the environment or the file count
    with wrong_usage(SettingsError):
        settings = GatewaySettings.read(**overrides)
        if settings.hosts and not settings.own_providers():
            from gateway.upstreams.hosts import plans_of
            from manifests import Catalog

            plans_of(settings, Catalog.load())
    given = [n for n, v in overrides.items() if n.startswith("simulated_") and v is not None]
    if given and settings.upstream != "simulated":
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{options}: for --upstream simulated only")
    return settings


def tell_settings_file() -> None:
    """Log which file the settings of this process come from, if any."""
    import logging

    from gateway.settings_file import settings_file

    path = settings_file()
    if path is not None:
        logging.getLogger("finport").info("settings are from %s", path)
