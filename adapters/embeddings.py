"""Sources of embedding vectors: an OpenAI-compatible endpoint, or a model on this machine.

The answer of an endpoint is bounded and checked: one vector per text, all of the same length, with
finite numbers only.
"""

import asyncio
from collections.abc import Sequence
from math import isfinite
from typing import Any, Protocol

import aiohttp
import orjson
from anyio import to_thread

from adapters.connector import Connector
from adapters.fault import UpstreamFault, fault_of_status

BATCH = 64
TIMEOUT_S = 60.0

MAX_LENGTH = 8_192
"""The largest number of dimensions of a vector."""

MAX_BYTES = 32 * MAX_LENGTH
"""The largest size of an answer, in bytes per text."""

KEY = "FINPORT_EMBEDDINGS_KEY"
"""The environment variable that holds the endpoint's key."""


class Embedder(Protocol):
    """Turns texts into vectors of the same length, in their order. Raises `UpstreamFault`."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]: ...


class EndpointEmbedder:
    """Sends `POST {base_url}/embeddings` as the OpenAI API defines it. No redirect is followed, so
    the key goes only to `base_url`.
    """

    def __init__(self, base_url: str, model: str, key: str | None = None) -> None:
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._model = model
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(
            connector=Connector(), timeout=timeout, headers=self._headers
        ) as session:
            for start in range(0, len(texts), BATCH):
                vectors += await self._batch(session, texts[start : start + BATCH])
        return vectors

    async def _batch(
        self, session: aiohttp.ClientSession, texts: Sequence[str]
    ) -> list[list[float]]:
        asked = {"model": self._model, "input": list(texts)}
        try:
            async with session.post(self._url, json=asked, allow_redirects=False) as response:
                if response.status == 401 and not self._headers:
                    text = f"the embeddings endpoint answered 401: no key was sent, set {KEY}"
                    raise UpstreamFault("not_configured", text)
                if response.status != 200:
                    raise fault_of_status(response.status, response.headers.get("Retry-After"))
                body = await _body(response, MAX_BYTES * len(texts))
        except (aiohttp.ClientError, TimeoutError) as error:
            text = f"{type(error).__name__} on the way to the embeddings endpoint"
            raise UpstreamFault("unreachable", text, retryable=True) from None
        return await to_thread.run_sync(_vectors, body, len(texts))


async def _body(response: aiohttp.ClientResponse, most: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most:
            response.close()
            raise UpstreamFault("too_large", f"the embeddings endpoint sent over {most} bytes")
    return bytes(body)


def _vectors(body: bytes, texts: int) -> list[list[float]]:
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
        self._name = model
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
        return SentenceTransformer(self._name)
