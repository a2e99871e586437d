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
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from adapters.embeddings import Embedder
from adapters.fault import UpstreamFault
from gateway.search.embedder import embedder_of
from gateway.search.endpoint_limits import EndpointLimits, NotAskedError
from gateway.settings import GatewaySettings
from manifests import Catalog, Manifest
from manifests.catalog import MAX_QUERY
from manifests.common.files import private_folder, replaced_file
from manifests.dense import DenseIndex, Vector, fused, text_of
from manifests.facets import Intent
from manifests.search import Found

log = logging.getLogger("finport")

Names = tuple[str, ...]
Tags = Mapping[str, str | None]
T = TypeVar("T")

DEPTH = 100
"""How many entries of each ranking are read when two are fused."""

KEPT = 500
"""Rankings that are kept, at 6 KB each and at most 8 KB for the query."""

WAIT_S = 2.0
"""Seconds that the embedder has to embed a query."""

ALLOWED = 16
"""Sets of tools, by who may see them and their tags, that are kept."""

PER_MINUTE = 300
"""Queries a minute of callers without keys: any program or page on the machine may be one."""


def embedder_limits(per_minute: int | None = None) -> EndpointLimits:
    """Limits for the embedder of one event loop."""
    return EndpointLimits("embedder", wait_s=WAIT_S, per_minute=per_minute)


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
    private_folder(file.parent)
    with replaced_file(file) as out:
        for vector in vectors:
            out.write(array("f", vector).tobytes())


@dataclass(frozen=True, slots=True)
class Among:
    """The tools that a caller may see; `whose` tells callers apart who may see others."""

    whose: Hashable
    allows: Callable[[Manifest], bool]


EVERYTHING = Among(None, lambda _: True)


@dataclass(frozen=True, slots=True)
class FoundTools:
    """What a search found: the tools, the best first; how sure it is that the first one fits, and
    whether any does; what was read from the question, and what the first tool has of it.
    """

    tools: list[Manifest]
    sure: float
    fits: bool
    intent: Intent
    why: tuple[str, ...]

    def about(self) -> dict[str, Any]:
        """What is told beside the tools."""
        return {
            "fits": self.fits,
            "sure": self.sure,
            "why": [*self.why],
            "intent": {**self.intent.facets.to_dict(), "names": [*self.intent.names]},
        }


