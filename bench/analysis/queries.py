"""The project's own labelled queries: how well the tool search answers them, and what it learns.

`queries.jsonl` has one query a line: its text, language and kind, and every tool that answers it
well; none for those that no tool answers. People wrote and labelled them without the search, and
others read the labels again. The part `held` is a third of the queries of two authors. The search
learns its weights from the part `learn` alone, but `held` was looked at about ten times, and the
threshold `WRONG` was chosen with its figures in view. No question of a published suite is here.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from bench.metrics.interval import rounded, wilson
from gateway.telemetry.quantile import Quantiles
from manifests.facets import KINDS
from manifests.search import RANKER, Found, Ranker, Search, evidence_of

Part = Literal["learn", "held"]
Floats = NDArray[np.float64]
T = TypeVar("T")

FILE: Final = Path(__file__).parent / "queries.jsonl"
CUTS: Final = (1, 5, 20)
WRONG: Final = 0.024
"""The share of answerable queries of which the search may say that nothing fits, when it learns."""

_STEPS, _RATE = 600, 0.1
_FOLDS = 5
_SPOILT = 0.05
_NOTHING = 1.5
"""What a query that no tool answers weighs, since they are fewer."""


@dataclass(frozen=True, slots=True)
class Query:
    """A labelled query; `tools` is empty if no tool answers it."""

    query: str
    language: str
    kind: str
    tools: tuple[str, ...]
    part: Part


@cache
def queries(part: Part) -> tuple[Query, ...]:
    lines = map(orjson.loads, FILE.read_bytes().splitlines())
    found = (Query(**{**line, "tools": tuple(line["tools"])}) for line in lines)
    return tuple(one for one in found if one.part == part)


# --- measuring -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search gave for a query: the place of the first right tool (from 0; None without one),
    the tools that it put first, and whether it said that one fits.
    """

    query: Query
    place: int | None
    first: tuple[str, ...]
    sure: float
    fits: bool


def outcomes(
    find: Callable[[str], Found], asked: Sequence[Query]
) -> tuple[list[Outcome], dict[str, Any]]:
    """What a search gives for each query, and the milliseconds that queries took."""
    results, took = timed(find, [query.query for query in asked])
    return [*map(_outcome, asked, results)], took


def timed(find: Callable[[str], T], texts: Sequence[str]) -> tuple[list[T], dict[str, Any]]:
    """What `find` gives for each text, and the milliseconds that each took."""
    results, took = list[T](), Quantiles()
    find(texts[0])
    for text in texts:
        started = time.perf_counter()
        results.append(find(text))
        took.add((time.perf_counter() - started) * 1e3)
    return results, took.result()


def _outcome(query: Query, result: Found) -> Outcome:
    names = [name for name, _ in result.ranked]
    places = (place for place, name in enumerate(names) if name in query.tools)
    return Outcome(query, next(places, None), (*names[:3],), result.sure, result.fits)


def summary(found: Sequence[Outcome]) -> dict[str, Any]:
    """Shares with intervals: of queries that have tools, a right one within each of `CUTS` and
    "nothing fits" said wrongly; of the others, "nothing fits" said rightly.
    """
    answerable = [one for one in found if one.query.tools]
    others = [one for one in found if not one.query.tools]
    shares: dict[str, Any] = {"queries": len(answerable), "without a tool": len(others)}
    for cut in CUTS:
        within = sum(one.place is not None and one.place < cut for one in answerable)
        shares[f"within {cut}"] = _share(within, len(answerable))
    shares["nothing fits, wrong"] = _share(sum(not one.fits for one in answerable), len(answerable))
    shares["nothing fits, right"] = _share(sum(not one.fits for one in others), len(others))
    return shares


def _share(some: int, whole: int) -> dict[str, Any]:
    return {
        "share": round(some / whole, 4) if whole else None,
        "interval": rounded(wilson(some, whole)),
    }


def by(found: Sequence[Outcome], field: Literal["language", "kind"]) -> dict[str, dict[str, Any]]:
    """A summary for each language or kind."""
    groups: defaultdict[str, list[Outcome]] = defaultdict(list)
    for one in found:
        groups[getattr(one.query, field)].append(one)
    return {name: summary(groups[name]) for name in sorted(groups)}


