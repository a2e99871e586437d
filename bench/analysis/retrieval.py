"""Measures how well the tool search finds the labelled tools of questions: recall at K and latency.

recall@K of one question is the share of its labelled tools among the first K found. The mean over
questions is reported (and `micro`, over all labels together; `none` and `all` are the numbers of
questions of which no labelled tool is found, and all are). Leaving out an ingredient shows what
it contributes: AkShare's own documentation, the bilingual glossary, the weights of fields.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import truediv
from statistics import fmean
from typing import Any

from adapters.embeddings import Embedder
from bench.suites.suite import Suite, SuiteError
from gateway.search.finder import DEPTH
from gateway.telemetry.quantile import Quantiles
from manifests import Catalog
from manifests.dense import DenseIndex, Ranking, fused, text_of
from manifests.search import FIELDS, Search, akshare_documents
from manifests.words import Glossary

CUTS = (5, 20, 50)
DEFAULT = "embedded default"
Rank = Callable[[str, int], Ranking]


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


def variants(catalog: Catalog) -> dict[str, Rank]:
    """The search as it is, and the search without each of its ingredients."""
    documents = akshare_documents()
    flat = dict.fromkeys(FIELDS, 1.0)
    none = Glossary([])
    return {
        DEFAULT: catalog.search.rank,
        "without AkShare's documentation": Search(catalog).rank,
        "without the glossary": Search(catalog, documents, glossary=none).rank,
        "without field weights": Search(catalog, documents, fields=flat).rank,
        "words of our texts alone": Search(catalog, glossary=none, fields=flat).rank,
    }


def measure(rank: Rank, questions: Sequence[Question]) -> dict[str, Any]:
    """Recall at `CUTS` and milliseconds a query of a ranking."""
    hits: dict[int, list[int]] = {cut: [] for cut in CUTS}
    latency_ms = Quantiles()
    rank(questions[0].text, 1)
    for question in questions:
        started = time.perf_counter()
        ranked = [name for name, _ in rank(question.text, max(CUTS))]
        latency_ms.add((time.perf_counter() - started) * 1e3)
        for cut in CUTS:
            hits[cut].append(len({*question.tools}.intersection(ranked[:cut])))
    labels = [len({*question.tools}) for question in questions]
    whole = {cut: sum(map(int.__eq__, hits[cut], labels)) for cut in CUTS}
    return {
        "questions": len(questions),
        **{f"recall@{cut}": round(fmean(map(truediv, hits[cut], labels)), 4) for cut in CUTS},
        **{f"micro_recall@{cut}": round(sum(hits[cut]) / sum(labels), 4) for cut in CUTS},
        **{f"none@{cut}": hits[cut].count(0) for cut in CUTS},
        **{f"all@{cut}": whole[cut] for cut in CUTS},
        "latency_ms": latency_ms.result(),
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
