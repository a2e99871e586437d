"""`finport`: the gateway on the command line. Heavy imports stand in the commands that need them.

Exit codes: 0 done, 1 the work failed, 2 usage.
"""

import asyncio
import ipaddress
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from gateway.cli_manifests import manifests
from gateway.cli_options import echo_json, modes, read_settings, run, simulation
from gateway.cli_quota import quota
from gateway.cli_snapshot import snapshot
from gateway.cli_tools import tools

if TYPE_CHECKING:
    from gateway.settings import GatewaySettings


@click.group()
@click.version_option(package_name="finport")
def main() -> None:
    """Finport: the gateway through which LLM agents reach finance tools."""


main.add_command(manifests)
main.add_command(quota)
main.add_command(snapshot)
main.add_command(tools)


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, help="0 takes a free port.")
@click.option("--trace", type=click.Path(path_type=Path), help="Append one record a call here.")
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
@modes
@simulation
def serve(
    host: str, port: int, trace: Path | None, until_stdin_closes: bool, **given: object
) -> None:
    """Serve the gateway over HTTP until SIGTERM or Ctrl-C."""
    if not _is_loopback(host):
        raise click.UsageError(
            f"{host} is not a loopback address; without client keys only loopback is served"
        )
    settings = read_settings(**given)
    run(lambda: _serve(settings, host, port, trace, until_stdin_closes))


async def _serve(
    settings: "GatewaySettings", host: str, port: int, trace: Path | None, until_stdin_closes: bool
) -> int:
    from contextlib import AsyncExitStack

    from cache import SnapshotError
    from gateway import Gateway, http
    from gateway.limits import calm_collector, raise_file_limit
    from gateway.trace import JsonLines, TraceError

    raise_file_limit()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if until_stdin_closes:  # so that a gateway never outlives the process that started it
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    try:
        async with AsyncExitStack() as parts:
            lines = await parts.enter_async_context(JsonLines.open(trace)) if trace else None
            gateway = await parts.enter_async_context(Gateway.open(settings, trace=lines))
            url = await parts.enter_async_context(http.serve(gateway, host, port))
            calm_collector()
            click.echo(f"finport ready on {url}")
            await stop.wait()
    except (TraceError, SnapshotError, OSError) as error:
        click.echo(f"finport: {error}", err=True)
        return 1
    if gateway.snapshot_id is not None and settings.mode == "record":
        click.echo(f"recorded snapshot {gateway.snapshot_id} in {settings.snapshot}")
    elif settings.mode == "record":
        click.echo("nothing was recorded")
    return 0


@main.command()
@click.argument("tool")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--args", "json_arguments", help="Arguments as one JSON object.")
@click.option("--timeout-s", type=click.FloatRange(min=0, min_open=True), help="Deadline.")
@click.option("--max-rows", type=click.IntRange(min=1), help="Rows of a table to print.")
@click.option("--cache-control", help="What is asked of kept answers, as in HTTP: max-age=60, ...")
@modes
@simulation
def call(
    tool: str,
    arguments: tuple[str, ...],
    json_arguments: str | None,
    timeout_s: float | None,
    max_rows: int | None,
    cache_control: str | None,
    **settings: object,
) -> None:
    """Make one call and print its envelope as JSON."""
    from cache import CacheControl, CacheControlError, SnapshotError
    from gateway import CallContext, Gateway

    given = _arguments(arguments, json_arguments)
    read = read_settings(**settings)
    try:
        asked = None if cache_control is None else CacheControl.parse(cache_control)
    except CacheControlError as error:
        raise click.UsageError(str(error)) from error
    context = CallContext(timeout_s, max_rows, asked)

    async def once() -> int:
        try:
            async with Gateway.open(read) as gateway:
                result = await gateway.call(tool, given, context)
        except (SnapshotError, OSError) as error:
            click.echo(f"finport: {error}", err=True)
            return 1
        echo_json(orjson.loads(result.to_json()))
        return 0 if result.ok else 1

    run(once)


def _arguments(pairs: tuple[str, ...], json_arguments: str | None) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if json_arguments is not None:
        try:
            given = orjson.loads(json_arguments)
        except orjson.JSONDecodeError as error:
            raise click.UsageError(f"--args is not JSON: {error}") from error
        if not isinstance(given, dict):
            raise click.UsageError("--args must be a JSON object")
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"{pair!r} is not of the form NAME=VALUE")
        given[name] = value
    return given


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


if __name__ == "__main__":
    main()
