"""How far two judges agree on the same episodes, by metric."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import sqrt
from statistics import median
from typing import Any

from bench.record import EpisodeRecord

SCORE = "score"
"""Stands for the scores of judges that score no metrics by name."""

Scores = dict[str, dict[str, float]]
"""By metric and episode, the median of a judge's scores."""


def scores_of(episodes: Iterable[EpisodeRecord]) -> tuple[Scores, set[str]]:
    """The scores in the judgements of episodes, and the names of the judges."""
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    judges: set[str] = set()
    for episode in episodes:
        if (judgement := episode.judgement) is None:
            continue
        judges.add(judgement.judge)
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
        common = sorted(ours.keys() & theirs.keys())
        pairs = [(ours[episode], theirs[episode]) for episode in common]
        n = len(pairs)
        result[name] = {
            "episodes": n,
            "only_a": len(ours) - n,
            "only_b": len(theirs) - n,
            "equal": _rounded(sum(x == y for x, y in pairs) / n) if n else None,
            "mean_a": _rounded(sum(x for x, _ in pairs) / n) if n else None,
            "mean_b": _rounded(sum(y for _, y in pairs) / n) if n else None,
            "kappa": _rounded(weighted_kappa(pairs)),
            "rho": _rounded(spearman(pairs)),
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
    expected = sum(
        n * m * (Fraction(x) - Fraction(y)) ** 2
        for x, n in first.items()
        for y, m in second.items()
    )
    return float(1 - observed / expected) if expected else None


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation (American Journal of Psychology 15(1), 1904): Pearson's, of the
    ranks, where equal values share the mean of their ranks. None where one side has a single value.
    """
    xs, ys = (_ranks([pair[side] for pair in pairs]) for side in (0, 1))
    middle = (len(pairs) + 1) / 2
    covariance = sum((x - middle) * (y - middle) for x, y in zip(xs, ys, strict=True))
    spread = sqrt(sum((x - middle) ** 2 for x in xs) * sum((y - middle) ** 2 for y in ys))
    return max(-1.0, min(1.0, covariance / spread)) if spread else None


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, from 1."""
    rank: dict[float, float] = {}
    before = 0
    for value, n in sorted(Counter(values).items()):
        rank[value] = before + (n + 1) / 2
        before += n
    return [rank[value] for value in values]


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 6)
