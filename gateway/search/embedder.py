"""The embedder that settings name. The search itself is not imported for it, nor is numpy."""

from adapters.embeddings import Embedder, EndpointEmbedder, LocalEmbedder
from gateway.settings import GatewaySettings


def embedder_of(settings: GatewaySettings) -> Embedder | None:
    """The embedder that the settings name, if any."""
    model = settings.embeddings_model
    if model is None:
        return None
    if settings.embeddings_url is None:
        return LocalEmbedder(model)
    key = settings.embeddings_key
    return EndpointEmbedder(settings.embeddings_url, model, key.get_secret_value() if key else None)