def worst(found: Sequence[Outcome], most: int = 20) -> list[dict[str, Any]]:
    """The queries whose first right tool comes last."""
    missed = [one for one in found if one.query.tools and (one.place is None or one.place >= 5)]
    missed.sort(key=lambda one: -(one.place if one.place is not None else 10**6))
    return [
        {
            "query": one.query.query,
            "kind": one.query.kind,
            "place": None if one.place is None else one.place + 1,
            "right": [*one.query.tools[:3]],
            "first": [*one.first],
        }
        for one in missed[:most]
    ]


def calibration(found: Sequence[Outcome]) -> list[dict[str, float]]:
    """In fifths of how sure the search was that its first tool fits: how often it did."""
    groups: defaultdict[int, list[Outcome]] = defaultdict(list)
    for one in found:
        groups[min(int(one.sure * 5), 4)].append(one)
    return [
        {
            "queries": len(some),
            "sure": round(fmean(one.sure for one in some), 3),
            "right": round(fmean(one.place == 0 for one in some), 3),
        }
        for _, some in sorted(groups.items())
    ]


# --- learning ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Example:
    features: Mapping[str, Floats]
    right: NDArray[np.int64]

    def matrix(self, names: Sequence[str]) -> Floats:
        return np.stack([self.features[name] for name in names], axis=1)


def learnt(search: Search, asked: Sequence[Query]) -> Ranker:
    """The weights that rank the right tools of these queries first, and tell when none fits.

    Ranking: the likelihood of the right tools under a softmax over all tools, by gradient descent.
    The threshold of "nothing fits" is set on queries that a part of the weights has not seen.
    """
    examples = _examples(search, asked)
    names = [*examples[0].features]
    weights = _ranking(examples, names)
    folds = np.arange(len(examples)) % _FOLDS
    evidence = _evidence(examples, names, weights)
    said, columns = np.zeros(len(examples)), [*evidence[0]]
    table = np.array([[*one.values()] for one in evidence])
    fits = np.array([float(len(one.right) > 0) for one in examples])
    first = np.array([_is_right(one, names, weights) for one in examples], float)
    spoilt = np.array([[*one.values()] for one in _evidence(examples, names, weights, spoilt=True)])
    for fold in range(_FOLDS):
        seen = folds != fold
        part = _ranking(
            [one for one, is_seen in zip(examples, seen, strict=True) if is_seen], names
        )
        own = np.array([[*one.values()] for one in _evidence(examples, names, part)])
        model = _of_some(own[seen], fits[seen], spoilt)
        said[~seen] = _predicted(own[~seen], model)
    least = float(np.quantile(said[fits > 0], WRONG))
    models = (
        _of_some(table, fits, spoilt),
        _logistic(table, first, np.ones(len(first))),
    )
    any_, sure = (dict(zip(columns, np.round(one, 4).tolist(), strict=True)) for one in models)
    rounded_ = dict(zip(names, np.round(weights, 4).tolist(), strict=True))
    return Ranker(rounded_, sure, any_, ceil(100 * least) / 100)


def write_ranker(ranker: Ranker) -> None:
    """Write the weights where the search reads them."""
    RANKER.write_bytes(orjson.dumps(asdict(ranker), option=orjson.OPT_INDENT_2) + b"\n")
    Ranker.load.cache_clear()


PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "without words": ("words", "covered", "lacks"),
    "without written questions": ("asked",),
    "without meaning": ("meaning", "asked_meaning"),
    "without facets": (*KINDS, "named", "unnamed", "elsewhere"),
}
"""The parts of the search, by the beginnings of the names of their features."""

SAME: Final = "without learnt weights"


def ablated(search: Search, asked: Sequence[Query]) -> dict[str, Ranker]:
    """Rankers without each part, learnt anew; and one whose features all weigh the same."""
    examples = _examples(search, asked)
    found = {}
    for part, starts in PARTS.items():
        left_out = {
            name
            for name in examples[0].features
            if name in starts or any(name.startswith(f"{start}_") for start in starts)
        }
        if part == "without written questions":
            left_out.add("asked_meaning")
        names = [name for name in examples[0].features if name not in left_out]
        found[part] = _plain(dict(zip(names, _ranking(examples, names), strict=True)))
    found[SAME] = _plain(
        {name: -1.0 if name.endswith(_AGAINST) else 1.0 for name in examples[0].features}
    )
    return found


_AGAINST = ("_other", "lacks", "unnamed", "elsewhere")
"""The ends of features that speak against a tool."""


