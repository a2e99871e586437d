"""How similar the texts of a memory are to a question, by embeddings.

The cosine of two vectors, and 0 where it is negative, so that it has the range of BM25's. Vectors
of texts are kept, because the same memories are searched every day, by all sessions of an asset.
"""

from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from math import sqrt

from anyio import to_thread

from adapters.embeddings import Embedder

TEXT_CHARS = 2_000
"""How much of a text is embedded."""

KEPT_BYTES = 128 * 2**20
"""How many bytes of texts and their vectors are kept."""


class Embeddings:
    """Similarities by an embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: OrderedDict[str, array[float]] = OrderedDict()
        self._bytes = 0

    async def similarities(self, question: str, texts: Sequence[str]) -> Mapping[str, float]:
        """By text, how similar it is to the question, from 0 to 1. Raises `UpstreamFault`."""
        wanted = dict.fromkeys((question, *texts))
        vectors = {text: self._kept[text] for text in wanted if text in self._kept}
        missing = [text for text in wanted if text not in vectors]
        if missing:
            found = await self._embedder.embed([text[:TEXT_CHARS] or " " for text in missing])
            vectors |= zip(missing, map(_unit, found), strict=True)
            for text in missing:
                self._keep(text, vectors[text])
        return await to_thread.run_sync(_cosines, vectors, question)

    def _keep(self, text: str, vector: "array[float]") -> None:
        if text in self._kept:
            return
        self._kept[text] = vector
        self._bytes += _size(text, vector)
        while self._bytes > KEPT_BYTES:
            self._bytes -= _size(*self._kept.popitem(last=False))


def _size(text: str, vector: "array[float]") -> int:
    return len(text.encode()) + len(vector) * vector.itemsize


def _unit(vector: Sequence[float]) -> "array[float]":
    length = sqrt(sum(figure * figure for figure in vector)) or 1.0
    return array("f", (figure / length for figure in vector))


def _cosines(vectors: Mapping[str, "array[float]"], question: str) -> dict[str, float]:
    asked = vectors[question]
    return {
        text: min(1.0, max(0.0, sum(a * b for a, b in zip(asked, vector, strict=True))))
        for text, vector in vectors.items()
    }
