"""`finport mcp`: the gateway as an MCP server over standard input and output."""

import asyncio
import os
import signal
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gateway.cli.options import (
    modes,
    other_providers,
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

# Repeated here so that --help need not import the API; a test compares the two.
OUTPUT_SCHEMAS = ("short", "full", "none")


@click.command()
@click.option(
    "--tools",
    multiple=True,
    metavar="SELECTION|FILE.py",
    help="Tools offered to the client. search, the default: three tools that find, describe and "
    "call all others. execute: the same, with call_tool named execute_tool. all: every tool. Or a "
    "selection such as 'domain:bond,fund;source:akshare'. What ends in .py is a Python file, whose "
    "functions that @finport.tool decorates are tools, too.",
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
@other_providers
@modes
@simulation
def mcp(
    tools: tuple[str, ...],
    page_size: int,
    output_schema: "OutputSchema",
    max_rows: int | None,
    **given: object,
) -> None:
    """Serve one MCP client over standard input and output until the input ends."""
    from gateway import CallContext
    from gateway.access.guard import Caller
    from gateway.api.mcp_tools import CALL_TOOL, CALL_TOOL_NAMES, Visitor

    chosen = [one for one in tools if not one.endswith(".py")] or ["search"]
    if len(chosen) > 1:
        raise click.UsageError("--tools: one selection; further ones are files that end in .py")
    name = CALL_TOOL_NAMES.get(chosen[0])
    caller = Caller(context=CallContext(max_rows=max_rows))
    visitor = Visitor(caller, None, page_size, output_schema, name or CALL_TOOL)
    settings = read_settings(tools=[one for one in tools if one.endswith(".py")], **given)
    run(lambda: _serve(settings, visitor, None if name else chosen[0]))


async def _serve(settings: "GatewaySettings", visitor: "Visitor", selection: str | None) -> int:
    """Serve one client; the `selection` of tools that it is offered is None for the three tools."""
    from cache import SnapshotError
    from gateway import Gateway
    from gateway.api.mcp_stdio import McpStdio
    from gateway.telemetry import logs
    from gateway.telemetry.usage import Usage
    from manifests import Selection

    input_, output = _take_stdio()
    try:
        with logs.set_up(settings.log_format):
            tell_settings_file()
            async with (
                Gateway.open(settings) as gateway,
                Usage.open(gateway) if settings.usage else nullcontext(),
            ):
                if selection is not None:
                    with wrong_usage():
                        offer = Selection.of(gateway.catalog, selection)
                        visitor = replace(visitor, offer=offer)
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
