"""Finds tools for a question by embedded search, and by dense retrieval if an embedder is set.

The two rankings are fused. Without an embedder the embedded search is used alone. The whole API
searches this way. With limits, no search waits long for the embedder, and a flood of searches does
not become a flood of requests to it. One query is ranked at a time, in a thread, so that the event
loop shares the interpreter with one other thread only. Rankings of recent queries are kept.
"""

import asyncio
import logging
from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from pathlib import Path

from anyio import CapacityLimiter, to_thread

from adapters.embeddings import Embedder, EndpointEmbedder, LocalEmbedder
from adapters.fault import UpstreamFault
from gateway.search.endpoint_limits import EndpointLimits, NotAskedError
from gateway.settings import GatewaySettings
from manifests import Catalog, Manifest
from manifests.catalog import MAX_QUERY
from manifests.common.files import replaced_file
from manifests.dense import DenseIndex, Ranking, Vector, fused, text_of

log = logging.getLogger("finport")

Names = tuple[str, ...]

DEPTH = 100
"""How many entries of each ranking are read when two are fused."""

KEPT = 500
"""Rankings that are kept, at 6 KB each and at most 8 KB for the query."""

WAIT_S = 2.0
"""Seconds that the embedder has to embed a query."""

PER_MINUTE = 300
"""Queries a minute of callers without keys: any program or page on the machine may be one."""


def embedder_limits(per_minute: int | None = None) -> EndpointLimits:
    """Limits for the embedder of one event loop."""
    return EndpointLimits("embedder", wait_s=WAIT_S, per_minute=per_minute)


def embedder_of(settings: GatewaySettings) -> Embedder | None:
    """The embedder that the settings name, if any."""
    model = settings.embeddings_model
    if model is None:
        return None
    if settings.embeddings_url is None:
        return LocalEmbedder(model)
    key = settings.embeddings_key
    return EndpointEmbedder(settings.embeddings_url, model, key.get_secret_value() if key else None)


def _read_vectors(file: Path, texts: int) -> list[Vector] | None:
    """The vectors in a file, as 32-bit floats one after another; None if it has none of so many
    texts.
    """
    try:
        read = array("f", file.read_bytes())
    except (OSError, ValueError):
        return None
    length, rest = divmod(len(read), texts)
    if rest or not length or not all(map(isfinite, read)):
        return None
    return [read[at : at + length] for at in range(0, len(read), length)]


