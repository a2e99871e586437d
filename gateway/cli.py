"""`finport`: the gateway on the command line. Heavy imports stand in the commands that need them.

Exit codes: 0 done, 1 the work failed, 2 usage.
"""

import asyncio
import ipaddress
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from gateway.cli_manifests import echo_json, manifests

if TYPE_CHECKING:
    from gateway.settings import GatewaySettings
    from manifests import Manifest


def run(main: Callable[[], Coroutine[Any, Any, int]]) -> None:
    """Run a command's coroutine on uvloop and exit with what it returns."""
    import uvloop

    try:
        sys.exit(uvloop.run(main()))
    except KeyboardInterrupt:
        sys.exit(130)


def simulation(command: Callable[..., None]) -> Callable[..., None]:
    """Options of commands that may talk to the upstream double."""
    for option in (
        click.option("--simulated-seed", type=int, help="Seed of the simulated answers."),
        click.option("--simulated-hang-rate", type=float, help="Share of requests never answered."),
        click.option("--simulated-failure-rate", type=float, help="Share answered with a 503."),
        click.option("--simulated-latency-s", type=float, help="Seconds until it answers."),
        click.option(
            "--upstream",
            type=click.Choice(["live", "simulated"]),
            help="The real upstreams, or a local double in their place.",
        ),
    ):
        command = option(command)
    return command


def read_settings(**overrides: object) -> "GatewaySettings":
    """Settings, or a usage error that names the one that is wrong."""
    from gateway.settings import GatewaySettings, SettingsError

    try:
        return GatewaySettings.read(**overrides)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error


@click.group()
@click.version_option(package_name="finport")
def main() -> None:
    """Finport: the gateway through which LLM agents reach finance tools."""


main.add_command(manifests)


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, help="0 takes a free port.")
@click.option("--trace", type=click.Path(path_type=Path), help="Append one record a call here.")
@simulation
def serve(host: str, port: int, trace: Path | None, **simulated: object) -> None:
    """Serve the gateway over HTTP until SIGTERM or Ctrl-C."""
    if not _is_loopback(host):
        raise click.UsageError(
            f"{host} is not a loopback address; without client keys only loopback is served"
        )
    settings = read_settings(**simulated)
    run(lambda: _serve(settings, host, port, trace))


async def _serve(settings: "GatewaySettings", host: str, port: int, trace: Path | None) -> int:
    from contextlib import AsyncExitStack

    from gateway import Gateway, http
    from gateway.limits import raise_file_limit
    from gateway.trace import JsonLines, TraceError

    raise_file_limit()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        async with AsyncExitStack() as parts:
            lines = await parts.enter_async_context(JsonLines.open(trace)) if trace else None
            gateway = await parts.enter_async_context(Gateway.open(settings, trace=lines))
            url = await parts.enter_async_context(http.serve(gateway, host, port))
            click.echo(f"finport ready on {url}")
            await stop.wait()
    except TraceError as error:
        click.echo(f"finport: {error}", err=True)
        return 1
    except OSError as error:
        click.echo(f"finport: can't serve on {host}:{port}: {error.strerror}", err=True)
        return 1
    return 0


@main.command()
@click.argument("tool")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--args", "json_arguments", help="Arguments as one JSON object.")
@click.option("--timeout-s", type=click.FloatRange(min=0, min_open=True), help="Deadline.")
@click.option("--max-rows", type=click.IntRange(min=1), help="Rows of a table to print.")
@simulation
def call(
    tool: str,
    arguments: tuple[str, ...],
    json_arguments: str | None,
    timeout_s: float | None,
    max_rows: int | None,
    **simulated: object,
) -> None:
    """Make one call and print its envelope as JSON."""
    given = _arguments(arguments, json_arguments)
    settings = read_settings(**simulated)

    async def once() -> int:
        from gateway import CallContext, Gateway

        async with Gateway.open(settings) as gateway:
            context = CallContext(deadline_s=timeout_s, max_rows=max_rows)
            result = await gateway.call(tool, given, context)
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


@main.command()
@click.argument("words", nargs=-1, metavar="[QUERY]... | show NAME")
@click.option("--source")
@click.option("--domain")
@click.option("--timeliness")
@click.option("--intent")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1))
@click.option("--json", "as_json", is_flag=True)
def tools(words: tuple[str, ...], limit: int, as_json: bool, **tags: str | None) -> None:
    """List the tools that carry the given tags and contain every word of QUERY.

    `finport tools show NAME` prints one manifest with a sample call.
    """
    from gateway.describe import describe, summarise
    from manifests import Catalog

    catalog = Catalog.load()
    if words[:1] == ("show",) and len(words) == 2:
        manifest = catalog.get(words[1])
        if manifest is None:
            nearest = ", ".join(catalog.nearest(words[1]))
            raise click.ClickException(f"no tool is named {words[1]!r}; nearest: {nearest}")
        echo_json(describe(manifest)) if as_json else _show(manifest)
        return
    _check(tags)
    found = catalog.select(" ".join(words), **tags)
    if as_json:
        echo_json({"total": len(found), "tools": [summarise(m) for m in found[:limit]]})
        return
    for manifest in found[:limit]:
        click.echo(f"{manifest.name:<44} {manifest.source:<9} {manifest.description}")
    click.echo(f"{min(limit, len(found))} of {len(found)} tools")


def _check(tags: dict[str, str | None]) -> None:
    """Refuse a tag that no tool can carry."""
    from typing import get_args

    from manifests import Domain, Intent, Source, Timeliness

    kinds = {"source": Source, "domain": Domain, "timeliness": Timeliness, "intent": Intent}
    for name, value in tags.items():
        allowed = get_args(kinds[name])
        if value is not None and value not in allowed:
            raise click.UsageError(f"--{name} {value} is not one of {', '.join(allowed)}")


def _show(manifest: "Manifest") -> None:
    domains = ", ".join(manifest.regulatory_domains)
    click.echo(f"{manifest.name}: {manifest.description}")
    click.echo(f"{manifest.source} | {manifest.upstream} | {manifest.timeliness} | {domains}")
    if manifest.unavailable:
        click.echo(f"unavailable: {manifest.unavailable}")
    for p in manifest.parameters:
        need = "required" if p.required else f"default {p.default!r}"
        click.echo(f"  {p.name} ({p.type}, {need}): {p.description}")
    pairs = " ".join(f"{name}={value}" for name, value in manifest.sample().items())
    click.echo(f"finport call {manifest.name} {pairs}".rstrip())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


if __name__ == "__main__":
    main()
