"""Sources of embedding vectors: an OpenAI-compatible endpoint, or a model on this machine.

The answer of an endpoint is bounded and checked: one vector per text, all of the same length, with
finite numbers only.
"""

import asyncio
from collections.abc import Sequence
from math import isfinite
from typing import Any, Protocol

import orjson
from anyio import to_thread

from adapters.fault import UpstreamFault
from adapters.openai import OpenAiEndpoint

BATCH = 64

MAX_LENGTH = 8_192
"""The largest number of dimensions of a vector."""

MAX_BYTES = 32 * MAX_LENGTH
"""The largest size of an answer, in bytes per text."""


class Embedder(Protocol):
    """Turns texts into vectors of the same length, in their order. Raises `UpstreamFault`. `name`
    says which model makes them, and where.
    """

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]: ...


class EndpointEmbedder(OpenAiEndpoint):
    """Sends `POST {base_url}/embeddings` as the OpenAI API defines it."""

    what = "the embeddings endpoint"
    route = "embeddings"
    key_name = "FINPORT_EMBEDDINGS_KEY"
    timeout_s = 60.0

    @property
    def name(self) -> str:
        return f"{self.model} at {self.base_url}"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        async with self.session() as session:
            for start in range(0, len(texts), BATCH):
                batch = list(texts[start : start + BATCH])
                asked = {"model": self.model, "input": batch}
                body = await self.post(session, asked, MAX_BYTES * len(batch))
                vectors += await to_thread.run_sync(_vectors, body, len(batch))
        return vectors


def _vectors(body: bytes | bytearray, texts: int) -> list[list[float]]:
    """Read the vectors in the order of their texts. Raises `UpstreamFault`."""
    try:
        by_index = {row["index"]: row["embedding"] for row in orjson.loads(body)["data"]}
        vectors = [[float(figure) for figure in by_index[index]] for index in range(texts)]
    except (KeyError, TypeError, ValueError, OverflowError):
        text = f"the embeddings endpoint sent no embeddings of {texts} texts"
        raise UpstreamFault("invalid", text) from None
    length = len(vectors[0])
    if not 0 < length <= MAX_LENGTH or len(by_index) != texts:
        text = f"the embeddings endpoint sent {len(by_index)} embeddings of {length} numbers"
        raise UpstreamFault("invalid", f"{text} for {texts} texts")
    if any(len(v) != length or not all(map(isfinite, v)) for v in vectors):
        raise UpstreamFault("invalid", "the embeddings endpoint sent unlike or infinite embeddings")
    return vectors


class LocalEmbedder:
    """A sentence-transformers model, such as `BAAI/bge-m3`, loaded on first use."""

    def __init__(self, model: str) -> None:
        self.name = model
        self._model: Any = None
        self._loading = asyncio.Lock()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        async with self._loading:
            if self._model is None:
                self._model = await to_thread.run_sync(self._load)
        vectors: list[list[float]] = await to_thread.run_sync(
            lambda: self._model.encode(list(texts), normalize_embeddings=True).tolist(),
            abandon_on_cancel=True,
        )
        return vectors

    def _load(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            text = "sentence-transformers is not installed: pip install 'finport[dense]'"
            raise UpstreamFault("not_configured", text) from None
        return SentenceTransformer(self.name)
