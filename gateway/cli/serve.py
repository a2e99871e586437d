"""`finport serve`: the HTTP server, as one process or as several under a supervisor.

Exit codes: 0 ended on request, 1 could not serve or lost calls, 2 usage error. SIGTERM, Ctrl-C and
the end of stdin, if that is watched, end the server once it has answered the requests that it
accepted. A second signal ends it at once: one process by that signal, a supervisor with code 1.
"""

import asyncio
import ipaddress
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from anyio import to_thread

from gateway.cli.options import (
    OutPath,
    at_first_signal,
    modes,
    providers,
    read_settings,
    run,
    simulation,
    tell_settings_file,
)
from manifests.common.terminal import LackError, echo

if TYPE_CHECKING:
    from gateway import Gateway
    from gateway.settings import GatewaySettings


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8000,
    show_default=True,
    help="0: choose a free port.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Worker processes. Limits are divided among them.",
)
@click.option(
    "--trace",
    type=OutPath(dir_okay=False),
    help="Append one record per call to this file. With several workers each writes its own: "
    "for calls.jsonl these are calls.0.jsonl, calls.1.jsonl, ...",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), help="Format of the log on stderr."
)
@click.option(
    "--drain-notice",
    "drain_notice_s",
    type=float,
    metavar="SECONDS",
    help="After SIGTERM, say not ready but answer new calls for so long, so that load balancers "
    "notice.",
)
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
@click.option("--worker", type=(int, int, str), hidden=True)
@providers
@modes
@simulation
def serve(
    host: str,
    port: int,
    workers: int,
    trace: Path | None,
    until_stdin_closes: bool,
    worker: tuple[int, int, str] | None,
    **settings: object,
) -> None:
    """Serve the gateway over HTTP until SIGTERM or Ctrl-C.

    Requests that were accepted by then are answered, within FINPORT_DRAIN_S seconds. New ones are
    answered for --drain-notice seconds more.
    """
    read = read_settings(**settings)
    _check_host(host, read)
    if workers > 1 and read.mode == "record":
        raise click.UsageError("one process records a snapshot: --mode record has no --workers")
    if workers > 1 and worker is None:
        _supervise(host, port, workers, until_stdin_closes, read)
    if worker is not None:
        _, number, folder = worker
        read = read.share(workers, number, Path(folder))
        # Each process has its own trace file and appends to that of its predecessor.
        trace = trace and trace.with_stem(f"{trace.stem}.{number}")
    try:
        run(lambda: _serve(host, port, workers, trace, until_stdin_closes, worker, read, settings))
    except LackError as error:
        if worker is None:
            raise
        echo(f"finport: {error}")  # for the supervisor, as in `_serve`
        sys.exit(1)


def _supervise(
    host: str, port: int, workers: int, until_stdin_closes: bool, settings: "GatewaySettings"
) -> None:
    from gateway.server.sockets import bound_socket
    from gateway.server.supervisor import Plan, supervise

    try:
        listening = bound_socket(host, port)
    except OSError as error:
        echo(f"finport: {error}", err=True)
        sys.exit(1)
    plan = Plan(
        arguments=tuple(sys.argv[1:]),
        workers=workers,
        listening=listening.fileno(),
        drain_s=settings.drain_s,
        drain_notice_s=settings.drain_notice_s,
        until_stdin_closes=until_stdin_closes,
        log_format=settings.log_format,
    )
    supervise(plan)


