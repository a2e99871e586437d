"""Opens the gateway's upstreams: the real ones, or the simulated upstream in their place."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from adapters.adapter import Adapter
from adapters.akshare.adapter import AkShareAdapter
from adapters.rapidapi.adapter import RapidApiAdapter
from cache import Clock
from gateway.settings import SIMULATED_SECRET, GatewaySettings, SettingsError
from gateway.sharing.allotments import Allotments
from gateway.sharing.store import SharedStore
from gateway.upstreams.quota import Ledger
from manifests import AkShareBinding, Catalog, PlanLimits, Source

if TYPE_CHECKING:
    from adapters.simulator import Faults


@asynccontextmanager
async def open_upstream(
    settings: GatewaySettings,
    catalog: Catalog,
    plans: Mapping[str, PlanLimits],
    clock: Clock,
    store: SharedStore | None = None,
) -> AsyncIterator[dict[Source, Adapter]]:
    """Adapters by source. With `upstream = simulated` the simulated upstream runs as long as they
    do.

    Raises `OSError` if the quota ledger can't be opened.
    """
    async with AsyncExitStack() as parts:
        credentials = {h: secret.get_secret_value() for h, secret in settings.credentials.items()}
        rapidapi_url, akshare_url = settings.rapidapi_base_url, settings.akshare_base_url
        if settings.upstream == "simulated":
            from adapters.simulator import SimulatedUpstream

            faults = _faults(settings)
            simulated = await parts.enter_async_context(
                SimulatedUpstream.open(catalog, seed=settings.simulated_seed, faults=faults)
            )
            rapidapi_url = akshare_url = simulated.base_url
            credentials = {m.upstream: SIMULATED_SECRET for m in catalog}
        allotments = None
        if store is not None:
            allotments = Allotments(store, settings.ledger_name)
        opened = Ledger.open(settings.ledger_path, settings.secrets, plans, clock, allotments)
        ledger = await parts.enter_async_context(opened)
        rapidapi = await parts.enter_async_context(
            RapidApiAdapter.open(
                keys=ledger,
                hosts={m.upstream for m in catalog if m.source == "rapidapi"},
                base_url=rapidapi_url,
                credentials=credentials,
                secrets=settings.secrets,
            )
        )
        akshare = await parts.enter_async_context(
            AkShareAdapter.open(
                [m.binding.function for m in catalog if isinstance(m.binding, AkShareBinding)],
                base_url=akshare_url,
                workers=settings.akshare_workers,
                threads=settings.akshare_threads,
                worker_bytes=settings.akshare_worker_bytes,
                credentials=credentials,
            )
        )
        adapters: dict[Source, Adapter] = {"rapidapi": rapidapi, "akshare": akshare}
        if settings.upstream == "simulated":
            from adapters.simulated import SimulatedAkShare

            adapters["akshare"] = await parts.enter_async_context(
                SimulatedAkShare.open(akshare, simulated.base_url)
            )
        yield adapters


def _faults(settings: GatewaySettings) -> "Faults":
    """Raises `SettingsError` for a fault that the simulated upstream lacks, or rates over 1."""
    from adapters.simulator import Fault, Faults

    try:
        rates = {Fault(name): rate for name, rate in settings.simulated_faults.items()}
        return Faults(
            settings.simulated_latency_s,
            settings.simulated_failure_rate,
            settings.simulated_hang_rate,
            rates,
        )
    except ValueError as error:
        raise SettingsError(
            f"setting simulated_faults: {error}; there are {', '.join(Fault)}"
        ) from None
