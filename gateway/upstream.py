"""Which upstream the gateway talks to: the real ones, or the double in their place."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from adapters.adapter import Adapter
from adapters.akshare import AkShareAdapter
from adapters.rapidapi import RapidApiAdapter
from gateway.settings import GatewaySettings
from manifests import AkShareBinding, Catalog, Source


@asynccontextmanager
async def open_upstream(
    settings: GatewaySettings, catalog: Catalog
) -> AsyncIterator[dict[Source, Adapter]]:
    """Adapters by source. With `upstream = simulated` the double runs as long as they do."""
    async with AsyncExitStack() as parts:
        key = settings.rapidapi_keys[0].get_secret_value() if settings.rapidapi_keys else None
        credentials = {h: secret.get_secret_value() for h, secret in settings.credentials.items()}
        rapidapi_url, akshare_url = settings.rapidapi_base_url, settings.akshare_base_url
        if settings.upstream == "simulated":
            from adapters.double import Faults, UpstreamDouble

            faults = Faults(
                settings.simulated_latency_s,
                settings.simulated_failure_rate,
                settings.simulated_hang_rate,
            )
            double = await parts.enter_async_context(
                UpstreamDouble.open(catalog, seed=settings.simulated_seed, faults=faults)
            )
            rapidapi_url = akshare_url = double.base_url
            key, credentials = "simulated", {m.upstream: "simulated" for m in catalog}
        rapidapi = await parts.enter_async_context(
            RapidApiAdapter.open(
                key=key,
                base_url=rapidapi_url,
                per_host=settings.per_host,
                credentials=credentials,
            )
        )
        akshare = await parts.enter_async_context(
            AkShareAdapter.open(
                [m.binding.function for m in catalog if isinstance(m.binding, AkShareBinding)],
                base_url=akshare_url,
                workers=settings.akshare_workers,
                threads=settings.akshare_threads,
                per_host=settings.per_host,
                credentials=credentials,
            )
        )
        adapters: dict[Source, Adapter] = {"rapidapi": rapidapi, "akshare": akshare}
        if settings.upstream == "simulated":
            from adapters.simulated import SimulatedAkShare

            adapters["akshare"] = await parts.enter_async_context(
                SimulatedAkShare.open(akshare, double.base_url)
            )
        yield adapters
