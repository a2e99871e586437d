"""Opens the providers of a gateway, or the simulated upstream in place of the real ones."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adapters.adapter import Adapter
from adapters.mcp.servers import McpServers
from adapters.provider import Parts, ProviderError, is_asked
from adapters.providers import PROVIDERS
from cache import Clock
from gateway.search.embedder import embedder_of
from gateway.settings import SIMULATED_SECRET, GatewaySettings, SettingsError
from gateway.sharing.allotments import Allotments
from gateway.sharing.sessions import Inbox
from gateway.sharing.store import SharedStore
from gateway.upstreams.quota import Ledger
from manifests import Catalog, PlanLimits, Source
from manifests.symbols import SymbolTable

if TYPE_CHECKING:
    from adapters.simulator import Faults


class Adapters(dict[Source, Adapter]):
    """The adapters of one gateway by source: none before `opened`, then all that it has."""

    def __init__(self, settings: GatewaySettings, parts: Parts, simulated: "Faults | None") -> None:
        self._settings = settings
        self._parts = parts
        self._simulated = simulated
        self._stack = AsyncExitStack()
        self._opening: asyncio.Task[None] | None = None

    async def opened(self) -> None:
        """Open them unless that is done or under way. A caller that leaves does not end it.

        Raises `SettingsError`.
        """
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        parts, settings = self._parts, self._settings
        if self._simulated is not None:
            from adapters.simulator import SimulatedUpstream

            opened = SimulatedUpstream.open(
                parts.catalog,
                seed=settings.simulated_seed,
                now=settings.simulated_now,
                faults=self._simulated,
            )
            upstream = await self._stack.enter_async_context(opened)
            parts = replace(
                parts,
                simulated_url=upstream.base_url,
                lies=self._simulated.lies,
                credentials={m.upstream: SIMULATED_SECRET for m in parts.catalog},
            )
        try:
            for source, provider in PROVIDERS.items():
                if provider.is_open(settings):
                    self[source] = await self._stack.enter_async_context(provider.open(parts))
        except ProviderError as error:
            raise SettingsError(str(error)) from error

    async def aclose(self) -> None:
        """End what was opened, or is about to be."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        await self._stack.aclose()


@asynccontextmanager
async def open_adapters(
    settings: GatewaySettings,
    catalog: Catalog,
    plans: Mapping[str, PlanLimits],
    clock: Clock,
    symbols: SymbolTable,
    store: SharedStore | None = None,
    mcp: McpServers | None = None,
    *,
    lazy: bool = False,
) -> AsyncIterator[Adapters]:
    """Adapters by source; with `lazy` they are not yet opened. With `upstream = simulated` the
    simulated upstream runs as long as they do.

    Raises `SettingsError`, and `OSError` if the quota ledger can't be opened.
    """
    async with AsyncExitStack() as stack:
        parts = Parts(
            settings,
            catalog,
            {h: secret.get_secret_value() for h, secret in settings.credentials.items()},
            symbols,
            embedder=embedder_of(settings),
            mcp=mcp,
        )
        faults = None
        if is_asked(settings):
            allotments = None if store is None else Allotments(store, settings.ledger_name)
            opened = Ledger.open(settings.ledger_path, settings.secrets, plans, clock, allotments)
            ledger = await stack.enter_async_context(opened)
            parts = replace(parts, keys=ledger)
            faults = _faults(settings) if settings.upstream == "simulated" else None
        if store is not None and settings.redis_url is not None:
            url = settings.redis_url.get_secret_value()
            parts = replace(parts, elsewhere=partial(Inbox.open, store, url))
        adapters = Adapters(settings, parts, faults)
        stack.push_async_callback(adapters.aclose)
        if not lazy or settings.market is not None:  # whose data may not be there
            await adapters.opened()
        yield adapters


def _faults(settings: GatewaySettings) -> "Faults":
    """Raises `SettingsError` for an unknown fault or lie, or rates over 1."""
    from adapters.simulator import Fault, Faults, Lie, Lies

    try:
        kinds = tuple(map(Lie, dict.fromkeys(settings.simulated_lie_kinds))) or tuple(Lie)
    except ValueError as error:
        raise SettingsError(
            f"setting simulated_lie_kinds: {error}; there are {', '.join(Lie)}"
        ) from None

    try:
        rates = {Fault(name): rate for name, rate in settings.simulated_faults.items()}
        return Faults(
            settings.simulated_latency_s,
            settings.simulated_failure_rate,
            settings.simulated_hang_rate,
            rates,
            Lies(settings.simulated_lies, kinds, settings.simulated_seed),
        )
    except ValueError as error:
        raise SettingsError(
            f"setting simulated_faults: {error}; there are {', '.join(Fault)}"
        ) from None
