"""How much each method keeps of what questions need, within each budget."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

from bench.compression.baselines import BASELINES, Plain
from bench.compression.build import BUDGETS
from bench.compression.case import KINDS, LANGUAGES, Case, Part
from bench.metrics.interval import DIGITS, rounded, share, wilson
from gateway.compress.answer import compress
from gateway.compress.budget import Budget
from manifests.common.duration import duration

OURS = "finport"
METHODS = (OURS, *BASELINES)

PROVENANCE = (
    "Answers of tools are simulated: shapes are like those of the upstreams, values are invented.",
    "Documents and tables of a tool's answers to several symbols, and AkShare tables within an "
    "object, are put together by the bench from simulated answers.",
    "InvestorBench: prices and news are those of its files; the price before, changes, means and "
    "numbers of news items are computed from them.",
    "Baselines do not know the question; `spaced rows` of what is no table is the same as `head`.",
    "Questions are made from wordings written for this bench, and what they need is computed from "
    "the answers.",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that our form lost within a budget, with what it gave instead."""

    case: Case
    budget: int
    text: str


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures, as JSON, and the cases that our form lost, in the order of the set."""

    content: dict[str, Any]
    failures: Sequence[Failure]


class _Counts:
    """Kept cases of all, by slice: `all`, `names_cell`, and each kind and language."""

    def __init__(self) -> None:
        self._all, self._kept = Counter[str](), Counter[str]()

    def add(self, case: Case, is_kept: bool) -> None:
        slices = ["all", f"kind {case.kind}", f"language {case.language}"]
        for name in [*slices, "names_cell"] if case.names_cell else slices:
            self._all[name] += 1
            self._kept[name] += is_kept

    def to_json(self) -> dict[str, Any]:
        return {
            "all": self._rate("all"),
            "names_cell": self._rate("names_cell"),
            "kinds": {kind: self._rate(f"kind {kind}") for kind in KINDS},
            "languages": {name: self._rate(f"language {name}") for name in LANGUAGES},
        }

    def _rate(self, name: str) -> dict[str, Any]:
        kept, whole = self._kept[name], self._all[name]
        interval = rounded(wilson(kept, whole))
        return {"kept": kept, "cases": whole, "share": share(kept, whole), "interval": interval}


def measure(
    cases: Sequence[Case],
    seed: int,
    part: Part,
    has_assets: bool,
    tell: Callable[[str], None] = lambda _: None,
    budgets: Sequence[int] = BUDGETS,
) -> Figures:
    """Shorten the answer of each case by every method to every budget, and see what is left.

    `tell` is called with the progress after each answer.
    """
    counts = {(method, limit): _Counts() for method in METHODS for limit in budgets}
    left = {(method, limit): list[float]() for method in METHODS for limit in budgets}
    failures, over, done, progress = list[Failure](), 0, 0, _Progress(len(cases))
    for _, same in groupby(cases, key=lambda case: case.answer.id):
        about = list(same)
        answer = about[0].answer
        plain = Plain(answer)
        cuts = list(_cuts(plain, budgets))
        for case in about:
            for limit in budgets:
                budget = Budget(limit)
                made = compress(answer.entry, budget, case.question, answer.meanings)
                fits = budget.fits(made.text)
                over += not fits
                is_kept = fits and case.needed.kept_in(made.text)
                counts[OURS, limit].add(case, is_kept)
                left[OURS, limit].append(made.tokens / made.of_tokens)
                if not is_kept:
                    failures.append(Failure(case, limit, made.text))
                for method, of_limit, text, tokens in cuts:
                    if of_limit == limit:
                        counts[method, limit].add(case, case.needed.kept_in(text))
                        left[method, limit].append(tokens / made.of_tokens)
        done += len(about)
        tell(progress.text(done))
    content = {
        "seed": seed,
        "part": part,
        "tokens_by": Budget(min(budgets)).encoding,
        **_composition(cases),
        "provenance": _provenance(has_assets),
        "kept": _by(counts, budgets, lambda counted: counted.to_json()),
        "tokens_left_median": _by(left, budgets, _median),
        "over_budget": over,
    }
    return Figures(content, failures)


def _provenance(has_assets: bool) -> list[str]:
    if has_assets:
        return list(PROVENANCE)
    rest = [text for text in PROVENANCE if not text.startswith("InvestorBench")]
    return [*rest, "Only cases over tools: InvestorBench's files were not given."]


def _cuts(plain: Plain, budgets: Sequence[int]) -> Iterator[tuple[str, int, str, int]]:
    """What the baselines make of an answer; they do not know the question."""
    for limit in budgets:
        budget = Budget(limit)
        for method, cut in BASELINES.items():
            text = cut(plain, budget)
            yield method, limit, text, budget.tokens(text)


def _composition(cases: Sequence[Case]) -> dict[str, Any]:
    groups = {case.answer.group for case in cases}
    assets = {group for group in groups if group.startswith("investorbench/")}
    kinds = Counter((case.kind, case.language) for case in cases)
    return {
        "cases": len(cases),
        "names_cell": sum(case.names_cell for case in cases),
        "tools": len(groups - assets),
        "assets": len(assets),
        "answers": len({case.answer.id for case in cases}),
        "forms": dict(sorted(Counter(case.answer.form for case in cases).items())),
        "languages": {name: sum(case.language == name for case in cases) for name in LANGUAGES},
        "kinds": {kind: {name: kinds[kind, name] for name in LANGUAGES} for kind in KINDS},
    }


def _by(
    found: Mapping[tuple[str, int], Any], budgets: Sequence[int], to_json: Callable[[Any], Any]
) -> dict[str, dict[str, Any]]:
    return {
        method: {str(limit): to_json(found[method, limit]) for limit in budgets}
        for method in METHODS
    }


def _median(shares: Sequence[float]) -> float | None:
    return round(median(shares), DIGITS) if shares else None


class _Progress:
    """How far the measurement is, and how long the rest will take."""

    def __init__(self, whole: int) -> None:
        self._whole = whole
        self._began = time.monotonic()

    def text(self, done: int) -> str:
        left = (time.monotonic() - self._began) / done * (self._whole - done)
        return f"measuring: {done} of {self._whole} cases (about {duration(round(left))} left)"
