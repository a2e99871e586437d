"""FinToolBench's metrics that need a judge (arXiv 2603.08262, section 4).

SoftScore is the mean, over episodes with a valid judgement, of the mean of the episode's scores.
CSS is the same over the episodes that passed by the typed outcome. TMR, IMR and DMR are shares of
the judged episodes that called a tool: those in which a tool of the last round mismatched in a
dimension (timeliness, intent, domain). A metric over no episodes is None.

As in the public evaluator, an episode in which no tool had a verdict is eligible and not marked.
So rules that often can't tell give a lower bound: `verdicts` in the result says in how many
episodes there was a verdict. Where no episode has one, a rate is undefined.
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from bench.metrics.interval import DIGITS, mean_interval, rounded, share, wilson
from bench.record import Judgement
from bench.suites.fintoolbench.outcome import MATCH, MISMATCH, NO_VERDICT, Outcome

Scores = Counter[tuple[int, int]]
"""Counts episodes by their sum of scores, in halves, and their number of scores."""

RATES = ("TMR", "IMR", "DMR")


class Verdicts:
    """Scores and marks over episodes, with intervals of 95 %: `mean_interval` for the means,
    Wilson's for the rates.
    """

    __slots__ = ("_failed", "_marks", "_passed")

    def __init__(self) -> None:
        self._passed: Scores = Counter()
        self._failed: Scores = Counter()
        self._marks: Counter[tuple[int, int, int]] = Counter()

    def count(self, outcome: Outcome) -> None:
        (self._passed if outcome.passed else self._failed)[outcome.score] += 1
        self._marks[outcome.marks] += 1

    def merge(self, other: "Verdicts") -> None:
        self._passed.update(other._passed)
        self._failed.update(other._failed)
        self._marks.update(other._marks)

    def figures(self) -> dict[str, float | None]:
        """SoftScore, CSS, TMR, IMR and DMR."""
        means = {name: mean(scores) for name, scores in self._scores().items()}
        return means | {name: share(*counts) for name, counts in self.rates().items()}

    def intervals(self) -> dict[str, list[float] | None]:
        means = {name: mean_interval(*_sums(scores)) for name, scores in self._scores().items()}
        rates = {name: wilson(*counts) for name, counts in self.rates().items()}
        return {name: rounded(interval) for name, interval in (means | rates).items()}

    def rates(self) -> dict[str, tuple[int, int]]:
        """Marked and eligible episodes of each rate; no eligible ones where none has a verdict."""
        marked, eligible = self._having(MISMATCH), self._having(NO_VERDICT)
        return {
            name: (marked[name], eligible[name] if verdicts else 0)
            for name, verdicts in self.verdicts().items()
        }

    def denominators(self) -> dict[str, int]:
        """Over how many episodes each of `figures` is."""
        means = {name: _sums(scores)[2] for name, scores in self._scores().items()}
        return means | {name: eligible for name, (_, eligible) in self.rates().items()}

    def verdicts(self) -> dict[str, int]:
        """In how many episodes at least one tool has a verdict."""
        return self._having(MATCH)

    def _having(self, least: int) -> dict[str, int]:
        """How many episodes have at least this mark in each dimension."""
        found = [0, 0, 0]
        for marks, n in self._marks.items():
            for place, mark in enumerate(marks):
                found[place] += n * (mark >= least)
        return dict(zip(RATES, found, strict=True))

    def _scores(self) -> dict[str, Scores]:
        return {"SoftScore": self._passed + self._failed, "CSS": self._passed}


class Judged:
    """Verdicts over episodes, and counts of the judgements themselves."""

    def __init__(self) -> None:
        self._verdicts = Verdicts()
        self._said: Counter[tuple[str, str, tuple[int, int], int]] = Counter()

    def add(self, outcome: Outcome, judgement: Judgement | None) -> None:
        self._verdicts.count(outcome)
        if judgement is not None:
            said = (judgement.judge, judgement.kind, outcome.score, judgement.invalid)
            self._said[said] += 1

    def merge(self, other: "Judged") -> None:
        self._verdicts.merge(other._verdicts)
        self._said.update(other._said)

    def result(self) -> dict[str, Any]:
        rates = self._verdicts.rates()
        kinds = {kind: self._of_kind(kind) for kind in sorted({kind for _, kind, *_ in self._said})}
        return {
            **self._verdicts.figures(),
            "intervals": self._verdicts.intervals(),
            "denominators": self._verdicts.denominators(),
            "judged": {
                "judges": _tally((judge, n) for (judge, *_), n in self._said.items()),
                "episodes": self._said.total(),
                "judged": sum(figures["judged"] for figures in kinds.values()),
                "invalid": sum(figures["invalid"] for figures in kinds.values()),
                "eligible": {name: whole for name, (_, whole) in rates.items()},
                "marked": {name: part for name, (part, _) in rates.items()},
                "verdicts": self._verdicts.verdicts(),
                "kinds": kinds,
            },
        }

    def _of_kind(self, wanted: str) -> dict[str, Any]:
        """How many episodes have this kind of answer, how many of them are judged, and their mean
        score.
        """
        scores: Scores = Counter()
        episodes = invalid = 0
        for (_, kind, score, wrong), n in self._said.items():
            if kind == wanted:
                scores[score] += n
                episodes += n
                invalid += wrong * n
        return {
            "episodes": episodes,
            "judged": episodes - scores[0, 0],
            "invalid": invalid,
            "SoftScore": mean(scores),
        }


def mean(scores: Scores) -> float | None:
    """The mean of the means of episodes that have scores."""
    halves: Counter[int] = Counter()
    episodes = 0
    for (half, count), n in scores.items():
        if count:
            halves[count] += n * half
            episodes += n
    if not episodes:
        return None
    total = sum((Fraction(half, 2 * count) for count, half in halves.items()), Fraction())
    return round(float(total / episodes), DIGITS)


def _sums(scores: Scores) -> tuple[Fraction, Fraction, int]:
    """The sum of the episodes' means, the sum of their squares, and the number of episodes."""
    total, squares, episodes = Fraction(), Fraction(), 0
    for (half, count), n in scores.items():
        if count:
            one = Fraction(half, 2 * count)
            total += n * one
            squares += n * one * one
            episodes += n
    return total, squares, episodes


def _tally(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    tally: Counter[str] = Counter()
    for name, n in counts:
        tally[name] += n
    return dict(sorted(tally.items()))
