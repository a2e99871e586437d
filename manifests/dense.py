"""Dense retrieval in addition to the embedded search, and the fusion of both rankings.

An embeddings endpoint or a local model makes the vectors. This module compares them by cosine, and
fuses rankings by reciprocal rank (Cormack, Clarke and Büttcher, SIGIR 2009).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from heapq import nlargest
from math import sqrt
from operator import mul

from manifests.export import describe
from manifests.manifest import Manifest

RANK_CONSTANT = 60

Vector = Sequence[float]
Ranking = list[tuple[str, float]]


class DenseIndex:
    """The vectors of tools, by name."""

    def __init__(self, vectors: Iterable[tuple[str, Vector]]) -> None:
        self._vectors = sorted((name, unit(vector)) for name, vector in vectors)

    @property
    def length(self) -> int:
        """How many numbers a vector has; 0 if the index is empty."""
        return len(self._vectors[0][1]) if self._vectors else 0

    def rank(self, query: Vector, limit: int, allowed: Collection[str] | None = None) -> Ranking:
        """At most `limit` of the `allowed` tools, the nearest to `query` first; ties by name."""
        wanted = unit(query)
        scored = (
            (sum(map(mul, wanted, vector)), name)
            for name, vector in self._vectors
            if allowed is None or name in allowed
        )
        nearest = nlargest(limit, scored, key=lambda pair: pair[0])
        return [(name, score) for score, name in nearest]


def text_of(manifest: Manifest) -> str:
    """The text of a tool to embed: its name in words, its description and its finance tags."""
    return f"{manifest.name.replace('_', ' ')}: {describe(manifest, tags=True)}"


def fused(rankings: Iterable[Ranking], limit: int) -> Ranking:
    """One ranking from several, by reciprocal rank; ties by name."""
    scores: defaultdict[str, float] = defaultdict(float)
    for ranking in rankings:
        for place, (name, _) in enumerate(ranking, 1):
            scores[name] += 1 / (RANK_CONSTANT + place)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit]


def unit(vector: Vector) -> tuple[float, ...]:
    """The vector of the same direction that has the length 1."""
    length = sqrt(sum(map(mul, vector, vector))) or 1.0
    return tuple(figure / length for figure in vector)