def _plain(weights: Mapping[str, float]) -> Ranker:
    return Ranker(weights, {}, {}, 0.0)


def _examples(search: Search, asked: Sequence[Query]) -> "list[_Example]":
    numbers = {name: number for number, name in enumerate(search.names)}
    return [
        _Example(
            search.features(search.read(one.query)),
            np.array([numbers[tool] for tool in one.tools if tool in numbers], dtype=np.int64),
        )
        for one in asked
    ]


def _ranking(examples: Sequence[_Example], names: Sequence[str], smooth: float = 0.002) -> Floats:
    """The weights of features, by Adam on a softmax over tools with a quadratic penalty."""
    having = [one for one in examples if len(one.right)]
    tools = np.stack([one.matrix(names) for one in having]).astype(np.float32)
    right = np.zeros(tools.shape[:2], bool)
    for number, one in enumerate(having):
        right[number, one.right] = True
    weights = np.zeros(len(names))
    for step in _adam(weights):
        scores = tools @ weights.astype(np.float32)
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        wanted = np.where(right, chances, 0.0)
        wanted /= wanted.sum(axis=1, keepdims=True) + 1e-12
        pull = np.einsum("nt,ntk->k", chances - wanted, tools) / len(having)
        step(pull + 2 * smooth * weights)
    return weights


def _adam(weights: Floats, steps: int = _STEPS, rate: float = _RATE) -> Iterator[Any]:
    """Steps of Adam (Kingma and Ba, 2015), each of which is given the gradient."""
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for number in range(1, steps + 1):

        def step(gradient: Floats, number: int = number) -> None:
            mean[:] = 0.9 * mean + 0.1 * gradient
            square[:] = 0.999 * square + 0.001 * gradient**2
            length = np.sqrt(square / (1 - 0.999**number)) + 1e-8
            weights[:] -= rate * mean / (1 - 0.9**number) / length

        yield step


def _order(
    example: _Example, names: Sequence[str], weights: Floats
) -> tuple[Floats, NDArray[np.int64]]:
    scores = example.matrix(names) @ weights
    return scores, np.lexsort((np.arange(len(scores)), -scores))


def _is_right(example: _Example, names: Sequence[str], weights: Floats) -> bool:
    return bool(np.isin(_order(example, names, weights)[1][0], example.right))


def _of_some(table: Floats, fits: Floats, spoilt: Floats) -> Floats:
    """What tells that any tool fits, also from queries whose right tools are left out (`spoilt`);
    these weigh little, since labels may lack a tool.
    """
    weighs = [np.where(fits > 0, 1.0, _NOTHING), np.full(len(spoilt), _SPOILT)]
    is_so = np.concatenate([fits, np.zeros(len(spoilt))])
    return _logistic(np.concatenate([table, spoilt]), is_so, np.concatenate(weighs))


def _evidence(
    examples: Sequence[_Example], names: Sequence[str], weights: Floats, *, spoilt: bool = False
) -> list[dict[str, float]]:
    found = []
    for one in examples:
        scores, order = _order(one, names, weights)
        if spoilt:
            if not len(one.right):
                continue
            order = order[~np.isin(order, one.right)]
        found.append(evidence_of({name: one.features[name] for name in names}, scores, order))
    return found


def _logistic(table: Floats, is_so: Floats, weighs: Floats, smooth: float = 0.01) -> Floats:
    """Logistic regression over columns, of which the first is constant, with a quadratic penalty
    on standardised columns; the weights are for the columns as they are.
    """
    mean, spread = table.mean(axis=0), table.std(axis=0) + 1e-9
    mean[0], spread[0] = 0.0, 1.0
    scaled, weights = (table - mean) / spread, np.zeros(table.shape[1])
    penalty = np.full(len(weights), 2 * smooth)
    penalty[0] = 0.0
    for step in _adam(weights, 2_000, 0.05):
        chance = 1 / (1 + np.exp(-np.clip(scaled @ weights, -30, 30)))
        step((scaled * ((chance - is_so) * weighs)[:, None]).mean(axis=0) + penalty * weights)
    plain = weights / spread
    plain[0] = weights[0] - (weights[1:] * mean[1:] / spread[1:]).sum()
    return np.asarray(plain)


def _predicted(table: Floats, weights: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(table @ weights, -30, 30))))
