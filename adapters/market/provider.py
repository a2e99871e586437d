"""A recorded market as a provider, which a gateway has if its settings name the data."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from adapters.provider import Parts, Provider, ProviderError

if TYPE_CHECKING:
    from adapters.adapter import Adapter


@asynccontextmanager
async def _open(parts: Parts) -> AsyncIterator["Adapter"]:
    from adapters.market.adapter import MarketAdapter
    from adapters.market.prices import MarketError

    settings = parts.settings
    assert settings.market is not None  # noqa: S101 - `is_open` says so
    opened = MarketAdapter.open(
        settings.market,
        most=settings.market_sessions,
        idle_s=settings.market_idle_s,
        worker=settings.worker,
        shared=settings.shared_folder,
        elsewhere=parts.elsewhere,
        embedder=parts.embedder,
    )
    try:
        async with opened as market:
            yield market
    except MarketError as error:
        raise ProviderError(f"setting market: {error}") from error


MARKET = Provider(
    "market", "recorded market", _open, is_open=lambda settings: settings.market is not None
)
