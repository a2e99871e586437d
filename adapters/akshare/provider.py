"""AkShare as a provider."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from adapters.host import registrable_domain
from adapters.provider import Finding, Parts, Provider, Settings
from manifests import AkShareBinding, Catalog

if TYPE_CHECKING:
    from adapters.adapter import Adapter
    from adapters.simulator.shapes import Simulation


@asynccontextmanager
async def _open(parts: Parts) -> AsyncIterator["Adapter"]:
    from adapters.akshare.adapter import AkShareAdapter

    settings = parts.settings
    opened = AkShareAdapter.open(
        [m.binding.function for m in parts.catalog if isinstance(m.binding, AkShareBinding)],
        base_url=parts.simulated_url or settings.akshare_base_url,
        workers=settings.akshare_workers,
        threads=settings.akshare_threads,
        worker_bytes=settings.akshare_worker_bytes,
        credentials=parts.credentials,
    )
    async with opened as adapter:
        if parts.simulated_url is None:
            yield adapter
            return
        from adapters.akshare.simulated import SimulatedAkShare

        async with SimulatedAkShare.open(adapter, parts.simulated_url, parts.lies) as simulated:
            yield simulated


def _check(catalog: Catalog, _settings: Settings | None) -> Iterator[Finding]:
    """Compare the installed release with the catalogue."""
    from manifests.akshare_source import AkShareMissingError, akshare_functions, akshare_version
    from manifests.sync import differences

    try:
        release, functions = akshare_version(), akshare_functions()
    except AkShareMissingError:
        tools = len(catalog.select(source="akshare"))
        text = f"not installed: the {tools} AkShare tools will answer not_configured"
        yield Finding("AkShare", "warn", text, "pip install 'finport[akshare]'")
        return
    by_kind = defaultdict(list)
    for difference in differences(catalog, functions):
        if difference.kind != "not_in_catalogue":
            by_kind[difference.kind].append(difference.tool)
    found = f"AkShare {release}, {len(functions)} functions"
    for kind, tools_ in by_kind.items():
        found += f"; {kind}: {', '.join(dict.fromkeys(tools_))}"
    if by_kind.keys() - {"new_parameter", "returned"}:  # these two break no call
        yield Finding("AkShare", "warn", found, "finport manifests sync akshare says more")
    else:
        yield Finding("AkShare", "ok", found)


def _simulate(catalog: Catalog) -> "Simulation":
    from adapters.simulator.akshare import simulate

    return simulate(catalog)


AKSHARE = Provider(
    "akshare",
    "AkShare",
    _open,
    check=_check,
    simulate=_simulate,
    limited=registrable_domain,
    base_url=lambda settings: settings.akshare_base_url,
    tls=None,
)
