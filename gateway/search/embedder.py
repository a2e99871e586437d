"""The embedder that settings name. The search itself is not imported for it, nor is numpy."""

from typing import TYPE_CHECKING

from gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from adapters.embeddings import Embedder


def embedder_of(settings: GatewaySettings) -> "Embedder | None":
    """The embedder that the settings name, if any."""
    model = settings.embeddings_model
    if model is None:
        return None
    from adapters.embeddings import EndpointEmbedder, LocalEmbedder

    if settings.embeddings_url is None:
        return LocalEmbedder(model)
    key = settings.embeddings_key
    return EndpointEmbedder(settings.embeddings_url, model, key.get_secret_value() if key else None)
