"""`finport tools`: the catalogue on the command line."""

from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import echo_json, providers, read_settings, wrong_usage
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from manifests import Catalog, Manifest


VECTOR_S = 0.0025
"""About how long the search takes to read a tool once."""


@click.command()
@click.argument("words", nargs=-1, metavar="[QUERY]... | show NAME")
@click.option("--source")
@click.option("--domain")
@click.option("--timeliness")
@click.option("--intent")
@click.option("--provider", help="One of the user's own providers, or finport.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1))
@click.option("--json", "as_json", is_flag=True)
@providers
def tools(
    words: tuple[str, ...],
    limit: int,
    as_json: bool,
    catalog: str | None,
    tools: tuple[str, ...],
    manifests: tuple[str, ...],
    openapi: tuple[str, ...],
    mcp: tuple[str, ...],
    **tags: str | None,
) -> None:
    """List the tools with the given tags. QUERY, in English or Chinese, ranks them; the word
    `search` before it may be left out.

    `finport tools show NAME` prints one manifest with a sample call.
    """
    import asyncio

    from gateway.api.describe import describe, summarise
    from gateway.pipeline.bind import unknown_tool
    from gateway.settings_file import SettingsError
    from gateway.upstreams.providers import catalog_of

    settings = read_settings(
        catalog=catalog, tools=tools, manifests=manifests, openapi=openapi, mcp=mcp
    )
    with wrong_usage(SettingsError):
        known = asyncio.run(catalog_of(settings))
    if words[:1] == ("show",) and len(words) == 2:
        manifest = known.get(words[1])
        if manifest is None:
            raise click.ClickException(unknown_tool(known, words[1]).message)
        about = describe(manifest, settings)
        echo_json(about) if as_json else _show(manifest, about["price"])
        return
    _check(tags, known)
    query = " ".join(words[words[:1] == ("search",) :])
    found, about = known.select(**tags), dict[str, Any]()
    if query:
        from gateway.search.finder import ToolFinder

        if (lacking := known.search.missing) > 0:
            seconds = lacking * VECTOR_S
            echo(f"reading {lacking} tools for search, once: about {seconds:.0f} s", err=True)
            known.search.embed()
        finder = ToolFinder.of(known, settings)
        searched = asyncio.run(finder.search(query, tags))
        found, about = searched.tools, searched.about()
    if as_json:
        tools_ = [summarise(manifest) for manifest in found[:limit]]
        echo_json({"total": len(found), "tools": tools_, **about})
        return
    if about:
        echo(_read(about))
    for manifest in found[:limit]:
        home = manifest.provider or manifest.source
        echo(f"{manifest.name:<44} {home:<9} {manifest.description}")
    matching = " that match" if query or len(found) < len(known) else ""
    echo(f"{min(limit, len(found))} of {len(found)} tools{matching}")


def _read(about: dict[str, Any]) -> str:
    """What a search read from its query, and how sure it is."""
    read = "; ".join(
        f"{kind}: {', '.join(values)}" for kind, values in about["intent"].items() if values
    )
    sure = "no tool fits; these are the nearest"
    if about["fits"]:
        sure = f"the first fits with a probability of {about['sure']:.0%}"
    return f"{sure}{f' ({read})' if read else ''}"


def _check(tags: dict[str, str | None], catalog: "Catalog") -> None:
    """Raise a usage error for a tag that no tool can carry."""
    from typing import get_args

    from manifests import Domain, Intent, Source, Timeliness

    kinds = {"source": Source, "domain": Domain, "timeliness": Timeliness, "intent": Intent}
    homes = ("finport", *catalog.providers)
    for name, value in tags.items():
        allowed = homes if name == "provider" else get_args(kinds[name])
        if value is not None and value not in allowed:
            raise click.UsageError(f"--{name} {value} is not one of {', '.join(allowed)}")


def _show(manifest: "Manifest", price: dict[str, Any] | None) -> None:
    import json
    import shlex

    from rich.box import SIMPLE
    from rich.table import Table

    from gateway.api.describe import freshness_of
    from manifests import Signature
    from manifests.common.console import PlainConsole

    console = PlainConsole(soft_wrap=True)
    console.print(f"{manifest.name}: {manifest.description}")
    if manifest.unavailable:
        console.print(f"unavailable: {manifest.unavailable}")
    if manifest.generated:
        console.print(f"generated from {manifest.generated}, checked by nobody")
    signature = Signature(manifest)
    if signature.names:
        expected = signature.allowed()
        table = Table("parameter", "expects", "default", "example", "meaning", box=SIMPLE)
        for p in manifest.parameters:
            if p.name in expected:
                default = "" if p.default is None else repr(p.default)
                if p.required:
                    default = f"required (upstream: {default})" if default else "required"
                table.add_row(p.name, expected[p.name], default, str(p.example), p.description)
        console.print(table)
    facts = {
        "returns": ", ".join(
            f"{c.name} ({c.description})" if c.description else c.name for c in manifest.columns
        )
        or "a JSON document",
        "tags": f"{manifest.timeliness}, {manifest.intent_type}, "
        + ", ".join(manifest.regulatory_domains),
        "fresh": "never kept: executed for each call, where that is allowed"
        if manifest.intent_type == "transactional"
        else freshness_of(manifest),
        "from": f"{manifest.source}, {', '.join(manifest.binding.hosts) or 'host not on record'}",
    }
    if manifest.provider is not None:
        facts["provider"] = manifest.provider
    if price is not None:
        facts["price"] = f"{price['per_request']} {price['currency']} a request".replace("  ", " ")

    for name, value in facts.items():
        console.print(f"{name:<9}{value}")
    sample = json.dumps(manifest.sample(), ensure_ascii=False)
    url = f"localhost:8000/v1/tools/{manifest.name}"
    console.print(f"curl    curl -s {url} -d {shlex.quote(sample)}")
    console.print(f"python  await gateway.call({manifest.name!r}, {manifest.sample()!r})")
