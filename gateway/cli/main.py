"""`finport`: the gateway on the command line. Heavy imports are in the commands that need them.

Exit codes: 0 success, 1 failure, 2 usage error.
"""

from typing import Any

import click
import orjson

from gateway.cli.doctor import doctor
from gateway.cli.keys import keys
from gateway.cli.manifests import manifests
from gateway.cli.mcp import mcp
from gateway.cli.options import echo_json, modes, read_settings, run, simulation
from gateway.cli.quota import quota
from gateway.cli.serve import serve
from gateway.cli.snapshot import snapshot
from gateway.cli.tools import tools
from gateway.terminal import Commands, echo


@click.group(cls=Commands)
@click.version_option(package_name="finport")
def main() -> None:
    """Finport: the gateway through which LLM agents reach finance tools."""


main.add_command(doctor)
main.add_command(keys)
main.add_command(manifests)
main.add_command(mcp)
main.add_command(quota)
main.add_command(serve)
main.add_command(snapshot)
main.add_command(tools)


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
            echo(f"finport: {error}", err=True)
            return 1
        echo_json(orjson.loads(result.to_json()))
        return 0 if result.ok else 1

    run(once)


def _arguments(pairs: tuple[str, ...], json_arguments: str | None) -> dict[str, Any]:
    from gateway.json_text import read_json

    given: dict[str, Any] = {}
    if json_arguments is not None:
        try:
            given = read_json(json_arguments.encode())
        except ValueError as error:
            raise click.UsageError(f"--args is not JSON: {error}") from error
        if not isinstance(given, dict):
            raise click.UsageError("--args must be a JSON object")
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"{pair!r} is not of the form NAME=VALUE")
        if name in given:
            raise click.UsageError(f"{name} is given more than once")
        given[name] = value
    return given


if __name__ == "__main__":
    main()
