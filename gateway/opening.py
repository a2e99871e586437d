"""Opens what a gateway's mode needs, and nothing else.

Offline there is no adapter, and no tier behind memory.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from anyio import to_thread

from adapters.adapter import Adapter
from cache import Clock, DiskTier, MemoryTier, Recorder, Snapshot, Tier
from gateway.answers import Answers
from gateway.fetcher import Fetcher
from gateway.kept import KeptAnswers
from gateway.settings import GatewaySettings
from gateway.upstreams.hosts import Hosts, plans_of
from gateway.upstreams.opening import open_upstream
from manifests import Catalog, Source


@asynccontextmanager
async def open_answers(
    settings: GatewaySettings, catalog: Catalog, clock: Clock
) -> AsyncIterator[Answers]:
    """The answers of one gateway.

    Raises `SettingsError`, `SnapshotError`, and `OSError` where the cache can't be opened.
    """
    async with AsyncExitStack() as parts:
        plans = plans_of(settings, catalog)
        adapters: dict[Source, Adapter] = {}
        tiers: list[Tier] = []
        snapshot, recorder = None, None
        if settings.snapshot is not None and settings.mode == "record":
            withheld = {manifest.name for manifest in catalog.select(intent="transactional")}
            opened = Recorder.open(settings.snapshot, settings.cache_name, withheld)
            recorder = await parts.enter_async_context(opened)
        elif settings.snapshot is not None:
            snapshot = await to_thread.run_sync(Snapshot, settings.snapshot)
            parts.callback(snapshot.close)
        if settings.mode != "offline":
            adapters |= await parts.enter_async_context(
                open_upstream(settings, catalog, plans, clock)
            )
            directory = settings.cache_dir / settings.cache_name
            disk = DiskTier.open(directory, settings.disk_bytes)
            tiers.append(await parts.enter_async_context(disk))
        hosts = Hosts(settings, plans)
        kept = KeptAnswers(MemoryTier(settings.memory_bytes), tiers, snapshot, clock)
        fetcher = Fetcher(settings, adapters, hosts, kept, recorder, clock)
        answers = Answers(settings, kept, fetcher, hosts, recorder, clock)
        parts.push_async_callback(answers.close)
        yield answers
