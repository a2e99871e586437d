"""How far two judges agree on the same episodes, by metric."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from statistics import correlation, fmean, median
from typing import Any

from bench.record import EpisodeRecord

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
    return correlation(xs, ys) if len({*xs}) > 1 and len({*ys}) > 1 else None


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, from 1."""
    rank: dict[float, float] = {}
    before = 0
    for value, n in sorted(Counter(values).items()):
        rank[value] = before + (n + 1) / 2
        before += n
    return [rank[value] for value in values]
