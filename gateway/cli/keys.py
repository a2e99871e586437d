"""`finport keys`: the API keys of the gateway's clients. A key is printed once, when it is made."""

from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import echo_json, failures, print_table, read_settings, wrong_usage
from gateway.compress.budget import LIMITS
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from gateway.access.keys import KeyEntry
    from gateway.grant import Grant
    from gateway.settings import GatewaySettings
    from manifests import Catalog


WIDTH = 220
"""Terminal columns for the longest names and times, with room for tools."""


@click.group()
def keys() -> None:
    """Make, list and revoke the API keys of the gateway's clients.

    The clients file (FINPORT_CLIENTS_FILE) holds their hashes.
    """


@keys.command()
@click.argument("name")
@click.option(
    "--tools", default="all", help="Tools it may call: 'all' or FACET:VALUE,...;FACET:..."
)
@click.option("--transactional", is_flag=True, help="Also tools that may change something.")
@click.option("--per-second", type=click.FloatRange(1e-4, 1e6), help="Calls per second.")
@click.option("--at-once", type=click.IntRange(1, 1_000_000), help="Concurrent calls.")
@click.option("--per-day", type=click.IntRange(1, 10**12), help="Calls per day (UTC).")
@click.option(
    "--max-tokens", type=click.IntRange(*LIMITS["tokens"]), help="Default budget of its answers."
)
@click.option(
    "--stand-in",
    type=click.Choice(["never", "allow"]),
    help="Whether another source may answer while a tool's own fails.",
)
@click.option("--json", "as_json", is_flag=True)
def add(name: str, tools: str, transactional: bool, as_json: bool, **limits: Any) -> None:
    """Make a key for the client NAME and print it.

    The key is not shown again: the clients file holds only its hash.
    """
    import asyncio

    from gateway.access import keys as kept
    from gateway.grant import Grant
    from gateway.settings import SettingsError
    from gateway.upstreams.providers import catalog_of
    from manifests import CatalogError, Selection

    if not kept.is_name(name):
        raise click.UsageError(kept.NAME_FORM)
    settings = read_settings()
    with wrong_usage(SettingsError, CatalogError):
        catalog = asyncio.run(catalog_of(settings))
        grant = Grant(Selection.of(catalog, tools), transactional)
    allowed = _count(grant, catalog)
    with failures(kept.KeyRefused, SettingsError):
        if any(entry.name == name for entry in kept.settings_entries(settings)):
            raise kept.KeyRefused(f"a client named {name} has a key in the settings already")
        limits["transactional"] = transactional
        key, entry = kept.add(settings.clients_file, name, tools=grant.tools, **limits)
    _tell(settings, entry)
    if as_json:
        echo_json({"key": key, **_row(entry, "file")})
        return
    echo(key)
    changing = "" if transactional else " (none that may change something)"
    echo(
        f"This is the key of {name} (id {entry.id}), shown only this once: "
        f"{settings.clients_file} holds its hash.\nIt may use {allowed} of {len(catalog)} "
        f"tools{changing}. "
        "Every gateway that reads this file, or shares its Redis, now wants a key of every caller.",
        err=True,
    )


@keys.command("list")
@click.option("--json", "as_json", is_flag=True)
def list_keys(as_json: bool) -> None:
    """List the clients of all keys, revoked ones and those of FINPORT_API_KEYS too."""
    from gateway.access import keys as kept
    from gateway.settings import SettingsError

    settings = read_settings()
    with failures(kept.KeyRefused, SettingsError):
        rows = [_row(entry, "environment") for entry in kept.settings_entries(settings)]
        in_file = kept.read(settings.clients_file)
        rows += [_row(entry, "file") for entry in in_file]
        shared = {entry.id: entry for entry in _learn(settings)}
        rows += [_row(shared[id_], "redis") for id_ in shared.keys() - {e.id for e in in_file}]
        revoked = {e.id: e.revoked_at for e in shared.values() if e.revoked_at is not None}
        for row in rows:  # what was revoked anywhere is so everywhere
            row["revoked_at"] = row["revoked_at"] or revoked.get(str(row["id"]))
    if as_json:
        echo_json(rows)
    elif rows:
        print_table(rows, width=WIDTH, wrapped="tools")
    else:
        echo("no key is known: the gateway serves loopback only, and everybody there")


@keys.command()
@click.argument("name_or_id")
def revoke(name_or_id: str) -> None:
    """Revoke a key, by the name of its client or by its id."""
    from gateway.access import keys as kept
    from gateway.settings import SettingsError

    settings = read_settings()
    with failures(kept.KeyRefused, SettingsError):
        try:
            entry = kept.revoke(settings.clients_file, name_or_id)
        except kept.KeyRefused:
            for known in _learn(settings):
                if known.revoked_at is None and name_or_id in (known.name, known.id):
                    _tell(settings, kept.revoked(known), needed=True)
                    echo(f"revoked the key of {known.name} (id {known.id}) on all gateways")
                    return
            for known in kept.settings_entries(settings):
                if name_or_id in (known.name, known.id):
                    text = f"the key of {known.name} stands in FINPORT_API_KEYS; remove it there"
                    raise kept.KeyRefused(text) from None
            raise
    _tell(settings, entry)
    echo(f"revoked the key of {entry.name} (id {entry.id})")
    echo("a gateway that is running notices within a second or so")


def _learn(settings: "GatewaySettings") -> "tuple[KeyEntry, ...]":
    """The entries that gateways share; those known before, while Redis is away."""
    import asyncio

    from gateway.sharing import keys as shared_keys
    from gateway.sharing.store import StoreError

    if settings.redis_url is None:
        return ()
    try:
        return asyncio.run(shared_keys.learn(settings))
    except StoreError as error:
        echo(f"Redis can't be asked ({error}); what was known before is shown", err=True)
        return shared_keys.remembered(settings.clients_file)


def _tell(settings: "GatewaySettings", entry: "KeyEntry", *, needed: bool = False) -> None:
    """Let all gateways know of an entry. If that is `needed`, a failure ends the command."""
    import asyncio

    from gateway.sharing import keys as shared_keys
    from gateway.sharing.store import StoreError

    try:
        asyncio.run(shared_keys.tell(settings, entry))
    except StoreError as error:
        text = f"Redis can't be told ({error})"
        if needed:
            raise click.ClickException(f"{text}; nothing was changed") from None
        echo(f"{text}; gateways that read the clients file will tell the others", err=True)


def _count(grant: "Grant", catalog: "Catalog") -> int:
    """Return how many tools are granted; raise a usage error if there are none."""
    allowed = sum(grant.allows(manifest) for manifest in catalog)
    if not allowed:
        selected = any(manifest in grant.tools for manifest in catalog)
        hint = "each needs --transactional" if selected else "no tool is all of that"
        raise click.UsageError(f"{grant.tools} grants no tool: {hint}")
    return allowed


def _row(entry: "KeyEntry", source: str) -> dict[str, object]:
    return {**entry.model_dump(mode="json", exclude={"sha256"}), "from": source}
