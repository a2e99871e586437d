"""`finport manifests`: the manifest files on the command line."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from gateway.cli.options import OutPath, echo_json, failures, force, wrong_usage
from manifests.common.terminal import echo, escaped

if TYPE_CHECKING:
    from manifests import Manifest
    from manifests.mcp_listing import Listed
    from manifests.providers import ProviderSettings

# Repeated here so that --help need not import the manifests; a test compares the two.
FORMATS = ("openai", "anthropic", "mcp", "jsonschema", "fintoolbench")


@click.group()
def manifests() -> None:
    """Validate, import, export and update the manifest files."""


@manifests.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path), required=False)
@click.option("--json", "as_json", is_flag=True)
def validate(path: Path | None, as_json: bool) -> None:
    """Validate every manifest in PATH (default: the project's) and count them."""
    import time

    from manifests import Catalog, CatalogError

    started = time.perf_counter()
    with failures(CatalogError):
        catalog = Catalog.load(path)
    took_ms = (time.perf_counter() - started) * 1e3
    by_source = {s: len(catalog.select(source=s)) for s in ("rapidapi", "akshare")}
    hosts = {m.upstream for m in catalog if m.source == "rapidapi"}
    unavailable = {m.name: m.unavailable for m in catalog if m.unavailable}
    report = {
        "tools": len(catalog),
        **by_source,
        "rapidapi_hosts": len(hosts),
        "unavailable": unavailable,
        "revision": catalog.revision,
        "loaded_ms": round(took_ms, 1),
    }
    if as_json:
        echo_json(report)
        return
    echo(
        f"{len(catalog)} tools valid: {by_source['rapidapi']} RapidAPI on {len(hosts)} hosts, "
        f"{by_source['akshare']} AkShare; revision {catalog.revision}; loaded in {took_ms:.0f} ms"
    )
    echo(f"{len(unavailable)} unavailable:")
    for name, reason in unavailable.items():
        echo(f"  {name}: {reason}")


@manifests.command("format")
@click.argument("path", type=click.Path(exists=True, path_type=Path), required=False)
def format_(path: Path | None) -> None:
    """Write the manifest files in PATH (default: those of the project) in their standard form."""
    from manifests import CatalogError
    from manifests.catalog import read, text_of
    from manifests.common.regular_file import open_regular

    folder, files = _files(path)
    with failures(CatalogError, of=folder):
        for file in files:
            tools = read(file)
            with open_regular(file) as opened:
                is_standard = opened.read() == text_of(tools).encode()
            if not is_standard:
                _write(file, tools, follow_links=file == path)
                echo(f"{file}: written in the standard form")
    echo(f"{len(files)} files are in the standard form")


@manifests.command("export")
@click.option("--format", "format_", type=click.Choice(FORMATS), required=True)
@click.option("--tools", help="Names, separated by commas. Default: all.")
@click.option("--strict", is_flag=True, help="OpenAI's strict mode.")
@click.option("--no-tags", is_flag=True, help="Leave finance tags out of descriptions.")
@click.option("--out", type=OutPath(dir_okay=False), help="Default: stdout.")
@force
def export_(
    format_: str, tools: str | None, strict: bool, no_tags: bool, out: Path | None, force: bool
) -> None:
    """Write tools in another system's format: a JSON array, or JSON Lines for `fintoolbench`."""
    from manifests import Catalog
    from manifests.common.files import output_file
    from manifests.export import EXPORT_FORMATS, export
    from manifests.selection import check_names

    if strict and format_ != "openai":
        raise click.UsageError("--strict goes with --format openai")
    catalog = Catalog.load()
    chosen = list(catalog)
    if tools is not None:
        names = [name.strip() for name in tools.split(",")]
        with wrong_usage():
            check_names(catalog, names)
        chosen = [manifest for name in names if (manifest := catalog.get(name)) is not None]
    name_ = next(known for known in EXPORT_FORMATS if known == format_)
    exported = [export(m, name_, strict=strict, tags=not no_tags) for m in chosen]
    if format_ == "fintoolbench":
        text = b"".join(orjson.dumps(tool, option=orjson.OPT_APPEND_NEWLINE) for tool in exported)
    else:
        text = orjson.dumps(exported, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if out is not None:
        with failures(of=out), output_file(out, force=force) as file:
            file.write(text)
        echo(f"{len(exported)} tools written to {out}")
        return
    sys.stdout.buffer.write(escaped(text))
    sys.stdout.buffer.flush()


class _Import(click.Group):
    """The kinds of import. A path in place of one is read as FinToolBench's manifest file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = not args or args[0] == "--help" or args[0] in self.commands
        return super().parse_args(ctx, args if named else ["fintoolbench", *args])


@manifests.group("import", cls=_Import)
def import_() -> None:
    """Write tools that others describe to manifest files."""


@import_.command("openapi")
@click.argument("document", metavar="FILE|URL")
@click.option("--prefix", default="", help="Begins the names of the tools.")
@click.option("--tags", multiple=True, metavar="TAG", help="Import only operations with this tag.")
@click.option("--only", multiple=True, metavar="FORM", help="Import only what fits 'GET /prices*'.")
@click.option("--base-url", help="Origin and path that requests are sent to.")
@click.option("--allow-private", is_flag=True, help="Fetch it also from a private address.")
@click.option(
    "--out", type=OutPath(), help="Folder of the manifest file. Default: nothing is written."
)
@force
@click.option("--json", "as_json", is_flag=True)
def import_openapi(
    document: str, out: Path | None, force: bool, as_json: bool, **said: object
) -> None:
    """Make tools of the operations of an OpenAPI document, and say what is left out and why.

    Nothing of the document is run. A credential is never in it: the provider that serves the
    manifests names environment variables.
    """
    import asyncio

    from pydantic import ValidationError

    from gateway.settings_file import SettingsError
    from gateway.upstreams.documents import import_document
    from manifests.catalog import text_of
    from manifests.common.files import output_file
    from manifests.common.problem import first_problem
    from manifests.providers import ProviderSettings

    said["only_tags"] = said.pop("tags")
    try:
        provider = ProviderSettings.model_validate({"openapi": document, **said})
    except ValidationError as error:
        raise click.UsageError(first_problem(error)) from error
    with failures(SettingsError):
        found = asyncio.run(import_document(provider))
    tools = [m.model_copy(update={"name": f"{provider.prefix}{m.name}"}) for m in found.manifests]
    file = None
    if out is not None and tools:
        name = re.sub(r"[^a-z0-9]+", "_", (provider.prefix or found.title).lower()).strip("_")
        file = out / f"{name or 'openapi'}.json"
        with failures(of=file), output_file(file, force=force) as opened:
            opened.write(text_of(tools).encode())
    if as_json:
        echo_json(
            {
                "title": found.title,
                "version": found.version,
                "operations": found.present,
                "chosen": found.chosen,
                "imported": [tool.name for tool in tools],
                "left_out": [{"what": one.operation, "why": one.reason} for one in found.left_out],
                "notes": [{"what": one.operation, "why": one.reason} for one in found.notes],
                "file": None if file is None else str(file),
            }
        )
    else:
        chosen = "" if found.chosen == found.present else f" ({found.chosen} were asked for)"
        counts = f"imported {len(tools)} of {found.present} operations{chosen}"
        echo(f"{found.title} {found.version}: {counts}")
        if file is not None:
            echo(f"written to {file}")
        for one in found.left_out:
            echo(f"left out: {one.operation}: {one.reason}")
        for one in found.notes:
            echo(f"note: {one.operation}: {one.reason}")
    sys.exit(0 if tools else 1)


@import_.command("mcp")
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
    import asyncio

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


@import_.command("fintoolbench")
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--format", "_format", type=click.Choice(["fintoolbench"]), hidden=True)
@click.option("--out", type=OutPath(dir_okay=False), required=True)
@force
def import_fintoolbench(path: Path, _format: str | None, out: Path, force: bool) -> None:
    """Write the tools in PATH to a manifest file. Code in PATH is never run or kept."""
    from manifests import Catalog, CatalogError
    from manifests.catalog import text_of
    from manifests.common.files import output_file
    from manifests.common.regular_file import read_text
    from manifests.fintoolbench import read_lines

    with failures(CatalogError, of=out):
        imported = read_lines(read_text(path).splitlines(), Catalog.load())
        Catalog(imported.manifests)
        with output_file(out, force=force) as file:
            file.write(text_of(imported.manifests).encode())
    echo(f"{len(imported.manifests)} tools written to {out}")
    for name, reason in imported.refused.items():
        echo(f"{name}: {reason}", err=True)
    sys.exit(1 if imported.refused else 0)


@import_.command("akshare")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "everything", is_flag=True, help="All that the catalogue lacks.")
@click.option(
    "--out",
    type=OutPath(),
    help="Folder. Default: manifests/akshare in the user's configuration.",
)
@click.option("--prefix", default="", help="What the tools' names begin with.")
@click.option("--force", is_flag=True, help="Replace tools that the folder has already.")
@click.option("--json", "as_json", is_flag=True)
def import_akshare(
    names: tuple[str, ...],
    everything: bool,
    out: Path | None,
    prefix: str,
    force: bool,
    as_json: bool,
) -> None:
    """Write manifests of functions NAME of the installed AkShare, which is read and not run."""
    from platformdirs import user_config_path

    from manifests import Catalog, CatalogError
    from manifests.akshare_import import imported, write
    from manifests.akshare_source import AkShareMissingError

    if bool(names) == everything:
        raise click.UsageError("give names of functions, or --all")
    folder = out or user_config_path("finport") / "manifests" / "akshare"
    with failures(AkShareMissingError, CatalogError, of=folder):
        found = imported(None if everything else names, Catalog.load(), prefix)
        files = write(found, folder, force=force)
    if as_json:
        echo_json(
            {
                "akshare": found.release,
                "folder": str(folder),
                "files": [str(file) for file in files],
                "imported": [manifest.name for manifest in found.manifests],
                "packaged": found.packaged,
                "present": found.present,
                "refused": found.refused,
            }
        )
    else:
        echo(f"AkShare {found.release}: {len(found.manifests)} tools written to {folder}")
        if everything:
            echo(f"not written: {found.packaged} of the catalogue, {found.present} in the folder")
        for name, reason in found.refused.items():
            echo(f"{name}: {reason}", err=True)
    sys.exit(1 if found.refused and not everything else 0)


@manifests.command()
@click.argument("source", type=click.Choice(["akshare"]))
@click.option("--path", type=click.Path(exists=True, path_type=Path), help="Manifest folder.")
@click.option("--apply", "do_apply", is_flag=True, help="Write the changes into the manifests.")
@click.option("--json", "as_json", is_flag=True)
def sync(source: str, path: Path | None, do_apply: bool, as_json: bool) -> None:  # noqa: ARG001
    """Compare the manifests with the installed AkShare; report or apply the differences."""
    from collections import Counter
    from dataclasses import asdict

    from manifests import Catalog, CatalogError
    from manifests.akshare_source import AkShareMissingError, akshare_functions, akshare_version
    from manifests.catalog import read
    from manifests.sync import differences, synced

    folder, files = _files(path)
    with failures(AkShareMissingError, CatalogError, of=folder):
        release, functions = akshare_version(), akshare_functions()
        found = differences(Catalog.load(folder), functions)
        if do_apply:
            changes = {
                file: [
                    synced(m, functions, release) if m.source == "akshare" else m
                    for m in read(file)
                ]
                for file in files
            }
            # File by file, so that an interrupted run can be repeated to finish the rest.
            for file, tools in changes.items():
                if tools != read(file):
                    _write(file, tools, follow_links=file == path)
    if as_json:
        echo_json(
            {"akshare": release, "applied": do_apply, "differences": list(map(asdict, found))}
        )
        return
    for difference in found:
        if difference.kind != "not_in_catalogue":
            echo(f"{difference.tool}: {difference.kind}: {difference.detail}")
    counts = Counter(difference.kind for difference in found)
    summary = ", ".join(f"{kind} {n}" for kind, n in sorted(counts.items())) or "no difference"
    echo(f"AkShare {release}: {summary}" + ("; applied" if do_apply else ""))


@manifests.command()
@click.argument("snapshot", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--path", type=click.Path(exists=True, path_type=Path), help="Manifest folder.")
@click.option("--apply", "do_apply", is_flag=True, help="Write what is learned into the manifests.")
@click.option("--json", "as_json", is_flag=True)
def learn(snapshot: Path, path: Path | None, do_apply: bool, as_json: bool) -> None:
    """Learn from the recorded answers in SNAPSHOT what the data of each tool are like.

    It is told by MCP, OpenAPI and the page as observed. Simulated answers teach nothing.
    """
    from cache import Snapshot, SnapshotError
    from gateway.shapes.observed import LIVE, newer, observed
    from manifests import Catalog, CatalogError
    from manifests.catalog import read

    folder, files = _files(path)
    with failures(CatalogError, SnapshotError, of=folder):
        known = Catalog.load(folder)
        with Snapshot(snapshot) as opened:
            summary = opened.summary
            found = {name: observed(opened, name) for name in summary.tools if known.get(name)}
        learned = {name: one for name, one in found.items() if one is not None}
        for file in files if do_apply and learned else ():
            tools = [
                tool.model_copy(update={"observed": newer(tool.observed, learned.get(tool.name))})
                for tool in read(file)
            ]
            if tools != read(file):
                _write(file, tools, follow_links=file == path)
    if as_json:
        said = {name: one.model_dump(mode="json") for name, one in learned.items()}
        echo_json({"snapshot": summary.id, "applied": do_apply, "tools": said})
    else:
        answers = sum(one.answers for one in learned.values())
        echo(f"learned of {len(learned)} of {len(summary.tools)} tools, from {answers} answers")
        if learned:
            echo("written into the manifests" if do_apply else "--apply writes it into them")
    for name, number in sorted(summary.upstreams.items()):
        if name != LIVE:
            echo(
                f"finport: {number} calls of {name} taught nothing: only real answers do", err=True
            )
    sys.exit(0 if learned else 1)


def _files(path: Path | None) -> tuple[Path, list[Path]]:
    """The folder, or file, of the manifests that are meant, and its manifest files."""
    from manifests.catalog import DATA

    folder = path or DATA
    return folder, [folder] if folder.is_file() else sorted(folder.rglob("*.json"))


def _write(file: Path, tools: "Iterable[Manifest]", *, follow_links: bool) -> None:
    """Replace a manifest file. A link is followed only where the user named it."""
    from manifests.catalog import text_of
    from manifests.common.files import replaced_file

    with replaced_file(file, follow_links=follow_links) as out:
        out.write(text_of(tools).encode())


async def _listed(name: str, provider: "ProviderSettings") -> "Listed":
    from tempfile import TemporaryDirectory

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
