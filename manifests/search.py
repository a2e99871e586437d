"""Searches for the tools that fit a question, and says how sure it is.

Three readings of a question are compared with each tool: its words (BM25F over the manifest, and
over questions that people wrote for the packaged tools), its meaning (vectors of a multilingual
sentence encoder, where the package that brings it is installed), and its facets. A linear ranker
weighs them; its weights are in `search.json` and were learnt from the project's own labelled
queries (`finbench retrieval queries --learn`).

The text of a tool is its manifest and, where AkShare is installed, AkShare's own documentation of
the function, which is read from the installed package and stored nowhere. A question is in English,
Chinese or both, and as short as two words or as long as a page. The same manifests and documents
always give the same ranking. Tools of equal score are ranked by name.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from pathlib import Path
from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray

from manifests.akshare_source import AkShareMissingError, akshare_index
from manifests.dense import Encoder, Vectors
from manifests.facets import KINDS, Facets, Intent, facets_of, read, shipped_facets
from manifests.manifest import Manifest
from manifests.spelling import COMMON, Spelling, words_of
from manifests.symbols import Symbols
from manifests.words import CHINESE, LENGTH, SATURATION, Glossary, rarity, words

_FOLDER = Path(__file__).parent
QUESTIONS: Final = _FOLDER / "questions.tsv"
RANKER: Final = _FOLDER / "search.json"

# The weight of a term in each field, and further constants of BM25F.
# The optimum is flat, so values are round: half or double of one moves recall@20 by 0.02 at most.
FIELDS = {
    "name": 3.0,
    "description": 2.0,
    "parameters": 1.0,
    "domains": 1.0,
    "documentation": 0.5,
    "columns": 0.25,
}
REPEATED = 2.0
CONCEPT = 2.0
READ_FROM = 0.8
READ = 500
"""So many characters of a question are read."""

KNOWN_PLACES = 16
"""Sets of allowed tools whose places are kept."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: `ranked` are the tools with their scores, the best first. `sure` is the
    probability that the first one fits, and `fits` whether any tool does. `intent` is what was read
    from the question, and `why` says what the first one has of it.
    """

    ranked: tuple[tuple[str, float], ...]
    sure: float
    fits: bool
    intent: Intent
    why: tuple[str, ...]


class Postings:
    """BM25 over texts in several weighted fields: by term, the texts that have it."""

    def __init__(
        self, counts: Mapping[str, list[Counter[str]]], fields: Mapping[str, float]
    ) -> None:
        self.size = max(map(len, counts.values()), default=0)
        frequencies: defaultdict[str, defaultdict[int, float]]
        frequencies = defaultdict(lambda: defaultdict(float))
        for field, texts in counts.items():
            lengths = [text.total() for text in texts]
            mean = sum(lengths) / max(1, sum(length > 0 for length in lengths))
            for number, (text, length) in enumerate(zip(texts, lengths, strict=True)):
                for term, count in text.items():
                    norm = 1 - LENGTH + LENGTH * length / mean
                    frequencies[term][number] += fields[field] * count / norm
        self._postings: dict[str, tuple[NDArray[np.int32], Floats]] = {}
        for term, having in frequencies.items():
            weight = rarity(len(having), self.size)
            found = np.fromiter(having.values(), float, len(having))
            shares = weight * (SATURATION + 1) * found / (SATURATION + found)
            self._postings[term] = (np.fromiter(having, np.int32, len(having)), shares)

    @property
    def terms(self) -> Collection[str]:
        """The terms that any text has."""
        return self._postings.keys()

    def scores(self, weights: Mapping[str, float]) -> Floats:
        """The score of each text."""
        scores = np.zeros(self.size)
        for term, weight in weights.items():
            if posting := self._postings.get(term):
                scores[posting[0]] += weight * posting[1]
        return scores

    def covered(self, weights: Mapping[str, float]) -> tuple[Floats, Floats]:
        """For each text, which share of the terms of a query it has, by their weights, and the
        weight of the rarest term that it lacks.
        """
        scores, lacks, whole = np.zeros(self.size), np.zeros(self.size), 0.0
        for term, weight in weights.items():
            if term in COMMON:
                continue
            posting = self._postings.get(term)
            rare = weight * self._rarity(term)
            whole += rare
            lacking = np.full(self.size, rare)
            if posting:
                scores[posting[0]] += rare
                lacking[posting[0]] = 0.0
            lacks = np.maximum(lacks, lacking)
        return scores / (whole or 1.0), lacks / rarity(0, self.size)

    def best(self, weights: Mapping[str, float]) -> float:
        """A score that a text would have if each term of a query were prominent in it. A term that
        no text has counts as a rare one.
        """
        total = sum(weight * self._rarity(term) for term, weight in weights.items())
        return total * SATURATION or 1.0

    def _rarity(self, term: str) -> float:
        posting = self._postings.get(term)
        return rarity(len(posting[0]) if posting else 0, self.size)


@dataclass(frozen=True, slots=True)
class Ranker:
    """The weights of the features, of what tells that the first tool fits (`sure`) and that any
    does (`some`), and the least probability of the latter at which it is said.
    """

    weights: Mapping[str, float]
    sure: Mapping[str, float]
    some: Mapping[str, float]
    least: float

    @staticmethod
    @cache
    def load() -> "Ranker":
        return Ranker(**orjson.loads(RANKER.read_bytes()))


class Search:
    """An immutable index over manifests."""

    def __init__(
        self,
        manifests: Iterable[Manifest],
        documents: Mapping[str, str] | None = None,
        *,
        encoder: Encoder | None = None,
        ranker: Ranker | None = None,
        kept: Path | None = None,
    ) -> None:
        """`documents` has more text about a tool, in any language, by the tool's name. `kept` is a
        file of vectors.
        """
        self.glossary, self.symbols = Glossary.load(), Symbols.load()
        self._ranker = Ranker.load() if ranker is None else ranker
        tools = sorted(manifests, key=lambda manifest: manifest.name)
        self.names = [tool.name for tool in tools]
        texts = [_texts(tool, documents or {}) for tool in tools]
        counts = {field: [self._terms(text[field]) for text in texts] for field in FIELDS}
        self._words = Postings(counts, FIELDS)
        asked = questions()
        self._asked = [asked.get(name, ()) for name in self.names]
        self._unasked = np.array([not some for some in self._asked], bool)
        self._owner = np.array(
            [n for n, some in enumerate(self._asked) for _ in some], dtype=np.int32
        )
        every = [
            Counter(term for field in counts.values() for term in field[n])
            + Counter(term for text in self._asked[n] for term in self._terms(text))
            for n in range(len(tools))
        ]
        self._everything = Postings({"all": every}, {"all": 1.0})
        flat = [self._terms(text) for some in self._asked for text in some]
        self._questions = Postings({"question": flat}, {"question": 1.0})
        known = shipped_facets()
        self._tool_facets = [
            known.get(tool.name) or facets_of(f"{tool.name} {tool.description}", self.glossary)
            for tool in tools
        ]
        self._facets = _Matrix(self._tool_facets)
        self._takes_name = np.array([_takes_name(tool) for tool in tools], float)
        self._vectors = None if encoder is None else Vectors(tools, asked, encoder, kept)
        everything = [text for some in self._asked for text in some]
        everything += (text for fields_ in texts for text in fields_.values())
        self.spelling = Spelling(
            {*words_of(everything), *self.glossary.latin(), *self.symbols.latin()},
            {*self.glossary.chinese(), *self.symbols.chinese()},
            (term for term in self._everything.terms if term >= CHINESE),
        )
        self._known_places: dict[frozenset[str], NDArray[np.int64]] = {}
        self._places_of = {name: number for number, name in enumerate(self.names)}

    @property
    def missing(self) -> int:
        """How many tools are found by their words and facets alone until `embed` was called."""
        return 0 if self._vectors is None else len(self._vectors.missing)

    def embed(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Make the vectors that are missing, unless `stop` says so."""
        if self._vectors is not None:
            self._vectors.embed(stop)

    def find(self, question: str, allowed: Collection[str] | None = None) -> Found:
        """The `allowed` tools that have anything of the question, ranked, and how sure that is."""
        intent = self.read(question)
        if not question.strip() or not self.names:
            return Found((), 0.0, False, intent, ())
        features = self.features(intent)
        scores = self._scores(features)
        places = self._places(allowed)
        order = places[np.lexsort((places, -scores[places]))]
        if not len(order):
            return Found((), 0.0, False, intent, ())
        named = self._places_of.get(question.strip())
        if named is not None and named in places:  # the very name of a tool
            order = np.concatenate([[named], order[order != named]])
        evidence = evidence_of(features, scores, order)
        sure, some = (_chance(of, evidence) for of in (self._ranker.sure, self._ranker.some))
        why = _reasons(intent, self._tool_facets[order[0]])
        kept = order[_has_some(features)[order]].tolist()
        ranked = tuple((self.names[n], float(scores[n])) for n in kept)
        fits = bool(ranked) and some >= self._ranker.least
        if named is not None and order[0] == named:
            sure, fits = 1.0, True
        return Found(ranked, round(sure, 3), fits, intent, why)

    def rank(self, query: str, limit: int) -> list[tuple[str, float]]:
        """At most `limit` tools with their scores, the best first."""
        return [*self.find(query).ranked[:limit]]

    def by_words(self, query: str, limit: int) -> list[tuple[str, float]]:
        """As `rank`, by BM25F over the manifests alone; tools that share no term are left out."""
        scores = self._words.scores(self._weights(query))
        places = np.flatnonzero(scores > 0)
        order = places[np.lexsort((places, -scores[places]))][:limit].tolist()
        return [(self.names[n], float(scores[n])) for n in order]

    def find_by_words(self, question: str) -> Found:
        """As `find`, by BM25F over the manifests alone, which says nothing of what fits."""
        ranked = self.by_words(question, len(self.names))
        return Found((*ranked,), 0.0, bool(ranked), Intent(question, Facets(), (), question), ())

    def read(self, question: str) -> Intent:
        """What is asked for."""
        mended = self.spelling.mended(question[:READ])
        return read(mended, self.glossary, self.symbols, self._everything.terms)

    def features(self, intent: Intent) -> dict[str, Floats]:
        """What is compared of a question with each tool, in the order of `names`."""
        found = dict[str, Floats]()
        weights = self._weights(intent.rest)
        lexical = self._words.scores(weights)
        found["words"] = lexical / self._words.best(weights)
        found["words_best"] = lexical / (lexical.max() or 1.0)
        terms = self._weights(intent.rest, implied=False)
        found["covered"], found["lacks"] = self._everything.covered(terms)
        if len(self._owner):
            asked = self._of_tools(self._questions.scores(weights))
            found["asked"] = asked / self._questions.best(weights)
            found["asked_best"] = asked / (asked.max() or 1.0)
        if self._vectors is not None:
            found["meaning"], found["asked_meaning"] = self._vectors.near(
                intent.question, intent.rest
            )
        for name, instead in _INSTEAD.items():
            if name in found and instead in found:  # what nobody wrote questions for
                found[name] = np.where(self._unasked, found[instead], found[name])
        found |= self._facets.compared(intent.facets)
        found["named"] = self._takes_name * bool(intent.names)
        found["unnamed"] = self._takes_name - found["named"]
        found["elsewhere"] = found["country_other"] * bool(intent.names)
        return found

    def _places(self, allowed: Collection[str] | None) -> NDArray[np.int64]:
        if allowed is None:
            return np.arange(len(self.names))
        if not isinstance(allowed, frozenset):
            return self._having(allowed)
        if (known := self._known_places.get(allowed)) is None:
            if len(self._known_places) >= KNOWN_PLACES:
                self._known_places.clear()
            known = self._known_places[allowed] = self._having(allowed)
        return known

    def _having(self, allowed: Collection[str]) -> NDArray[np.int64]:
        return np.array([n for n, name in enumerate(self.names) if name in allowed], dtype=np.int64)

    def _scores(self, features: Mapping[str, Floats]) -> Floats:
        scores = np.zeros(len(self.names))
        for name, values in features.items():
            scores += self._ranker.weights.get(name, 0.0) * values
        return scores

    def _of_tools(self, scores: Floats) -> Floats:
        """The best score of a tool's questions."""
        best = np.zeros(len(self.names))
        np.maximum.at(best, self._owner, scores)
        return best

    def _terms(self, text: str) -> Counter[str]:
        counts = Counter(words(text))
        counts.update(self.glossary.concepts(text))
        return counts

    def _weights(self, query: str, *, implied: bool = True) -> dict[str, float]:
        """The terms of a query with their weights; a concept adds the concepts it is read from."""
        weights = {term: _damped(count) for term, count in Counter(words(query)).items()}
        broader: dict[str, float] = {}
        for concept, count in Counter(self.glossary.concepts(query)).items():
            weights[concept] = CONCEPT * _damped(count)
            for source in self.glossary.read_from(concept) if implied else ():
                broader[source] = max(broader.get(source, 0.0), READ_FROM * weights[concept])
        for source, weight in broader.items():
            weights[source] = max(weights.get(source, 0.0), weight)
        return weights


