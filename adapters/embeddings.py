"""Where embedding vectors come from: an OpenAI-compatible endpoint, or a model on this machine."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import aiohttp
import orjson
from anyio import to_thread

from adapters.fault import UpstreamFault, fault_of_status

BATCH = 64
TIMEOUT_S = 60.0


class Embedder(Protocol):
    """Turns texts into vectors of one length, in their order. Raises `UpstreamFault`."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]: ...


class EndpointEmbedder:
    """`POST {base_url}/embeddings` as the OpenAI API has it."""

    def __init__(self, base_url: str, model: str, key: str | None = None) -> None:
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._model = model
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout, headers=self._headers) as session:
            for start in range(0, len(texts), BATCH):
                vectors += await self._batch(session, texts[start : start + BATCH])
        return vectors

    async def _batch(
        self, session: aiohttp.ClientSession, texts: Sequence[str]
    ) -> list[list[float]]:
        asked = {"model": self._model, "input": list(texts)}
        try:
            async with session.post(self._url, json=asked) as response:
                body = await response.read()
                if response.status != 200:
                    raise fault_of_status(response.status, response.headers.get("Retry-After"))
        except (aiohttp.ClientError, TimeoutError) as error:
            text = f"{type(error).__name__} on the way to the embeddings endpoint"
            raise UpstreamFault("unreachable", text, retryable=True) from None
        try:
            rows = sorted(orjson.loads(body)["data"], key=lambda row: row["index"])
            vectors = [[float(figure) for figure in row["embedding"]] for row in rows]
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            raise UpstreamFault("invalid", "the embeddings endpoint sent no embeddings") from None
        if len(vectors) != len(texts):
            raise UpstreamFault("invalid", f"{len(vectors)} embeddings for {len(texts)} texts")
        return vectors


class LocalEmbedder:
    """A sentence-transformers model, such as `BAAI/bge-m3`, loaded on first use."""

    def __init__(self, model: str) -> None:
        self._name = model
        self._model: Any = None
        self._loading = asyncio.Lock()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        async with self._loading:
            if self._model is None:
                self._model = await to_thread.run_sync(self._load)
        vectors: list[list[float]] = await to_thread.run_sync(
            lambda: self._model.encode(list(texts), normalize_embeddings=True).tolist()
        )
        return vectors

    def _load(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            text = "sentence-transformers is not installed: pip install 'finport[dense]'"
            raise UpstreamFault("not_configured", text) from None
        return SentenceTransformer(self._name)
