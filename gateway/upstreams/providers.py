"""The tools of the user's own providers beside a catalogue, read at start and on each reload."""

import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from anyio import to_thread

from adapters.mcp.servers import McpServers
from adapters.provider import ProviderError
from gateway.settings import GatewaySettings
from gateway.settings_file import SettingsError
from manifests import Catalog, Manifest
from manifests.catalog import CatalogError
from manifests.common.problem import first_problem
from manifests.functions import FunctionTool, FunctionToolError, run_file, tool_of, tools_in
from manifests.mcp_listing import manifests_of
from manifests.providers import ProviderSettings

log = logging.getLogger("finport")

TOLD = 20
"""So many tools of a provider that are left out are named in the log at once."""


async def catalog_of(
    settings: GatewaySettings,
    base: Catalog | None = None,
    functions: Iterable[Callable[..., Any]] = (),
    servers: McpServers | None = None,
    running: Catalog | None = None,
) -> Catalog:
    """The catalogue that settings choose, or a copy of `base`, with the tools of all providers and
    these functions. MCP servers that are not among `servers` are asked for their tools. With the
    catalogue that is `running`, only the tools of MCP servers are read anew, and one whose name
    another has is left out, and not an error. Raises `SettingsError` and `CatalogError`.
    """
    if servers is None:
        async with servers_of(settings) as opened:
            return await catalog_of(settings, base, functions, opened, running)
    if base is None:
        base = Catalog.load() if settings.catalog == "finport" else Catalog([])
    if settings.market is not None:
        base = base.with_market()
    providers = _providers(settings)
    own, callables = list[Manifest](), list[FunctionTool]()
    for name, provider in providers.items():
        if running is not None and provider.kind != "mcp":
            for manifest in (m for m in running if m.provider == name):
                function = running.functions.get(manifest.revision)
                if function is None:
                    own.append(manifest)
                else:
                    callables.append(function)
            continue
        try:
            if provider.python is not None:
                callables += await to_thread.run_sync(_functions, name, provider)
            else:
                given = await _manifests(name, provider, servers)
                found = await to_thread.run_sync(list, provider.applied(name, given))
                if provider.kind == "mcp" and running is not None:
                    found = _without_taken(name, found, running, [*base, *own])
                own += found
        except (CatalogError, FunctionToolError, SettingsError) as error:
            raise SettingsError(f"provider {name}: {error}") from error
        except ValueError as error:  # a name that a prefix makes too long, and the like
            raise SettingsError(f"provider {name}: {first_problem(error)}") from None
    try:
        callables += map(tool_of, functions)
        catalog = base.with_own(own, callables, providers)
    except (CatalogError, FunctionToolError) as error:
        raise SettingsError(f"setting providers: {error}") from error
    catalog.vectors = settings.cache_dir / "vectors.npz"
    return catalog


def _providers(settings: GatewaySettings) -> dict[str, ProviderSettings]:
    """Raises `SettingsError`."""
    try:
        return settings.own_providers()
    except ValueError as error:
        raise SettingsError(f"setting providers: {first_problem(error)}") from None


@asynccontextmanager
async def servers_of(settings: GatewaySettings) -> AsyncIterator[McpServers]:
    """The MCP servers that settings name. Raises `SettingsError`."""
    longest_s = min(settings.attempt_timeout_s, settings.deadline_s)
    async with McpServers.open(settings.cache_dir, settings.mode, longest_s) as servers:
        async with following(servers, settings):
            pass
        yield servers


@asynccontextmanager
async def following(servers: McpServers, settings: GatewaySettings) -> AsyncIterator[None]:
    """Have the MCP servers of these settings, unless the context ends by an exception.

    Raises `SettingsError`.
    """
    try:
        async with servers.following(_providers(settings)):
            yield
    except ProviderError as error:
        raise SettingsError(str(error)) from None


def _without_taken(
    name: str, found: list[Manifest], running: Catalog, others: list[Manifest]
) -> list[Manifest]:
    """Those of the tools that a server has listed anew whose names no other provider has."""
    taken = {m.name: m for m in running if m.provider != name} | {m.name: m for m in others}
    lost = [manifest.name for manifest in found if manifest.name in taken]
    for tool in lost[:TOLD]:
        text = "tool %s of provider %s is left out: provider %s has one of that name"
        log.warning(text, tool, name, taken[tool].provider or "finport")
    return [manifest for manifest in found if manifest.name not in taken]


async def _manifests(
    name: str, provider: ProviderSettings, servers: McpServers
) -> Iterable[Manifest]:
    if provider.manifests is not None:
        found = await to_thread.run_sync(Catalog.load, provider.manifests)
        return [m for m in found if provider.takes(m.name)]
    if provider.kind == "mcp":
        listing = servers.listing(name)
        if listing is None:
            return []  # it is not reached, and its tools come when it is
        listed = await to_thread.run_sync(manifests_of, listing, provider)
        for tool, reason in [*listed.left_out.items()][:TOLD]:
            log.warning("tool %s of provider %s is left out: %s", tool, name, reason)
        if (others := len(listed.left_out) - TOLD) > 0:
            log.warning("%d more tools of provider %s are left out", others, name)
        return listed.manifests
    if provider.openapi is not None:
        from gateway.upstreams.documents import manifests_of as manifests_of_document

        return await manifests_of_document(name, provider)
    raise AssertionError(name)


def _functions(name: str, provider: ProviderSettings) -> list[FunctionTool]:
    """The functions of a provider's file. Raises `SettingsError`."""
    assert provider.python is not None  # noqa: S101 - the caller's condition
    found = [t for t in _read(provider.python) if provider.takes(t.manifest.name)]
    manifests = provider.applied(name, (tool.manifest for tool in found))
    return [replace(tool, manifest=m) for tool, m in zip(found, manifests, strict=True)]


def _read(file: Path) -> list[FunctionTool]:
    """The tools of a Python file, which is run once in a process, and again after it has changed.

    Raises `SettingsError`.
    """
    try:
        source = file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}") from None
    named = f"{file.resolve()}\0".encode() + source
    name = f"finport_tools_{blake2b(named, digest_size=8).hexdigest()}"
    try:
        module = sys.modules.get(name) or run_file(name, file, source)
    except FunctionToolError as error:
        raise SettingsError(f"{file}: {error}") from error
    except Exception as error:
        raise SettingsError(f"{file}: it raised {type(error).__name__}: {error}") from error
    found = tools_in(vars(module))
    if not found:
        text = "no function in it is a tool; decorate it with @finport.tool"
        raise SettingsError(f"{file}: {text}")
    return found