def _keep(kept: OrderedDict[Hashable, T], key: Hashable, value: T) -> T:
    """Keep a value as the one that was used last, and forget the one that was not used longest."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > KEPT:
        kept.popitem(last=False)
    return value


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
        self._kept: OrderedDict[Hashable, FoundTools] = OrderedDict()
        self._allowed: dict[Hashable, frozenset[str]] = {}
        self._kept_near: OrderedDict[Hashable, Names] = OrderedDict()
        self._ranking = CapacityLimiter(1)
        self._version = catalog.version
        self._lacks = False
        self._embedding: asyncio.Task[None] | None = None
        self._ends = False

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
        self._ends = True
        if self._embedding is not None:
            await asyncio.wait({self._embedding})
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait({self._making})

    async def find(self, query: str, limit: int, **tags: str | None) -> list[Manifest]:
        """The tools with these `tags` that match `query`, the best first."""
        return (await self.search(query, tags)).tools[:limit]

    async def search(
        self,
        query: str,
        tags: Tags | None = None,
        among: "Among | None" = None,
        *,
        embeds: bool = True,
    ) -> "FoundTools":
        """The tools with these `tags` that match `query`, and how sure that is; of those `among`
        which a caller may see, if that is given. The embedder that the settings name is asked only
        with `embeds`.
        """
        if self._version != self._catalog.version:
            self._forget()
        query, tags, among = query[:MAX_QUERY], tags or {}, among or EVERYTHING
        found = await self._found(query, tags, among)
        if self._embedder is not None and embeds and query.strip():
            try:
                nearest = await self._nearest(self._embedder, query)
                allowed = {m.name for m in self._catalog.select(**tags) if among.allows(m)}
                nearest = tuple(name for name in nearest if name in allowed)
                rankings = (tuple(tool.name for tool in found.tools), nearest[:DEPTH])
                scored = ([(name, 0.0) for name in some] for some in rankings)
                names = tuple(name for name, _ in fused(scored, len(self._catalog)))
                return replace(found, tools=self._manifests(names, len(names)))
            except NotAskedError:
                pass  # an earlier failure is in the log already
            except UpstreamFault as fault:
                log.warning("search goes on without embeddings: %s", fault.message)
        return found

    async def find_by_vectors(self, query: str, limit: int) -> list[Manifest]:
        """The tools that are nearest to `query` by their vectors. Raises `UpstreamFault`, also
        without an embedder.
        """
        if self._embedder is None:
            raise UpstreamFault("not_configured", "no embeddings model is set")
        if self._version != self._catalog.version:
            self._forget()
        return self._manifests(await self._nearest(self._embedder, query[:MAX_QUERY]), limit)

    async def find_by_words(self, query: str, limit: int) -> list[Manifest]:
        """The tools that share words with `query`, by BM25F alone."""
        query = query[:MAX_QUERY]
        ranked = await self._aside(lambda: self._catalog.search.by_words(query, limit))
        return self._manifests([name for name, _ in ranked], limit)

    async def _found(self, query: str, tags: Tags, among: "Among") -> FoundTools:
        """What the embedded search finds among the tools that carry `tags`."""
        given = sorted((tag, value) for tag, value in tags.items() if value is not None)
        key = (query, among.whose, self._catalog.version, *given)

        def find() -> Found:
            whose = key[1:]
            allowed = self._allowed.get(whose)
            if allowed is None:
                some = (m.name for m in self._catalog.select(**tags) if among.allows(m))
                allowed = frozenset(some)
                if len(self._allowed) >= ALLOWED:
                    self._allowed.clear()
                self._allowed[whose] = allowed
            search = self._catalog.search
            found = search.find(query, allowed)
            self._lacks = search.missing > 0
            return found

        kept = self._kept.get(key)
        if kept is None:
            found = await self._aside(find)
            if self._lacks and self._embedding is None:
                self._embedding = asyncio.create_task(self._embed())
            tools = self._manifests([name for name, _ in found.ranked], len(found.ranked))
            kept = FoundTools(tools, found.sure, found.fits, found.intent, found.why)
        return _keep(self._kept, key, kept)

    def _forget(self) -> None:
        """Keep nothing of other tools than there are now."""
        self._kept.clear()
        self._allowed.clear()
        self._kept_near.clear()
        self._index, self._version = None, self._catalog.version

    async def _embed(self) -> None:
        """Make the vectors of many tools, by which they are found better from then on."""
        try:
            search = await self._aside(lambda: self._catalog.search)
            text = "search reads %d tools; they are found by words alone meanwhile"
            log.info(text, search.missing)
            await to_thread.run_sync(search.embed, lambda: self._ends)
        finally:
            self._embedding = None
        self._forget()

    def _manifests(self, names: Sequence[str], limit: int) -> list[Manifest]:
        found = (self._catalog.get(name) for name in names[:limit])
        return [manifest for manifest in found if manifest is not None]

    async def _nearest(self, embedder: Embedder, query: str) -> Names:
        """All tools, ranked by their vectors, the nearest first."""
        kept, version = self._kept_near.get(query), self._catalog.version
        if kept is not None:
            return _keep(self._kept_near, query, kept)
        if self._limits is None:
            await self._make_index(embedder)
            names = await self._ranked(embedder, query)
        else:
            self._have_index(embedder, self._limits)
            async with self._limits.slot():
                names = await self._ranked(embedder, query)
        return _keep(self._kept_near, query, names) if version == self._catalog.version else names

    async def _aside(self, search: Callable[[], T]) -> T:
        """Search in a thread: a search takes some milliseconds, and the first makes the index."""
        return await to_thread.run_sync(search, limiter=self._ranking)

    async def _ranked(self, embedder: Embedder, query: str) -> Names:
        index = self._index
        if index is None:
            raise NotAskedError("the tools have changed since")
        (wanted,) = await embedder.embed([query])
        if len(wanted) != index.length:
            text = f"the embedder gave {len(wanted)} numbers for a query, {index.length} for tools"
            raise UpstreamFault("invalid", text)
        ranking = await self._aside(lambda: index.rank(wanted, len(self._catalog)))
        return tuple(name for name, _ in ranking)

    async def _make_index(self, embedder: Embedder) -> None:
        async with self._indexing:
            while self._index is None:
                version = self._catalog.version
                tools, cards = list(self._catalog), self._catalog.cards
                texts = [
                    cards[tool.name].text if tool.name in cards else text_of(tool) for tool in tools
                ]
                vectors = await self._embedded(embedder, texts)
                names = (tool.name for tool in tools)
                pairs = zip(names, vectors, strict=True)
                made = await to_thread.run_sync(DenseIndex, pairs)
                if version == self._catalog.version:
                    self._index = made

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
