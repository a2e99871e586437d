"""How similar the texts of a memory are to a question: by embeddings, or by BM25 without a model.

Both are from 0 to 1. Words and vectors of texts are kept, because the same memories are searched
every day, by all sessions of an asset.
"""

from array import array
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import sqrt
from operator import mul

from anyio import to_thread

from adapters.embeddings import Embedder
from manifests.words import LENGTH, SATURATION, rarity, words

CACHED = 4_096
"""The number of texts whose words are kept."""

TEXT_CHARS = 2_000
"""How much of a text is embedded."""

KEPT_BYTES = 128 * 2**20
"""How many bytes of texts and their vectors are kept."""


class Bm25:
    """BM25 over the given texts, divided by that of the best one.

    Dividing makes it comparable with the cosine of embeddings and with the other parts of a
    memory's score. A text that shares no word with the query has 0.
    """

    def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        counts = [word_counts(text) for text in texts]
        lengths = [text.total() for text in counts]
        mean = sum(lengths) / max(len(texts), 1)
        scores = [0.0] * len(texts)
        for word in sorted(word_counts(query)):
            have = [place for place, text in enumerate(counts) if word in text]
            for place in have:
                frequency = counts[place][word]
                norm = 1 - LENGTH + LENGTH * lengths[place] / mean
                weight = rarity(len(have), len(texts))
                scores[place] += weight * frequency / (frequency + SATURATION * norm)
        best = max(scores, default=0.0)
        return [score / best for score in scores] if best else scores


@lru_cache(CACHED)
def word_counts(text: str) -> Counter[str]:
    """How often a text has each word. Not to be changed."""
    return Counter(words(text))


def cosine(one: Counter[str], other: Counter[str]) -> float:
    """The cosine of two texts' word counts, from 0 to 1; 0 if one has no words."""
    lengths = sqrt(sum(n * n for n in one.values()) * sum(n * n for n in other.values()))
    return sum(n * other[word] for word, n in one.items()) / lengths if lengths else 0.0


class Embeddings:
    """The cosine of the vectors of an embedder, and 0 where it is negative."""

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
            vectors |= zip(missing, (array("f", unit(one)) for one in found), strict=True)
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


def _cosines(vectors: Mapping[str, "array[float]"], question: str) -> dict[str, float]:
    asked = vectors[question]
    return {
        text: min(1.0, max(0.0, sum(a * b for a, b in zip(asked, vector, strict=True))))
        for text, vector in vectors.items()
    }


def unit(vector: Sequence[float]) -> tuple[float, ...]:
    """The vector of the same direction that has the length 1."""
    length = sqrt(sum(map(mul, vector, vector))) or 1.0
    return tuple(figure / length for figure in vector)
