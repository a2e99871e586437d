"""Searches for the tools that fit a question: BM25F over the manifests, without a model.

The text of a tool is its manifest and, where AkShare is installed, AkShare's own documentation of
the function, which is read from the installed package and stored nowhere. A query is in English,
Chinese or both, and as short as two words or as long as a page. The same manifests and documents
always give the same ranking. Tools of equal score are ranked by name; a tool that shares no term
with the query is not ranked.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from heapq import nsmallest
from math import log

from manifests.akshare_source import AkShareMissingError, akshare_index
from manifests.manifest import Manifest
from manifests.words import Glossary, words

# The weight of a term in each field, and the constants of BM25F (Robertson and Zaragoza, 2009).
# The optimum is flat, so values are round: half or double of one moves recall@20 by 0.02 at most.
FIELDS = {
    "name": 3.0,
    "description": 2.0,
    "parameters": 1.0,
    "domains": 1.0,
    "documentation": 0.5,
    "columns": 0.25,
}
SATURATION = 1.2
LENGTH = 0.75
REPEATED = 2.0
CONCEPT = 2.0
READ_FROM = 0.8


class Search:
    """An immutable index over manifests."""

    def __init__(
        self,
        manifests: Iterable[Manifest],
        documents: Mapping[str, str] | None = None,
        *,
        glossary: Glossary | None = None,
        fields: Mapping[str, float] = FIELDS,
    ) -> None:
        """`documents` has more text about a tool, in any language, by the tool's name. `fields` has
        the weight of each field.
        """
        self._glossary = Glossary.load() if glossary is None else glossary
        tools = sorted(manifests, key=lambda manifest: manifest.name)
        self._names = [tool.name for tool in tools]
        texts = [_texts(tool, documents or {}) for tool in tools]
        self._postings = _postings(
            {field: [self._terms(text[field]) for text in texts] for field in fields}, fields
        )

    def rank(
        self, query: str, limit: int, allowed: Collection[str] | None = None
    ) -> list[tuple[str, float]]:
        """At most `limit` of the `allowed` tools with their scores, the best first."""
        scores = [0.0] * len(self._names)
        for term, weight in self._weights(query).items():
            if posting := self._postings.get(term):
                for tool, share in zip(*posting, strict=True):
                    scores[tool] += weight * share
        found = (
            (-score, tool)
            for tool, score in enumerate(scores)
            if score > 0 and (allowed is None or self._names[tool] in allowed)
        )
        return [(self._names[tool], -score) for score, tool in nsmallest(limit, found)]

    def _terms(self, text: str) -> Counter[str]:
        counts = Counter(words(text))
        counts.update(self._glossary.concepts(text))
        return counts

    def _weights(self, query: str) -> dict[str, float]:
        """The terms of a query with their weights; a concept adds the concepts it is read from."""
        weights = {term: _damped(count) for term, count in Counter(words(query)).items()}
        implied: dict[str, float] = {}
        for concept, count in Counter(self._glossary.concepts(query)).items():
            weights[concept] = CONCEPT * _damped(count)
            for source in self._glossary.read_from(concept):
                implied[source] = max(implied.get(source, 0.0), READ_FROM * weights[concept])
        for source, weight in implied.items():
            weights[source] = max(weights.get(source, 0.0), weight)
        return weights


def akshare_documents() -> dict[str, str]:
    """AkShare's documentation of its functions, by name; empty if it is not installed."""
    try:
        entries = akshare_index()
    except AkShareMissingError:
        return {}
    return {
        entry["name"]: " ".join(
            text
            for text in (
                entry.get("desc"),
                entry.get("limit_desc"),
                *(parameter.get("desc") for parameter in entry.get("params", ())),
            )
            if text
        )
        for entry in entries
    }


def _texts(tool: Manifest, documents: Mapping[str, str]) -> dict[str, str]:
    texts = {
        "description": tool.description,
        "name": tool.name,
        "parameters": " ".join(
            f"{p.name} {p.description}" for p in tool.parameters if p.filled_by == "agent"
        ),
        "domains": " ".join(tool.regulatory_domains),
        "columns": " ".join(column.name for column in tool.columns),
        "documentation": documents.get(tool.name, ""),
    }
    return {field: text.replace("_", " ") for field, text in texts.items()}


def _postings(
    counts: Mapping[str, list[Counter[str]]], fields: Mapping[str, float]
) -> dict[str, tuple["array[int]", "array[float]"]]:
    """For each term, the tools that have it and the share of its weight that each tool gets."""
    size = max(map(len, counts.values()), default=0)
    frequencies: defaultdict[str, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    for field, tools in counts.items():
        lengths = [tool.total() for tool in tools]
        mean = sum(lengths) / max(1, sum(length > 0 for length in lengths))
        for number, (tool, length) in enumerate(zip(tools, lengths, strict=True)):
            for term, count in tool.items():
                norm = 1 - LENGTH + LENGTH * length / mean
                frequencies[term][number] += fields[field] * count / norm
    postings = {}
    for term, tools_with in frequencies.items():
        weight = rarity(len(tools_with), size)
        shares = (
            weight * (SATURATION + 1) * frequency / (SATURATION + frequency)
            for frequency in tools_with.values()
        )
        postings[term] = (array("H", tools_with), array("d", shares))
    return postings


def rarity(having: int, texts: int) -> float:
    """The weight of a term that so many of all texts have (the idf of BM25)."""
    return log(1 + (texts - having + 0.5) / (having + 0.5))


def _damped(count: int) -> float:
    """The weight of a term that occurs `count` times in a query: 1 for once, never above three."""
    return (REPEATED + 1) * count / (REPEATED + count)
