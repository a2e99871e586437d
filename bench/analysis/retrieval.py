"""Measures how well the tool search finds the labelled tools of questions: recall at K and latency.

recall@K of one question is the share of its labelled tools among the first K found. The mean over
questions is reported (and `micro`, over all labels together; `none` and `all` are the numbers of
questions of which no labelled tool is found, and all are). Leaving out a part shows what it brings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import truediv
from statistics import fmean
from typing import Any

from adapters.embeddings import Embedder
from bench.analysis.queries import ablated, queries, timed
from bench.suites.suite import Suite, SuiteError
from gateway.search.finder import DEPTH
from manifests import Catalog
from manifests.dense import DenseIndex, Ranking, embedded_encoder, fused, text_of
from manifests.search import Found, Search, akshare_documents

CUTS = (5, 20, 50)
DEFAULT = "embedded default"
WORDS = "words alone"
Rank = Callable[[str, int], Ranking]
Find = Callable[[str], Found]


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the tools that its labels name."""

    text: str
    tools: tuple[str, ...]


def questions_of(suite: Suite) -> list[Question]:
    """The labelled questions of a suite. Raises `SuiteError` if it has none."""
    if suite.offers_tools:
        raise SuiteError(f"{suite.name} says itself which tools are offered: none is searched for")
    questions = [
        Question(task.question, tuple(call.name for call in task.tools))
        for task in suite.tasks
        if task.tools
    ]
    if not questions:
        raise SuiteError(f"the tasks of {suite.name} are not labelled with tools")
    return questions


def searches(catalog: Catalog) -> dict[str, Find]:
    """The search without each of its parts, and by words alone. For each part that is left out the
    weights of the others are learnt anew from our own queries.
    """
    documents, encoder = akshare_documents(), embedded_encoder()
    found: dict[str, Find] = {
        name: Search(catalog, documents, encoder=encoder, ranker=ranker).find
        for name, ranker in ablated(catalog.search, queries("learn")).items()
    }
    return {**found, WORDS: catalog.search.find_by_words}


def variants(catalog: Catalog) -> dict[str, Rank]:
    """The search as it is, and as in `searches`."""

    def rank_of(find: Find) -> Rank:
        return lambda text, limit: [*find(text).ranked[:limit]]

    found = {name: rank_of(find) for name, find in searches(catalog).items()}
    return {DEFAULT: catalog.search.rank, **found}


def measure(rank: Rank, questions: Sequence[Question]) -> dict[str, Any]:
    """Recall at `CUTS` and milliseconds a query of a ranking."""
    texts = [question.text for question in questions]
    found, took = timed(lambda text: [name for name, _ in rank(text, max(CUTS))], texts)
    hits = {
        cut: [len({*q.tools}.intersection(r[:cut])) for q, r in zip(questions, found, strict=True)]
        for cut in CUTS
    }
    labels = [len({*question.tools}) for question in questions]
    whole = {cut: sum(map(int.__eq__, hits[cut], labels)) for cut in CUTS}
    return {
        "questions": len(questions),
        **{f"recall@{cut}": round(fmean(map(truediv, hits[cut], labels)), 4) for cut in CUTS},
        **{f"micro_recall@{cut}": round(sum(hits[cut]) / sum(labels), 4) for cut in CUTS},
        **{f"none@{cut}": hits[cut].count(0) for cut in CUTS},
        **{f"all@{cut}": whole[cut] for cut in CUTS},
        "latency_ms": took,
    }


async def dense_variants(
    catalog: Catalog, questions: Sequence[Question], embedder: Embedder
) -> dict[str, Rank]:
    """Dense retrieval alone, and fused with the embedded default. Raises `UpstreamFault`.

    The questions are embedded beforehand, so the measured latency is that of ranking.
    """
    tools = list(catalog)
    vectors = await embedder.embed([text_of(tool) for tool in tools])
    index = DenseIndex(zip((tool.name for tool in tools), vectors, strict=True))
    texts = [question.text for question in questions]
    asked = dict(zip(texts, await embedder.embed(texts), strict=True))

    def dense(text: str, limit: int) -> Ranking:
        return index.rank(asked[text], limit)

    def hybrid(text: str, limit: int) -> Ranking:
        return fused((catalog.search.rank(text, DEPTH), dense(text, DEPTH)), limit)

    return {"dense": dense, "hybrid": hybrid}
