"""Finding tools for a question, as every door does it: the embedded search and, where an embedder
is set, dense retrieval fused with it. Without the embedder the embedded search stands alone.
"""

import asyncio
import logging

from anyio import to_thread

from adapters.embeddings import Embedder, EndpointEmbedder, LocalEmbedder
from adapters.fault import UpstreamFault
from gateway.settings import GatewaySettings
from manifests import Catalog, Manifest
from manifests.catalog import MAX_QUERY
from manifests.dense import DenseIndex, Ranking, fused, text_of

log = logging.getLogger("finport")

DEPTH = 100
"""How far down each ranking is read when two are fused."""


class ToolFinder:
    """Search over one catalogue, for one event loop."""

    def __init__(self, catalog: Catalog, embedder: Embedder | None = None) -> None:
        self._catalog = catalog
        self._embedder = embedder
        self._index: DenseIndex | None = None
        self._indexing = asyncio.Lock()

    @classmethod
    def of(cls, catalog: Catalog, settings: GatewaySettings) -> "ToolFinder":
        """With the embedder that the settings name, if any."""
        model = settings.embeddings_model
        if model is None:
            return cls(catalog)
        if settings.embeddings_url is None:
            return cls(catalog, LocalEmbedder(model))
        key = settings.embeddings_key
        secret = key.get_secret_value() if key else None
        return cls(catalog, EndpointEmbedder(settings.embeddings_url, model, secret))

    async def find(self, query: str, limit: int, **tags: str | None) -> list[Manifest]:
        """The tools that `query` is about, the best first, of those that carry `tags`."""
        allowed = {m.name for m in self._catalog.select(**tags)}
        query = query[:MAX_QUERY]
        # In a thread: the first search makes the index, and comparing vectors takes 50 ms.
        ranking = await to_thread.run_sync(
            lambda: self._catalog.search.rank(query, max(limit, DEPTH), allowed)
        )
        if self._embedder is not None:
            try:
                dense = await self._dense(self._embedder, query, allowed)
                ranking = fused((ranking, dense), limit)
            except UpstreamFault as fault:
                log.warning("search goes on without embeddings: %s", fault.message)
        found = (self._catalog.get(name) for name, _ in ranking[:limit])
        return [manifest for manifest in found if manifest is not None]

    async def _dense(self, embedder: Embedder, query: str, allowed: set[str]) -> Ranking:
        async with self._indexing:
            if self._index is None:
                tools = list(self._catalog)
                vectors = await embedder.embed([text_of(tool) for tool in tools])
                names = (tool.name for tool in tools)
                self._index = DenseIndex(zip(names, vectors, strict=True))
        (wanted,) = await embedder.embed([query])
        index = self._index
        return await to_thread.run_sync(lambda: index.rank(wanted, DEPTH, allowed))
