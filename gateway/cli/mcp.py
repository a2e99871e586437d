"""`finport mcp`: the gateway as an MCP server over standard input and output."""

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from gateway.cli.options import (
    modes,
    read_settings,
    run,
    simulation,
    tell_settings_file,
    wrong_usage,
)
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from gateway.api.mcp_tools import OutputSchema, Visitor
    from gateway.settings import GatewaySettings
    from manifests import Catalog

# Repeated here so that --help need not import the API; a test compares the two.
OUTPUT_SCHEMAS = ("short", "full", "none")


@click.command()
@click.option(
    "--tools",
    default="search",
    show_default=True,
    metavar="SELECTION",
    help="Tools offered to the client. search: three tools that find, describe and call all "
    "others. execute: the same, with call_tool named execute_tool. all: every tool. Or a selection "
    "such as 'domain:bond,fund;source:akshare'.",
)
@click.option(
    "--page-size",
    type=click.IntRange(1, 1_000),
    default=1_000,
    show_default=True,
    help="Tools per page of the list.",
)
@click.option(
    "--output-schema",
    type=click.Choice(OUTPUT_SCHEMAS),
    default=OUTPUT_SCHEMAS[0],
    show_default=True,
    help="How much of its output schema a listed tool has: what matters, all of it, or nothing. "
    "With none, results are text alone.",
)
@click.option("--max-rows", type=click.IntRange(min=1), help="Rows of a table to return.")
@modes
@simulation
def mcp(
    tools: str,
    page_size: int,
    output_schema: "OutputSchema",
    max_rows: int | None,
    **given: object,
) -> None:
    """Serve one MCP client over standard input and output until the input ends."""
    from gateway import CallContext
    from gateway.access.guard import Caller
    from gateway.api.mcp_tools import CALL_TOOL, CALL_TOOL_NAMES, Visitor
    from manifests import Catalog, Selection

    catalog = Catalog.load()
    name = CALL_TOOL_NAMES.get(tools)
    with wrong_usage():
        offer = Selection.of(catalog, tools) if name is None else None
    caller = Caller(context=CallContext(max_rows=max_rows))
    visitor = Visitor(caller, offer, page_size, output_schema, name or CALL_TOOL)
    settings = read_settings(**given)
    run(lambda: _serve(settings, catalog, visitor))


async def _serve(settings: "GatewaySettings", catalog: "Catalog", visitor: "Visitor") -> int:
    from cache import SnapshotError
    from gateway import Gateway
    from gateway.api.mcp_stdio import McpStdio
    from gateway.telemetry import logs

    input_, output = _take_stdio()
    try:
        with logs.set_up(settings.log_format):
            tell_settings_file()
            async with Gateway.open(settings, catalog=catalog) as gateway:
                server = McpStdio(gateway, visitor, input_, output)
                serving = asyncio.create_task(server.serve())
                for number in (signal.SIGTERM, signal.SIGINT):
                    asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
                with suppress(asyncio.CancelledError):
                    await serving
    except (SnapshotError, OSError) as error:
        echo(f"finport: {error}", err=True)
        return 1
    return 0


def _take_stdio() -> tuple[int, int]:
    """Return the file descriptors for the protocol. All other code in this process and its children
    then reads an empty standard input, and what it prints goes to standard error.
    """
    input_, output = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return input_, output