def _write_vectors(file: Path, vectors: Iterable[Vector]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(file) as out:
        for vector in vectors:
            out.write(array("f", vector).tobytes())


class ToolFinder:
    """Search over one catalogue, for one event loop. Without `limits` it waits for its embedder."""

    def __init__(
        self,
        catalog: Catalog,
        embedder: Embedder | None = None,
        limits: EndpointLimits | None = None,
        store: Path | None = None,
    ) -> None:
        """`store` is the folder in which the vectors of tools are kept between processes."""
        self._catalog = catalog
        self._embedder = embedder
        self._store = store
        self._limits = limits
        self._index: DenseIndex | None = None
        self._indexing = asyncio.Lock()
        self._making: asyncio.Task[None] | None = None
        self._kept: OrderedDict[Hashable, Names] = OrderedDict()
        self._ranking = CapacityLimiter(1)

    @classmethod
    def of(
        cls, catalog: Catalog, settings: GatewaySettings, limits: EndpointLimits | None = None
    ) -> "ToolFinder":
        """A finder with the embedder that the settings name, if any."""
        embedder = embedder_of(settings)
        if embedder is None:
            return cls(catalog)
        return cls(catalog, embedder, limits, settings.cache_dir / "embeddings")

    async def aclose(self) -> None:
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait({self._making})

    async def find(self, query: str, limit: int, **tags: str | None) -> list[Manifest]:
        """The tools with these `tags` that match `query`, the best first."""
        query = query[:MAX_QUERY]
        found = await self._by_words(query, tags)
        if self._embedder is not None and query.strip():
            try:
                nearest = await self._nearest(self._embedder, query)
                allowed = {m.name for m in self._catalog.select(**tags)}
                nearest = tuple(name for name in nearest if name in allowed)
                rankings = (found[: max(limit, DEPTH)], nearest[:DEPTH])
                scored = ([(name, 0.0) for name in names] for names in rankings)
                found = tuple(name for name, _ in fused(scored, limit))
            except NotAskedError:
                pass  # an earlier failure is in the log already
            except UpstreamFault as fault:
                log.warning("search goes on without embeddings: %s", fault.message)
        return self._manifests(found, limit)

    async def find_by_vectors(self, query: str, limit: int) -> list[Manifest]:
        """The tools that are nearest to `query` by their vectors. Raises `UpstreamFault`, also
        without an embedder.
        """
        if self._embedder is None:
            raise UpstreamFault("not_configured", "no embeddings model is set")
        return self._manifests(await self._nearest(self._embedder, query[:MAX_QUERY]), limit)

    async def find_by_words(self, query: str, limit: int, **tags: str | None) -> list[Manifest]:
        """As `find`, without the embedder."""
        return self._manifests(await self._by_words(query[:MAX_QUERY], tags), limit)

    async def _by_words(self, query: str, tags: Mapping[str, str | None]) -> Names:
        """The tools that carry `tags` and share a term with the query, ranked."""
        key = (query, *sorted((tag, value) for tag, value in tags.items() if value is not None))

        def rank() -> Ranking:
            allowed = {m.name for m in self._catalog.select(**tags)}
            return self._catalog.search.rank(query, len(allowed), allowed)

        names = self._kept.get(key)
        return self._keep(key, await self._aside(rank) if names is None else names)

    def _manifests(self, names: Names, limit: int) -> list[Manifest]:
        found = (self._catalog.get(name) for name in names[:limit])
        return [manifest for manifest in found if manifest is not None]

    async def _nearest(self, embedder: Embedder, query: str) -> Names:
        """All tools, ranked by their vectors, the nearest first."""
        names = self._kept.get(query)
        if names is None:
            if self._limits is None:
                await self._make_index(embedder)
                names = await self._ranked(embedder, query)
            else:
                self._have_index(embedder, self._limits)
                async with self._limits.slot():
                    names = await self._ranked(embedder, query)
        return self._keep(query, names)

    def _keep(self, key: Hashable, names: Names) -> Names:
        self._kept[key] = names
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return names

    async def _aside(self, rank: Callable[[], Ranking]) -> Names:
        """Rank in a thread: words take up to 4 ms, vectors 50 ms, and the first search makes the
        index.
        """
        ranking = await to_thread.run_sync(rank, limiter=self._ranking)
        return tuple(name for name, _ in ranking)

    async def _ranked(self, embedder: Embedder, query: str) -> Names:
        index = self._index
        assert index is not None  # noqa: S101 - it is made before
        (wanted,) = await embedder.embed([query])
        if len(wanted) != index.length:
            text = f"the embedder gave {len(wanted)} numbers for a query, {index.length} for tools"
            raise UpstreamFault("invalid", text)
        return await self._aside(lambda: index.rank(wanted, len(self._catalog)))

    async def _make_index(self, embedder: Embedder) -> None:
        async with self._indexing:
            if self._index is None:
                tools, cards = list(self._catalog), self._catalog.cards
                texts = [
                    cards[tool.name].text if tool.name in cards else text_of(tool) for tool in tools
                ]
                vectors = await self._embedded(embedder, texts)
                names = (tool.name for tool in tools)
                pairs = zip(names, vectors, strict=True)
                self._index = await to_thread.run_sync(DenseIndex, pairs)

    async def _embedded(self, embedder: Embedder, texts: list[str]) -> Sequence[Vector]:
        """The vectors of texts: those that are kept, or new ones, which are kept."""
        if self._store is None:
            return await embedder.embed(texts)
        about = blake2b("\0".join((embedder.name, *texts)).encode(), digest_size=16).hexdigest()
        file = self._store / f"{about}.f32"
        kept = await to_thread.run_sync(_read_vectors, file, len(texts))
        if kept is not None:
            return kept
        vectors = await embedder.embed(texts)
        try:
            await to_thread.run_sync(_write_vectors, file, vectors)
        except OSError as error:
            log.warning("embeddings are not kept: %s: %s", file, error.strerror)
        return vectors

    def _have_index(self, embedder: Embedder, limits: EndpointLimits) -> None:
        """Start making the index, which may take minutes; until then raises `NotAskedError`."""
        if self._index is not None:
            return
        if self._making is None:
            limits.check()
            self._making = asyncio.create_task(self._make_index(embedder))
            self._making.add_done_callback(lambda task: self._made(task, limits))
        raise NotAskedError("the embeddings of tools are being made")

    def _made(self, task: asyncio.Task[None], limits: EndpointLimits) -> None:
        self._making = None
        if task.cancelled() or (error := task.exception()) is None:
            return
        limits.pause()
        log.warning("search goes on without embeddings: %s", error)
