"""`finport manifests import mcp`: the tools that an MCP server lists, as a manifest file."""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from gateway.cli.options import OutPath, echo_json, failures, force, wrong_usage
from manifests.common.terminal import echo, escaped

if TYPE_CHECKING:
    from manifests.mcp_listing import Listed
    from manifests.providers import ProviderSettings


@click.command("mcp")
@click.argument("server", metavar="URL|COMMAND")
@click.option("--name", help="Name of the provider. Default: that of the host or the program.")
@click.option("--prefix", default="", help="Begins the names of the tools.")
@click.option("--only", multiple=True, metavar="NAME", help="Tools that are taken; * is any.")
@click.option(
    "--credential",
    "credentials",
    multiple=True,
    metavar="HEADER=VARIABLE",
    help="A header, and the environment variable that holds it.",
)
@click.option(
    "--environment", multiple=True, metavar="VARIABLE", help="Variables that the program gets."
)
@click.option("--out", type=OutPath(), help="Folder for NAME.json. Default: stdout.")
@click.option("--json", "as_json", is_flag=True, help="Print a report in place of words.")
@force
def import_mcp(
    server: str,
    name: str | None,
    prefix: str,
    only: tuple[str, ...],
    credentials: tuple[str, ...],
    environment: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    force: bool,
) -> None:
    """Write the tools that an MCP server lists to a manifest file, so that a snapshot of their
    answers can be replayed elsewhere.
    """
    from gateway.settings import mcp_provider
    from manifests.catalog import text_of
    from manifests.common.files import output_file

    if wrong := [one for one in credentials if "=" not in one]:
        raise click.UsageError(f"--credential is HEADER=VARIABLE, not {wrong[0]}")
    with wrong_usage(ValueError):
        found_name, provider = mcp_provider(
            server,
            prefix=prefix,
            only=only,
            environment=environment,
            credentials=dict(one.split("=", 1) for one in credentials),
        )
    name = name or found_name
    found = asyncio.run(_listed(name, provider))
    text = text_of(
        m.model_copy(update={"provider": None}) for m in provider.applied(name, found.manifests)
    ).encode()
    file = None if out is None else out / f"{name}.json"
    if file is not None:
        with failures(of=file), output_file(file, force=force) as written:
            written.write(text)
    elif not as_json:
        sys.stdout.buffer.write(escaped(text))
    names = [f"{prefix}{manifest.name}" for manifest in found.manifests]
    if as_json:
        said = None if file is None else str(file)
        echo_json({"file": said, "tools": names, "left_out": found.left_out})
    elif file is not None:
        echo(f"{len(names)} tools written to {file}")
    for tool, reason in {} if as_json else found.left_out.items():
        echo(f"{tool}: {reason}", err=True)
    sys.exit(1 if found.left_out else 0)


async def _listed(name: str, provider: "ProviderSettings") -> "Listed":
    from adapters.mcp.servers import McpServers
    from adapters.provider import ProviderError
    from manifests.mcp_listing import manifests_of

    with TemporaryDirectory() as folder, wrong_usage(ProviderError):
        async with McpServers.open(Path(folder), "live", timeout_s=60.0) as servers:
            async with servers.following({name: provider}):
                listing = servers.listing(name)
            if listing is None:
                raise click.ClickException(f"{name} is not reached: {servers.trouble(name)}")
            return manifests_of(listing, provider)
