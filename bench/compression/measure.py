"""How much each method keeps of what questions need, within each budget."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

from bench.compression.baselines import BASELINES, Plain
from bench.compression.build import BUDGETS
from bench.compression.case import KINDS, LANGUAGES, Case, Part
from bench.metrics.interval import DIGITS, rounded, share, wilson
from gateway.compress.answer import compress
from gateway.compress.budget import DEFAULT_ENCODING, Budget

OURS = "finport"
METHODS = (OURS, *BASELINES)

PROVENANCE = (
    "Answers of tools are simulated: shapes are like those of the upstreams, values are invented.",
    "Documents and tables of a tool's answers to several symbols, and AkShare tables within an "
    "object, are put together by the bench from simulated answers.",
    "InvestorBench: prices and news are those of its files; the price before, changes, means and "
    "numbers of news items are computed from them.",
    "Baselines do not know the question.",
    "Questions are made from wordings written for this bench, and what they need is computed from "
    "the answers.",
)


@dataclass(frozen=True, slots=True)
class Shortened:
    """What a method made of a case's answer within a budget, whether all needed cells are in it,
    and which share of the answer's tokens it has.
    """

    case: Case
    method: str
    budget: int
    text: str
    is_kept: bool
    left: float
    fits: bool


def measure(cases: Sequence[Case], tell: Callable[[str], None]) -> list[Shortened]:
    """Shorten the answer of each case by every method to every budget. `tell` is called with the
    progress.
    """
    found = list[Shortened]()
    for at, (_, same) in enumerate(groupby(cases, key=lambda case: case.answer.id)):
        about = list(same)
        answer, plain = about[0].answer, Plain(about[0].answer)
        if at % 20 == 0:
            tell(f"measuring: {len(found) // len(BUDGETS) // len(METHODS)} of {len(cases)} cases")
        for limit in BUDGETS:
            budget = Budget(limit)
            cuts = [(method, cut(plain, budget)) for method, cut in BASELINES.items()]
            for case in about:
                made = compress(answer.entry, budget, case.question, answer.meanings)
                for method, text in ((OURS, made.text), *cuts):
                    fits, left = budget.fits(text), budget.tokens(text) / made.of_tokens
                    is_kept = fits and case.needed.kept_in(text)
                    found.append(Shortened(case, method, limit, text, is_kept, left, fits))
    return found


def figures(
    found: Sequence[Shortened], seed: int, part: Part, *, has_assets: bool
) -> dict[str, Any]:
    """All figures as JSON: the set, the share of kept cases, and the tokens that are left."""
    cases = [*{one.case.id: one.case for one in found}.values()]
    groups = {case.answer.group for case in cases}
    assets = {group for group in groups if group.startswith("investorbench/")}
    kinds = Counter((case.kind, case.language) for case in cases)
    by = defaultdict[tuple[str, int], list[Shortened]](list)
    for one in found:
        by[one.method, one.budget].append(one)
    return {
        "seed": seed,
        "part": part,
        "tokens_by": DEFAULT_ENCODING,
        "cases": len(cases),
        "names_cell": sum(case.names_cell for case in cases),
        "tools": len(groups - assets),
        "assets": len(assets),
        "answers": len({case.answer.id for case in cases}),
        "forms": dict(sorted(Counter(case.answer.form for case in cases).items())),
        "languages": {name: sum(case.language == name for case in cases) for name in LANGUAGES},
        "kinds": {kind: {name: kinds[kind, name] for name in LANGUAGES} for kind in KINDS},
        "provenance": _provenance(has_assets),
        "kept": {m: {str(limit): _rates(by[m, limit]) for limit in BUDGETS} for m in METHODS},
        "tokens_left_median": {
            method: {
                str(limit): _median(one.left for one in by[method, limit]) for limit in BUDGETS
            }
            for method in METHODS
        },
        "over_budget": sum(not one.fits for one in found if one.method == OURS),
    }


def _provenance(has_assets: bool) -> list[str]:
    if has_assets:
        return list(PROVENANCE)
    rest = [text for text in PROVENANCE if not text.startswith("InvestorBench")]
    return [*rest, "Only cases over tools: InvestorBench's files were not given."]


def _rates(found: Sequence[Shortened]) -> dict[str, Any]:
    return {
        "all": _rate(found),
        "names_cell": _rate([one for one in found if one.case.names_cell]),
        "kinds": {kind: _rate([one for one in found if one.case.kind == kind]) for kind in KINDS},
        "languages": {
            name: _rate([one for one in found if one.case.language == name]) for name in LANGUAGES
        },
    }


def _rate(found: Sequence[Shortened]) -> dict[str, Any]:
    kept, whole = sum(one.is_kept for one in found), len(found)
    interval = rounded(wilson(kept, whole))
    return {"kept": kept, "cases": whole, "share": share(kept, whole), "interval": interval}


def _median(shares: Iterable[float]) -> float | None:
    listed = [*shares]
    return round(median(listed), DIGITS) if listed else None
