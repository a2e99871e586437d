"""Which episodes of a task become training data: the best ones, or pairs of a better and a worse.

Every episode, pair or task that is left out is counted by its reason.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from bench.runs.reader import ExportError
from bench.suites.suite import Measure, Suite
from manifests.common.nearest import did_you_mean

Form = Literal["sft", "dpo"]

REASONS: Mapping[str, str] = {
    "infrastructure": "episodes failed by the infrastructure",
    "no_answer": "episodes without an answer",
    "no_score": "episodes without a score",
    "not_recorded": "episodes with calls or results that the record lacks",
    "not_in_catalog": "episodes with offered tools that the catalogue lacks",
    "refusal": "refusals",
    "not_offered": "episodes with calls of tools that were not offered",
    "duplicate": "duplicates of other episodes",
    "low_score": "episodes with too low a score",
    "not_best": "episodes that are not the best of their task",
    "single": "tasks with one episode only",
    "none_to_choose": "pairs whose better episode is a refusal or calls tools not offered",
    "small_margin": "pairs with too small a margin",
}
"""Why something was left out, in words."""

MIN_SCORE, MIN_MARGIN = 1.0, 0.5
"""For measures that are shares. A judge that is asked several times may give the same answer scores
that differ by less.
"""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is written. `score` names the measure by which episodes are chosen. With `every`, all
    episodes or pairs are, else the best of each task. `min_score` is for `sft`, `min_margin` for
    `dpo`. About `test_share` of the tasks are for the test.
    """

    form: Form
    score: Measure
    is_reversed: bool
    every: bool = False
    min_score: float = MIN_SCORE
    min_margin: float = MIN_MARGIN
    test_share: float = 0.1
    seed: int = 0

    @classmethod
    def of(
        cls, form: Form, suite: type[Suite], *, score: str | None = None, **given: Any
    ) -> "Selection":
        """The selection by the measure of that name, by default the suite's first. Raises
        `ExportError`.
        """
        names = [measure.name for measure in suite.measures]
        if not names:
            raise ExportError(f"the suite {suite.__name__} has no measure to choose by")
        if score is not None and score not in names:
            text = f"no measure of the suite is named {score!r}; there are: {', '.join(names)}"
            raise ExportError(text + did_you_mean(score, names))
        measure = next(m for m in suite.measures if score in (None, m.name))
        least = "min_score" if form == "sft" else "min_margin"
        if least not in given and not measure.is_share:
            option = f"--{least.replace('_', '-')}"
            raise ExportError(f"{measure.name} is no share from 0 to 1, so {option} is needed")
        less = {metric.name for metric in suite.metrics if metric.better == "less"}
        return cls(form, measure, measure.is_share and measure.name in less, **given)

    def score_of(self, figures: Mapping[str, float | None]) -> float | None:
        """The score of an episode, of which more is better: 1 minus a share of which less is."""
        figure = figures.get(self.score.name)
        if figure is None or not math.isfinite(figure):
            return None
        return 1 - figure if self.is_reversed else float(figure)


@dataclass(slots=True)
class Entry:
    """What choosing needs of an episode. `run` is the index of its run, `content` and `prompt` are
    hashes. One that `may_be_learnt` may be a line of `sft` or be chosen in a pair.
    """

    run: int
    place: int
    score: float
    calls: int
    content: bytes
    prompt: bytes
    may_be_learnt: bool


def reasons(left_out: Mapping[str, int]) -> str:
    """What was left out, in words. `left_out` has only reasons that there were."""
    return ", ".join(f"{left_out[key]} {said}" for key, said in REASONS.items() if key in left_out)


def chosen_of(
    entries: Sequence[Entry], selection: Selection, left_out: Counter[str]
) -> Iterator[tuple[Entry, ...]]:
    """What is written of one task: single episodes, or pairs with the better one first."""
    ordered = _different(entries, left_out)
    if selection.form == "sft":
        good = [entry for entry in ordered if entry.score >= selection.min_score]
        left_out["low_score"] += len(ordered) - len(good)
        taken = good if selection.every else good[:1]
        left_out["not_best"] += len(good) - len(taken)
        yield from ((entry,) for entry in taken)
        return
    if len(ordered) == 1:
        left_out["single"] += 1
        return
    for better, worse in _pairs(ordered, every=selection.every):
        margin = round(better.score - worse.score, 9)
        if margin <= 0 or margin < selection.min_margin:
            left_out["small_margin"] += 1
        elif not better.may_be_learnt:
            left_out["none_to_choose"] += 1
        else:
            yield better, worse


def _pairs(ordered: Sequence[Entry], *, every: bool) -> Iterator[tuple[Entry, Entry]]:
    if not every:
        best = next((entry for entry in ordered if entry.may_be_learnt), ordered[0])
        yield best, min(ordered, key=lambda entry: (entry.score, entry is best, entry.content))
        return
    for place, better in enumerate(ordered):
        for worse in ordered[place + 1 :]:
            yield better, worse


def _different(entries: Sequence[Entry], left_out: Counter[str]) -> list[Entry]:
    """The entries without duplicates, the best first; of those with the same score, the one with
    fewer calls. The score of several is their mean.
    """
    found = defaultdict[bytes, list[Entry]](list)
    for entry in entries:
        found[entry.content].append(entry)
    left_out["duplicate"] += len(entries) - len(found)
    kept = []
    for same in found.values():
        first = min(same, key=lambda entry: (not entry.may_be_learnt, entry.prompt))
        first.score = round(fmean(entry.score for entry in same), 9)
        kept.append(first)
    return sorted(kept, key=lambda entry: (-entry.score, entry.calls, entry.content))
