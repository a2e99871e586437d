"""How far judges or people agree on the same episodes, by metric."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from statistics import correlation, fmean, median
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.json_lines import IncompleteLineError, JsonLinesError, values
from bench.record import EpisodeRecord
from manifests.common.problem import first_problem

SCORE = "score"
"""Stands for the scores of judges that score no metrics by name."""

Scores = dict[str, dict[str, float]]
"""By metric and episode, the median of a judge's scores."""


def scores_of(episodes: Iterable[EpisodeRecord]) -> tuple[Scores, Counter[str]]:
    """The scores in the judgements of episodes, and how many are of which judge."""
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    judges: Counter[str] = Counter()
    for episode in episodes:
        if (judgement := episode.judgement) is None:
            continue
        judges[judgement.judge] += 1
        for name, scores in {SCORE: judgement.scores, **judgement.by_metric}.items():
            if scores:
                found[name][episode.episode] = float(median(scores))
    return dict(found), judges


def agreement(a: Scores, b: Scores) -> dict[str, dict[str, Any]]:
    """By metric: how many episodes both judges scored, the share of equal scores, the means, kappa
    and rho.
    """
    result: dict[str, dict[str, Any]] = {}
    for name in [*a, *(name for name in b if name not in a)]:
        ours, theirs = a.get(name, {}), b.get(name, {})
        pairs = [(ours[e], theirs[e]) for e in sorted(ours.keys() & theirs.keys())]
        n = len(pairs)
        figures = {
            "equal": fmean(x == y for x, y in pairs) if n else None,
            "mean_a": fmean(x for x, _ in pairs) if n else None,
            "mean_b": fmean(y for _, y in pairs) if n else None,
            "kappa": weighted_kappa(pairs),
            "rho": spearman(pairs),
        }
        result[name] = {
            "episodes": n,
            "only_a": len(ours) - n,
            "only_b": len(theirs) - n,
            **{key: f if f is None else round(f, 6) for key, f in figures.items()},
        }
    return result


def weighted_kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Cohen's kappa with quadratic weights (Psychological Bulletin 70(4), 1968): 1 minus the mean
    squared difference of the pairs, over that of all pairs by chance. 1 is full agreement, 0 that
    of chance. None where chance itself has no difference, so that nothing can be said.
    """
    if not pairs:
        return None
    observed = sum((Fraction(x) - Fraction(y)) ** 2 for x, y in pairs) * len(pairs)
    first, second = Counter(x for x, _ in pairs), Counter(y for _, y in pairs)
    expected = len(pairs) * (_sum(first, 2) + _sum(second, 2)) - 2 * _sum(first, 1) * _sum(
        second, 1
    )
    return float(1 - observed / expected) if expected else None


def _sum(counts: Counter[float], power: int) -> Fraction:
    return sum((n * Fraction(x) ** power for x, n in counts.items()), Fraction(0))


def cohens_kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Cohen's kappa (Educational and Psychological Measurement 20(1), 1960): the share of equal
    pairs beyond that of chance, by the most that it could be. None where all is equal by chance.
    """
    if not pairs:
        return None
    first, second = Counter(x for x, _ in pairs), Counter(y for _, y in pairs)
    chance = Fraction(sum(n * second[x] for x, n in first.items()), len(pairs) ** 2)
    observed = Fraction(sum(x == y for x, y in pairs), len(pairs))
    return float((observed - chance) / (1 - chance)) if chance != 1 else None


def krippendorffs_alpha(units: Iterable[Sequence[float]]) -> float | None:
    """Krippendorff's alpha for interval data (Content Analysis, 2004, chapter 11): 1 minus the
    observed over the expected squared difference of the values within a unit. `units` has for each
    episode the scores of all who scored it; one with a single score counts as none. None where
    nothing differs.
    """
    paired = [[Fraction(value) for value in unit] for unit in units if len(unit) > 1]
    values = [value for unit in paired for value in unit]
    observed = sum((_spread(unit) / (len(unit) - 1) for unit in paired), start=Fraction(0))
    expected = _spread(values) / (len(values) - 1) if values else Fraction(0)
    return float(1 - observed / expected) if expected else None


def _spread(values: Sequence[Fraction]) -> Fraction:
    """The sum of the squared differences of all ordered pairs."""
    total, squares = sum(values, Fraction(0)), sum((v * v for v in values), Fraction(0))
    return 2 * (len(values) * squares - total**2)


MOST_RATERS = 50
"""The most raters of a metric, each two of whom are compared."""


class LabelsError(Exception):
    """Labels can't be read; the text names the place and the reason."""


class _Label(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    id: str
    metric: str
    rater: str
    score: float = Field(allow_inf_nan=False)


Labels = dict[str, dict[str, dict[str, float]]]
"""By metric and rater, the score of each episode."""


def read_labels(file: Path) -> Labels:
    """Labels from JSON Lines of `id` (of an episode), `metric`, `rater` and `score`. Raises
    `LabelsError`, also where a rater scores a metric of an episode twice.
    """
    labels: Labels = {}
    try:
        for value, line in values(file, orjson.loads):
            try:
                label = _Label.model_validate(value)
            except ValidationError as error:
                raise line.error(first_problem(error)) from error
            of = labels.setdefault(label.metric, {}).setdefault(label.rater, {})
            if label.id in of:
                raise line.error(f"{label.rater} scores {label.metric} of {label.id} twice")
            of[label.id] = label.score
    except (JsonLinesError, IncompleteLineError) as error:
        raise LabelsError(str(error)) from error
    if any(len(raters) > MOST_RATERS for raters in labels.values()):
        raise LabelsError(f"{file}: over {MOST_RATERS} raters score one metric")
    if not labels:
        raise LabelsError(f"{file} holds no labels")
    return labels


def of_raters(labels: Labels) -> list[dict[str, Any]]:
    """By metric: the raters, the episodes that more than one of them scored, alpha over all raters,
    and for each two of them both kinds of Cohen's kappa. Means of scores are by episode.
    """
    rows: list[dict[str, Any]] = []
    for metric, raters in sorted(labels.items()):
        units: defaultdict[str, list[float]] = defaultdict(list)
        for scores in raters.values():
            for episode, score in scores.items():
                units[episode].append(score)
        alpha = krippendorffs_alpha(units.values())
        pairs = []
        for a, b in combinations(sorted(raters), 2):
            common = sorted(raters[a].keys() & raters[b].keys())
            both = [(raters[a][one], raters[b][one]) for one in common]
            pairs.append(
                {
                    "raters": [a, b],
                    "episodes": len(both),
                    "kappa": _rounded(cohens_kappa(both)),
                    "weighted_kappa": _rounded(weighted_kappa(both)),
                }
            )
        rows.append(
            {
                "metric": metric,
                "raters": sorted(raters),
                "episodes": sum(len(scores) > 1 for scores in units.values()),
                "alpha": _rounded(alpha),
                "pairs": pairs,
            }
        )
    return rows


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation (American Journal of Psychology 15(1), 1904): Pearson's, of the
    ranks, where equal values share the mean of their ranks. None where one side has a single value.
    """
    xs, ys = (_ranks([pair[side] for pair in pairs]) for side in (0, 1))
    return correlation(xs, ys) if len({*xs}) > 1 and len({*ys}) > 1 else None


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, from 1."""
    rank: dict[float, float] = {}
    before = 0
    for value, n in sorted(Counter(values).items()):
        rank[value] = before + (n + 1) / 2
        before += n
    return [rank[value] for value in values]