async def _serve(
    host: str,
    port: int,
    workers: int,
    trace: Path | None,
    until_stdin_closes: bool,
    of: tuple[int, int, str] | None,
    settings: "GatewaySettings",
    given: Mapping[str, object],
) -> int:
    """Serve with these settings, of which the command line gave some."""
    from contextlib import AsyncExitStack

    from cache import SnapshotError
    from gateway import Gateway
    from gateway.compress.budget import load
    from gateway.server import http
    from gateway.server.process import raise_file_limit
    from gateway.server.sockets import turn_away
    from gateway.server.supervisor import READY, beat, when_stdin_closes
    from gateway.settings import SettingsError
    from gateway.telemetry.logs import set_up
    from gateway.telemetry.spans import ToolSpans
    from gateway.trace import AGAIN_S, JsonLines, TraceError
    from manifests.common.collector import calm_collector

    raise_file_limit()
    stop, listening, worker = asyncio.Event(), None, http.Worker()
    if of is not None:
        descriptor, number, folder = of
        worker = http.Worker(number, workers, Path(folder))
        listening = socket.socket(fileno=descriptor)
        listening.set_inheritable(False)

    def abandoned() -> None:
        if listening is not None:  # the supervisor would have done this
            turn_away(listening)
            worker.end_notice.set()
        stop.set()

    if until_stdin_closes:  # so that a gateway never outlives the process that started it
        when_stdin_closes(abandoned)
    is_ready = False
    try:
        async with AsyncExitStack() as parts:
            parts.enter_context(_set_by_signal(stop, of is not None))
            parts.enter_context(set_up(settings.log_format))
            if worker.index == 0:
                tell_settings_file()
            lines = None
            if trace is not None:
                opened = JsonLines.open(trace, AGAIN_S, follow_links=True, mode=0o600)
                lines = await parts.enter_async_context(opened)
            load(settings.encoding)  # before a caller waits for it, and all others
            gateway = await parts.enter_async_context(Gateway.open(settings, trace=lines))
            spans = None
            if settings.otel:
                spans = await parts.enter_async_context(ToolSpans.open(settings))
                parts.enter_context(gateway.observed(spans))
            serving = http.serve(
                gateway, host, port, listening=listening, worker=worker, spans=spans
            )
            url = await parts.enter_async_context(serving)
            parts.enter_context(_reloaded_by_signal(gateway, given, stop))
            calm_collector()
            echo(f"{READY}{url}")
            is_ready = True
            if of is not None:
                beat()
            await stop.wait()
    except (SettingsError, TraceError, SnapshotError, OSError) as error:
        # A supervisor reads why its worker is not ready, and prints it once for all workers.
        echo(f"finport: {error}", err=is_ready or of is None)
        return 2 if isinstance(error, SettingsError) else 1
    if gateway.snapshot_id is not None and settings.mode == "record":
        echo(f"recorded snapshot {gateway.snapshot_id} in {settings.snapshot}")
    elif settings.mode == "record":
        echo("nothing was recorded")
    return 0


@contextmanager
def _reloaded_by_signal(
    gateway: "Gateway", given: Mapping[str, object], stop: asyncio.Event
) -> Iterator[None]:
    """Let SIGHUP read settings and the tools of the user's providers anew, or set `stop` if it says
    that the terminal was closed.
    """
    import logging

    from gateway.server.supervisor import Terminal
    from gateway.settings import SettingsError
    from manifests import CatalogError

    log, under_way = logging.getLogger("finport"), set[asyncio.Task[None]]()
    terminal = Terminal()

    async def reload() -> None:
        try:
            await gateway.reload(await to_thread.run_sync(lambda: read_settings(**given)))
        except (SettingsError, CatalogError, click.UsageError) as error:
            log.error("nothing was reloaded: %s", error)
        except Exception:
            log.exception("nothing was reloaded")
        else:
            log.info("reloaded: %d tools", len(gateway.catalog))

    def begin() -> None:
        if terminal.is_gone:
            stop.set()
            return
        task = asyncio.ensure_future(reload())
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, begin)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in under_way:
            task.cancel()


@contextmanager
def _set_by_signal(stop: asyncio.Event, is_supervised: bool) -> Iterator[None]:
    """Let the first signal set `stop`. A second signal ends the process, except under a supervisor,
    which decides itself: a service manager may send each signal to both.
    """
    loop, numbers = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
    if not is_supervised:
        with at_first_signal(lambda _: loop.call_soon_threadsafe(stop.set), *numbers):
            yield
        return
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    yield


def _check_host(host: str, settings: "GatewaySettings") -> None:
    """Refuse a host that is not loopback while no client has a key."""
    if is_loopback(host):
        return
    from gateway.access.clients import Clients
    from gateway.settings import SettingsError
    from gateway.sharing.keys import learn
    from gateway.sharing.store import StoreError

    try:
        with suppress(StoreError):  # then the copy of what was shared before counts
            asyncio.run(learn(settings))
        needs_keys = Clients(settings).required
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    if not needs_keys:
        raise click.UsageError(
            f"{host or 'an empty host'} is not a loopback address, and while no client has a key "
            "only loopback is served: make one by `finport keys add NAME` or set FINPORT_API_KEYS"
        )


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host are on this machine; an empty host means every address."""
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM)  # noqa: S104
    except (OSError, UnicodeError):
        return False
    addresses = [str(address[0]).partition("%")[0] for *_, address in found]
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)
