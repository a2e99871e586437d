"""Opens what a gateway's mode needs, and nothing else.

Offline there is no adapter but that of a recorded market, and no tier behind memory. Gateways that
share a Redis then share keys and sessions only.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from anyio import to_thread

from adapters.mcp.servers import McpServers
from cache import Clock, DiskTier, MemoryTier, Recorder, Snapshot, Tier
from gateway.pipeline.answers import Answers
from gateway.pipeline.cached import CachedAnswers
from gateway.settings import GatewaySettings
from gateway.shapes.watch import ShapeWatch
from gateway.sharing.flights import SharedFlights
from gateway.sharing.store import SharedStore
from gateway.upstreams.hosts import Hosts, plans_of
from gateway.upstreams.opening import open_adapters
from manifests import Catalog
from manifests.symbols import SymbolTable


@asynccontextmanager
async def open_answers(
    settings: GatewaySettings,
    catalog: Catalog,
    clock: Clock,
    symbols: SymbolTable,
    mcp: McpServers | None = None,
    *,
    lazy: bool = False,
) -> AsyncIterator[Answers]:
    """The answers of one gateway; with `lazy` no upstream is opened before a call asks one.

    Raises `SettingsError`, `SnapshotError`, and `OSError` where the cache can't be opened.
    """
    async with AsyncExitStack() as parts:
        plans = plans_of(settings, catalog)
        tiers: list[Tier] = []
        snapshot, recorder, store, flights = None, None, None, None
        if settings.redis_url is not None:
            url = settings.redis_url.get_secret_value()
            opened_store = SharedStore.open(url, settings.redis_prefix, clock=clock)
            store = await parts.enter_async_context(opened_store)
            clock = store.clock  # so that ages and spans are the same for all gateways
        if settings.snapshot is not None and settings.mode == "record":
            withheld = {manifest.name for manifest in catalog if manifest.is_for_one}
            opened = Recorder.open(settings.snapshot, settings.cache_name, withheld)
            recorder = await parts.enter_async_context(opened)
        elif settings.snapshot is not None:
            snapshot = await to_thread.run_sync(Snapshot, settings.snapshot)
            parts.callback(snapshot.close)
        adapters = await parts.enter_async_context(
            open_adapters(settings, catalog, plans, clock, symbols, store, mcp, lazy=lazy)
        )
        if settings.mode != "offline":
            directory = settings.cache_dir / settings.cache_name
            disk = DiskTier.open(directory, settings.disk_bytes)
            tiers.append(await parts.enter_async_context(disk))
            if store is not None:
                opened_flights = SharedFlights.open(
                    store, settings.cache_name, settings.redis_bytes
                )
                flights = await parts.enter_async_context(opened_flights)
                tiers.append(flights.tier)
        shapes = None
        if settings.mode != "offline" and settings.shape_share:
            shapes = await parts.enter_async_context(ShapeWatch.open(settings))
        hosts = Hosts(settings, plans, store)
        cached = CachedAnswers(MemoryTier(settings.memory_bytes), tiers, snapshot, clock)
        answers = Answers(
            settings, cached, adapters, hosts, clock, recorder, shapes, flights, store
        )
        parts.push_async_callback(answers.close)
        yield answers
