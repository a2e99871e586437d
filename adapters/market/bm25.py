"""How similar texts in English or Chinese are to a query: BM25, without a model."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import log

from manifests.words import words

# The usual constants (Robertson and Zaragoza, 2009).
SATURATION = 1.2
LENGTH = 0.75

CACHED = 4_096
"""The number of texts whose words are kept."""


class Bm25:
    """Similarities from 0 to 1: BM25 over the given texts, divided by that of the best one.

    Dividing makes them comparable with the cosine of embeddings and with the other parts of a
    memory's score. A text that shares no word with the query has 0. The words of recent texts are
    kept, because the same memories are searched every day.
    """

    def __init__(self) -> None:
        self._counts = lru_cache(CACHED)(_counts)

    def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        counts = [self._counts(text) for text in texts]
        lengths = [text.total() for text in counts]
        mean = sum(lengths) / max(len(texts), 1)
        scores = [0.0] * len(texts)
        for word in sorted(_counts(query)):
            have = [place for place, text in enumerate(counts) if word in text]
            rarity = log(1 + (len(texts) - len(have) + 0.5) / (len(have) + 0.5))
            for place in have:
                frequency = counts[place][word]
                norm = 1 - LENGTH + LENGTH * lengths[place] / mean
                scores[place] += rarity * frequency / (frequency + SATURATION * norm)
        best = max(scores, default=0.0)
        return [score / best for score in scores] if best else scores


def _counts(text: str) -> Counter[str]:
    return Counter(words(text))
