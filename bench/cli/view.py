"""`finbench view`: the runs of a folder as pages in a browser."""

import asyncio
import errno
import os
import signal
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.options import of_suite, port_option
from gateway.cli.options import ended, wrong_usage
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.view.listing import Listing


@click.command()
@click.argument(
    "folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--host", default="127.0.0.1", show_default=True, help="An address of loopback.")
@port_option
@click.option("--open/--no-open", "opens", default=False, help="Open the list in the browser.")
@of_suite
def view(folder: Path, host: str, port: int, opens: bool, suite: str | None) -> None:
    """Serve pages of all runs in DIR: list, filter, compare, and read episodes.

    Ctrl-C ends it.
    """
    from bench.suites import suite_named
    from bench.suites.suite import SuiteError
    from bench.view.listing import Listing

    if not _is_loopback(host):
        text = f"--host {host}: the pages need no key, so only this machine may read them"
        raise click.UsageError(f"{text}: 127.0.0.1, ::1 or localhost")
    if suite is not None:
        with wrong_usage(SuiteError):
            suite_named(suite)
    code = ended(lambda: _serve(Listing(folder, suite), host, port, opens))
    sys.stdout.flush()
    # Python's own end unwinds a thread that still reads a run through native code, which aborts.
    os._exit(code)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def _serve(listing: "Listing", host: str, port: int, opens: bool) -> int:
    import webbrowser

    from bench.view.site import Site
    from manifests.common.collector import calm_collector
    from manifests.common.threads import in_daemon

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        async with Site.open(listing, host, port) as url:
            echo(f"finbench view: {url}  (Ctrl-C ends it)")
            sys.stdout.flush()
            calm_collector()
            opening = asyncio.create_task(in_daemon(webbrowser.open, url)) if opens else None
            await stop.wait()
            if opening is not None:
                opening.cancel()
    except OSError as error:
        text = f"{host}:{port}: {error.strerror}"
        if error.errno == errno.EADDRINUSE:
            text = f"port {port} of {host} is in use; --port 0 takes a free one"
        raise click.ClickException(text) from error
    return 0