NEAR, ASKED_NEAR = 0.25, 0.4
"""Cosines from which a tool's text, and a question for it, mean something like the query."""


def _has_some(features: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Which tools have anything of a question: a word, or a meaning that is near."""
    has = features["words"] > 0 if "words" in features else np.zeros(0, bool)
    for name, least in (("asked", 0.0), ("meaning", NEAR), ("asked_meaning", ASKED_NEAR)):
        if name in features:
            has = has | (features[name] > least)
    return has


def _chance(weights: Mapping[str, float], evidence: Mapping[str, float]) -> float:
    total = sum(weights.get(name, 0.0) * value for name, value in evidence.items())
    return 1 / (1 + exp(-max(-30.0, min(30.0, total))))


def evidence_of(
    features: Mapping[str, Floats], scores: Floats, order: NDArray[np.int64]
) -> dict[str, float]:
    """What tells whether the first tool fits: its features, and how far it is before the others."""
    first, some = order[0], order[:5]
    later = scores[order[min(20, len(order) - 1)]]
    return {
        "one": 1.0,
        "score": float(scores[first]),
        "lead": float(scores[first] - later),
        **{name: float(values[first]) for name, values in features.items()},
        **{
            f"{name}_some": float(features[name][some].mean())
            for name in sorted(_SOME & features.keys())
        },
    }


_INSTEAD: Final = {"asked": "words", "asked_best": "words_best", "asked_meaning": "meaning"}
"""What stands in for the questions of a tool that has none, as any tool of a user's own."""

_SOME: Final = {"covered", "meaning", "asked_meaning", "asked", "lacks"}
"""Features of which the mean of the first five tools tells something too."""


class _Matrix:
    """The facets of all tools, to be compared with those of a question."""

    def __init__(self, facets: Sequence[Facets]) -> None:
        self._size = len(facets)
        self._has: dict[tuple[str, str], NDArray[np.bool_]] = {}
        self._first: dict[tuple[str, str], NDArray[np.bool_]] = {}
        self._says = {kind: np.zeros(self._size, bool) for kind in KINDS}
        self._none = np.zeros(self._size, bool)
        for number, one in enumerate(facets):
            for kind in KINDS:
                for place, value in enumerate(getattr(one, kind)):
                    for table in (self._has, self._first)[: 2 - (place > 0)]:
                        table.setdefault((kind, value), self._none.copy())[number] = True
                    self._says[kind][number] = True

    def compared(self, asked: Facets) -> dict[str, Floats]:
        """For each kind of facet: whether a tool has one that is asked for, has it first, or says
        others only.
        """
        found = dict[str, Floats]()
        for kind in KINDS:
            wanted = getattr(asked, kind)
            has, first = self._none.copy(), self._none.copy()
            for value in wanted:
                has |= self._has.get((kind, value), self._none)
                first |= self._first.get((kind, value), self._none)
            if kind == "country":
                anywhere = self._has.get((kind, "any"), self._none) & ~has & bool(wanted)
                found["country_any"] = anywhere.astype(float)
                has |= anywhere
            found[f"{kind}_has"] = has.astype(float)
            found[f"{kind}_first"] = first.astype(float)
            found[f"{kind}_other"] = (self._says[kind] & ~has).astype(float) * bool(wanted)
        return found


_NAMES: Final = """
symbol symbols ticker tickers code stock stocks fund slug performanceid tickerid ticker_ids id is_id
uuid contract ticker_slug
"""
_NAMING = frozenset(_NAMES.split())


def _takes_name(tool: Manifest) -> bool:
    """Whether a tool is about one instrument that the caller names."""
    return any(
        p.name in _NAMING
        and p.enum is None
        and p.filled_by == "agent"
        and "date" not in (p.format or "")
        for p in tool.parameters
    )


def _reasons(intent: Intent, tool: Facets) -> tuple[str, ...]:
    """The facets of a question that a tool has, in words."""
    return tuple(
        f"{kind}: {value}"
        for kind in KINDS
        for value in getattr(intent.facets, kind)
        if value in getattr(tool, kind)
    )


@cache
def questions() -> Mapping[str, tuple[str, ...]]:
    """Questions that people wrote for each packaged tool, in English and Chinese."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
        name, _, question = line.partition("\t")
        found[name].append(question)
    return {name: (*some,) for name, some in found.items()}


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


def _damped(count: int) -> float:
    """The weight of a term that occurs `count` times in a query: 1 for once, never above three."""
    return (REPEATED + 1) * count / (REPEATED + count)
