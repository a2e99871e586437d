"""Finova's metrics: the share of right answers by kind of task, and its unweighted mean."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from math import sqrt
from typing import Any

from bench.metrics.interval import DIGITS, ONE, Z_95, ByTask, rounded
from bench.metrics.means import Group
from bench.metrics.mergeable import Mergeable
from bench.metrics.passes import Passes
from bench.record import Ending, EpisodeRecord, Judgement, ToolCallRecord
from bench.suites.finova.extraction import KINDS, read_list
from bench.suites.finova.judge import names_in, slots_in
from bench.task import GROUPS

READINGS = ("accuracy", "accuracy_published")
"""Our reading of an answer, and that of the authors' scorer."""

BESIDE = ("entity_f1", "tools_exact", "over_calling")
"""Figures beside the authors' accuracy, which a slot that is missing or a tool too many leaves
unharmed.
"""

_CONFUSED = ("intent_recognition", "expression", "compliance")


def right(judgement: Judgement | None, reading: str) -> bool | None:
    """Whether an answer is right by a reading; None where it was not judged."""
    scores = judgement.by_metric.get(reading) if judgement is not None else None
    return bool(scores[0]) if scores else None


_group = partial(Group, dict.fromkeys(READINGS, (0.0, 1.0)))


class FinovaMetrics(Mergeable):
    """Right answers by kind of task (`bench.suites.suite.SuiteMetrics`).

    `accuracy` is the unweighted mean of the kinds that have judged answers. Its interval is the
    normal approximation for a stratified mean; each kind's variance is that of `OverTasks.near`, so
    it is not zero where all answers are right (Agresti and Caffo, The American Statistician 54(4),
    2000, add one right and one wrong answer too).

    `entity_f1` is micro-averaged over the answers of `slot_filling`: twice the slots that are gold
    ones, with equal type and content, by the gold and the given slots. `tools_exact` is the share
    of answers of `tool_planning` with the gold tools and no others, and `over_calling` the share of
    tools in them that are no gold ones.

    A right answer passes. `passes` leaves out those that were not judged, and those that failed by
    the model's endpoint.
    """

    def __init__(self) -> None:
        self._episodes = self._unjudged = 0
        self._groups: dict[str, defaultdict[str, Group]] = {
            name: defaultdict(_group) for name in GROUPS
        }
        self._differ: Counter[str] = Counter()
        self._given: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        self._beside = {name: ByTask() for name in BESIDE}
        self._passes = Passes()

    def add(self, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> None:  # noqa: ARG002
        self._episodes += 1
        verdicts = {reading: right(record.judgement, reading) for reading in READINGS}
        is_judged = None not in verdicts.values()
        self._passes.add(
            record.id,
            passed=bool(verdicts["accuracy"]),
            is_left_out=not is_judged or record.ending == Ending.MODEL_ERROR,
        )
        if record.judgement is None or not is_judged:
            self._unjudged += 1
            return
        figures = {reading: float(bool(is_right)) for reading, is_right in verdicts.items()}
        for name, rows in self._groups.items():
            rows[getattr(record, name)].add(record.id, figures)
        self._differ[record.category] += len({*verdicts.values()}) > 1
        for name, part, whole in _beside(record, record.judgement.extracted):
            self._beside[name].add(record.id, part, whole)
        if record.category in _CONFUSED:
            pair = tuple(map(_label, (record.ground_truth, record.judgement.extracted)))
            self._given[record.category][pair[0], pair[1]] += 1

    @property
    def _kinds(self) -> defaultdict[str, Group]:
        return self._groups["category"]

    def rates(self) -> dict[str, Any]:
        means = {reading: self._mean(reading) for reading in READINGS}
        kinds = {kind: self._kinds[kind].means for kind in KINDS if kind in self._kinds}
        return {
            "episodes": self._episodes,
            "passed": sum(map(_right, self._kinds.values())),
            "unjudged": self._unjudged,
            **{reading: found and round(found[0], DIGITS) for reading, found in means.items()},
            **{kind: kinds[kind]["accuracy"].mean if kind in kinds else None for kind in KINDS},
            **{
                name: None if (ratio := of.ratio) is None else round(ratio, DIGITS)
                for name, of in self._beside.items()
            },
            "intervals": {
                **{name: rounded(found and found[1]) for name, found in means.items()},
                **{kind: of_kind["accuracy"].interval for kind, of_kind in kinds.items()},
                **{name: rounded(of.interval()) for name, of in self._beside.items()},
            },
        }

    def _mean(self, reading: str) -> tuple[float, tuple[float, float]] | None:
        """The unweighted mean over kinds, and the ends of its interval."""
        kinds = [group.means[reading].places for group in self._kinds.values()]
        if not kinds:
            return None
        mean = sum(kind.part / kind.whole for kind in kinds) / len(kinds)
        errors = (kind.near()[1] for kind in kinds)
        reach = Z_95 * sqrt(sum(error * error for error in errors)) / len(kinds)
        return mean, (max(0.0, mean - reach), min(1.0, mean + reach))

    def details(self) -> dict[str, Any]:
        confusion: dict[str, dict[str, dict[str, int]]] = {}
        for kind in _CONFUSED:
            if kind in self._given:
                rows: defaultdict[str, dict[str, int]] = defaultdict(dict)
                for (gold, given), n in sorted(self._given[kind].items()):
                    rows[gold][given] = n
                confusion[kind] = dict(rows)
        return {
            "breakdown": {
                group: {name: count.result() for name, count in sorted(counts.items())}
                for group, counts in self._groups.items()
            },
            "confusion": confusion,
            **self._passes.result(),
            "readings_differ": dict(sorted(self._differ.items())),
        }

    def counts(self) -> Mapping[str, str]:
        whole = sum(group.episodes for group in self._kinds.values())
        text = f"mean of {len(self._kinds)} of {len(KINDS)} kinds, {whole:,} answers"
        rights = {
            kind: f"{_right(group):,} of {group.episodes:,}" for kind, group in self._kinds.items()
        }
        of = {name: f"{of.tasks:,} tasks" for name, of in self._beside.items()}
        return {**dict.fromkeys(READINGS, text), **rights, **of}


def _beside(record: EpisodeRecord, answer: str) -> Iterator[tuple[str, int, int]]:
    """What an answer adds to the part and the whole of the figures `BESIDE`."""
    gold = record.ground_truth
    if record.category == "slot_filling":
        wanted, given = Counter(slots_in(gold) or ()), Counter(slots_in(answer) or ())
        yield "entity_f1", 2 * (wanted & given).total(), wanted.total() + given.total()
    elif record.category == "tool_planning":
        tools, chosen = set(names_in(gold) or ()), set(names_in(answer) or ())
        yield "tools_exact", tools == chosen, 1
        yield "over_calling", len(chosen - tools), len(chosen)


def _right(group: Group) -> int:
    return group.means["accuracy"].places.part // ONE


def _label(text: str) -> str:
    """An answer as a row or a column: the items of a list, sorted."""
    items = read_list(text)
    return text.strip() if items is None else ", ".join(sorted(map(str, items)))
