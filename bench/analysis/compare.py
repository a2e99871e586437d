"""Compares two runs, paired by task and repeat.

Two tasks are the same if their questions are, whatever their ids. A repeat counts if both runs have
it. A task's outcome is the mean over those repeats, or their pass@k and pass^k, and the intervals
are over tasks. For McNemar's test and for flips, a task passes if more than half of its repeats
pass.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean
from sys import intern
from typing import Any, NamedTuple

from bench.analysis.significance import holm, mcnemar, mean_interval, t_test
from bench.metrics.interval import ONE
from bench.metrics.means import Measured
from bench.metrics.passes import KS, pass_parts
from bench.question import digest_of
from bench.record import EpisodeRecord
from bench.runs.about import RunInfo
from bench.runs.reader import Run as RunFiles
from bench.runs.resume import COMPARABLE, ENDPOINT
from bench.suites import suite_of_run
from bench.suites.suite import SHARED_MEASURES, Measure, Suite
from bench.suites.suite import measure as measure_episode

QUESTION_CHARS = 80
UNLIKE: Mapping[str, str] = {
    "other_questions": "ids of another question in each run, which are no pair",
    "other_ids": "tasks of another id in B, paired by their question",
    "other_solutions": "tasks with another gold answer or other labels in B",
}
"""What runs may have in which their tasks differ (`tasks` of a comparison), in words."""
FEW = 10
"""A group of fewer tasks is not tested."""

_OTHER_ANSWERS = "tools may have answered differently"
UNFAIR: Mapping[str, str] = {
    **dict.fromkeys(("suite", "suite_digest"), "tasks of the same question may differ"),
    **dict.fromkeys(("top_k", "catalog_revision"), "agents were offered other tools"),
    **dict.fromkeys(
        ("judge", ENDPOINT, "judge_repeats"), "scores and marks come from different judges"
    ),
    "limits": "episodes ended at other limits",
    **dict.fromkeys(("upstream", "mode", "snapshot"), _OTHER_ANSWERS),
    **dict.fromkeys((n for n in COMPARABLE if n.startswith("simulated_")), _OTHER_ANSWERS),
    **dict.fromkeys(("gateway", "concurrency", "starts_per_s", "think_s"), "times do not compare"),
    "ended": "a run that was cut off lacks the episodes that take long",
}
"""Settings whose difference makes the comparison unfair, and why."""

PASSES = {f"pass{sign}{k}": (k, place) for k in KS[1:] for place, sign in enumerate("@^")}
"""The pass@k and pass^k that are compared: k, and the place in `pass_parts`."""

SETTINGS = (*COMPARABLE, ENDPOINT, "concurrency", "starts_per_s", "python", "ended")


@dataclass(slots=True)
class Row:
    """The data of an episode that a comparison needs. `infrastructure`: only a quota, the gateway
    or the model's endpoint made it fail; `is_of_agent` as in `Measured`. The `reason` is how it
    ended, and which calls of its last round failed.
    """

    passed: bool
    infrastructure: bool
    is_of_agent: bool
    figures: dict[str, float | None]
    reason: str
    series: "array[float] | None"


class Asked(NamedTuple):
    """What an episode says of its task: digests of its question and of how it is solved, and its
    row in each group of the suite.
    """

    category: str
    question: str
    digest: str
    solution: str
    rows: tuple[str, ...]

    def is_like(self, other: "Asked") -> bool:
        """Whether the question is the same."""
        return self.digest == other.digest


Pairs = Mapping[str, Sequence[tuple[Row, Row]]]
"""By task, the repeats that both runs have."""


class Run:
    """The settings of a run, and a row for each of its episodes."""

    def __init__(self, path: Path, suite: str | None = None) -> None:
        """Raises `RunDirectoryError` and `SuiteError`. An incomplete last line is left out."""
        files = self.files = RunFiles.open(path)
        self.about = files.about
        self.suite = suite_of_run(files.about.suite, suite)
        self.rows: dict[str, dict[int, Row]] = {}
        self.tasks: dict[str, Asked] = {}
        self.measures = (*self.suite.measures, *SHARED_MEASURES)
        self.judges: Counter[str] = Counter()
        marked, unmarked = set[str](), defaultdict[str, list[Row]](list)
        with closing(files.episodes()) as episodes:
            for record, _ in episodes:
                measured = measure_episode(self.suite, record)
                if record.judgement is not None:
                    self.judges[record.judgement.judge] += 1
                row = self.rows.setdefault(record.id, {})[record.repeat] = _row(
                    self.suite, record, measured
                )
                marked.update(name for name, of in measured.figures.items() if of is not None)
                for name in measured.unmarked:
                    unmarked[name].append(row)
                if record.id not in self.tasks:
                    self.tasks[record.id] = _asked(self.suite, record)
        for name in marked & unmarked.keys():
            for row in unmarked[name]:
                row.figures[name] = 0.0


class NothingInCommonError(Exception):
    """Two runs have no repeat of a task in common; the text says what each has."""


def compare(a: Run, b: Run, *, only: Sequence[str] = (), by: Sequence[str] = ()) -> dict[str, Any]:
    """The result of `finbench compare` as plain data. Differences are B minus A. `only` names the
    measures to compare, by default all; `by` the groups whose rows are compared too. Raises
    `NothingInCommonError`.
    """
    same = counterparts(a, b)
    pairs = _paired(a, b, same)
    net = {
        task: [pair for pair in both if not any(row.infrastructure for row in pair)]
        for task, both in pairs.items()
    }
    readings: dict[str, tuple[Measure, Pairs]] = {}
    for measure in a.measures:
        if not only or measure.name in only:
            readings[measure.name] = measure, pairs
            if measure.net:
                readings[f"{measure.name}_net"] = measure, net
    outcomes = {
        name: [_outcome(measure, of[task]) for task in pairs]
        for name, (measure, of) in readings.items()
    }
    widest = {metric.name: metric.high - metric.low for metric in a.suite.metrics}
    days = _days(a, pairs)
    return {
        "tasks": {
            "common": len(pairs),
            "only_a": sorted(a.rows.keys() - same.keys()),
            "only_b": sorted(b.rows.keys() - {*same.values()}),
            **_unlike(a, b, same),
        },
        "episodes": {
            "common": (common := sum(map(len, pairs.values()))),
            "only_a": sum(map(len, a.rows.values())) - common,
            "only_b": sum(map(len, b.rows.values())) - common,
        },
        "settings": _settings(a.about, b.about),
        "metrics": {
            name: _figures([o for o in outcomes[name] if o], measure, widest.get(measure.name))
            for name, (measure, _) in readings.items()
        }
        | dict(_passes(a.suite, pairs, only)),
        **({"days": days} if days else {}),
        **({"groups": _groups(a, by, readings, outcomes, [*pairs], widest)} if by else {}),
        "flips": list(_flips(a, pairs, net)),
    }


def counterparts(a: Run, b: Run) -> dict[str, str]:
    """By task of `a`, the task of `b` with the same question: that of the same id, else the only
    one, if no other of `a` has that question.
    """
    asked = [{task: run.tasks[task] for task in run.rows} for run in (a, b)]
    same = {t: t for t, of in asked[0].items() if t in asked[1] and of.is_like(asked[1][t])}
    left = [{t: of for t, of in one.items() if t not in same and of.question} for one in asked]
    often = [Counter(of.digest for of in one.values()) for one in left]
    theirs = {of.digest: task for task, of in left[1].items()}
    same |= {
        task: theirs[of.digest]
        for task, of in left[0].items()
        if often[0][of.digest] == often[1][of.digest] == 1
    }
    return {task: same[task] for task in a.rows if task in same}


def difference_of(a: Run, b: Run, measure: Measure) -> tuple[float, float]:
    """The mean difference of one measure, 0 where nothing is known, and its p-value: of McNemar's
    test where the measure has it, else of a t-test. Raises `NothingInCommonError`.
    """
    both = _paired(a, b, counterparts(a, b)).values()
    outcomes = [outcome for pairs in both if (outcome := _outcome(measure, pairs))]
    figures = _figures(outcomes, measure, None)
    return figures["difference"] or 0.0, _p_value(figures, outcomes)


def _paired(a: Run, b: Run, same: Mapping[str, str]) -> Pairs:
    """By task of `a`, the repeats that its counterpart in `b` has too. Raises
    `NothingInCommonError`.
    """
    pairs = {
        task: [(rows[n], b.rows[theirs][n]) for n in sorted(both)]
        for task, theirs in same.items()
        if (both := (rows := a.rows[task]).keys() & b.rows[theirs].keys())
    }
    if not pairs:
        raise NothingInCommonError(_apart(a, b, same))
    return pairs


def _unlike(a: Run, b: Run, same: Mapping[str, str]) -> dict[str, list[str]]:
    """The ids that stand for `other_questions` in the two runs; the tasks that have `other_ids`,
    and those with `other_solutions`, which are another gold answer or other labels.
    """
    found = {
        "other_questions": [t for t in a.rows if t in b.rows and same.get(t) != t],
        "other_ids": [t for t, theirs in same.items() if t != theirs],
        "other_solutions": [
            t for t, theirs in same.items() if a.tasks[t].solution != b.tasks[theirs].solution
        ],
    }
    return {name: sorted(tasks) for name, tasks in found.items() if tasks}


def _groups(
    a: Run,
    by: Sequence[str],
    readings: Mapping[str, tuple[Measure, Pairs]],
    outcomes: Mapping[str, Sequence[tuple[float, float] | None]],
    tasks: Sequence[str],
    widest: Mapping[str, float],
) -> dict[str, Any]:
    """By group and row, each measure over the row's tasks, with a p-value that is corrected for all
    rows of the measure; None where a row has fewer than `FEW` tasks.
    """
    places = {name: place for place, name in enumerate(a.suite.all_groups())}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, (measure, _) in readings.items():
        tested: list[tuple[dict[str, Any], float]] = []
        for group in by:
            rows: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
            for task, outcome in zip(tasks, outcomes[name], strict=True):
                rows[a.tasks[task].rows[places[group]]] += [outcome] if outcome else []
            for row, of in sorted(rows.items()):
                figures = _figures(of, measure, widest.get(measure.name))
                if len(of) >= FEW:
                    tested.append((figures, _p_value(figures, of)))
                figures["p"] = None
                found.setdefault(group, {}).setdefault(row, {})[name] = figures
        for (figures, _), p in zip(tested, holm([p for _, p in tested]), strict=True):
            figures["p"] = p
    return found


def _passes(
    suite: type[Suite], pairs: Pairs, only: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """`PASSES` over the tasks of which k repeats say something about the agent in both runs."""
    if not suite.has_verdicts:
        return
    counted = []
    for both in pairs.values():
        own = [(x.passed, y.passed) for x, y in both if x.is_of_agent and y.is_of_agent]
        counted.append((len(own), sum(x for x, _ in own), sum(y for _, y in own)))
    for name, (k, place) in PASSES.items():
        enough = [counts for counts in counted if counts[0] >= k]
        if name in only or (enough and not only):
            outcomes = [
                (pass_parts(n, in_a, k)[place] / ONE, pass_parts(n, in_b, k)[place] / ONE)
                for n, in_a, in_b in enough
            ]
            yield name, _figures(outcomes, Measure(name), None)


def _days(a: Run, pairs: Pairs) -> dict[str, Any]:
    """By task, what `Suite.compare_series` says of the repeats that have days in both runs."""
    found: dict[str, Any] = {}
    for task, both in pairs.items():
        known = [(x.series, y.series) for x, y in both if x.series and y.series]
        if known:
            sides = [x for x, _ in known], [y for _, y in known]
            found[task] = a.suite.compare_series(a.tasks[task].category, *sides)
    return found


def _apart(a: Run, b: Run, same: Mapping[str, str]) -> str:
    have = " and ".join(
        f"{run.files.path} has {len(run.rows)} tasks of {run.about.suite}" for run in (a, b)
    )
    what = "repeat of a task" if same else "task"
    other = len(a.rows.keys() & b.rows.keys() - same.keys())
    why = f"; {other} ids stand for another question in each" if other else ""
    return f"no {what} is in both runs: {have}{why}"


def _outcome(measure: Measure, pairs: Sequence[tuple[Row, Row]]) -> tuple[float, float] | None:
    """Both means over the repeats that have a figure in both runs; None if there are none."""
    figures = [(a.figures.get(measure.name), b.figures.get(measure.name)) for a, b in pairs]
    known = [(a, b) for a, b in figures if a is not None and b is not None]
    return (fmean(a for a, _ in known), fmean(b for _, b in known)) if known else None


def _figures(
    outcomes: Sequence[tuple[float, float]], measure: Measure, widest: float | None
) -> dict[str, Any]:
    """One measure: means, the difference with its interval, and for a test the four counts.
    `widest` is the range of the metric of its name, if there is one.
    """
    differences = [b - a for a, b in outcomes]
    sides = {
        "a": [a for a, _ in outcomes],
        "b": [b for _, b in outcomes],
        "difference": differences,
    }
    most = 1.0 if measure.is_share else widest if widest is not None and isfinite(widest) else None
    interval = mean_interval(differences, most)
    found: dict[str, Any] = {
        "tasks": len(outcomes),
        **{name: round(fmean(of), 6) if of else None for name, of in sides.items()},
        "interval": interval and [round(end, 6) for end in interval],
    }
    if measure.test:
        passed = Counter((a > 0.5, b > 0.5) for a, b in outcomes)
        only_a, only_b = passed[True, False], passed[False, True]
        found |= {"both": passed[True, True], "only_a": only_a, "only_b": only_b}
        found |= {"neither": passed[False, False]}
        found |= {"p": mcnemar(only_a, only_b) if outcomes else None}
    return found


def _p_value(figures: Mapping[str, Any], outcomes: Sequence[tuple[float, float]]) -> float:
    """That of McNemar's test if `figures` have it, else of a t-test; 1 where nothing is known."""
    p = figures["p"] if "p" in figures else t_test([b - a for a, b in outcomes])
    return 1.0 if p is None else float(p)


def _flips(a: Run, pairs: Pairs, net: Pairs) -> Iterator[dict[str, Any]]:
    """Tasks that pass in only one run. A flip is marked as infrastructure if the task does not flip
    without the repeats that failed because of it.
    """
    for task, both in pairs.items():
        before, after = _sides(both)
        if before == after:
            continue
        asked = a.tasks[task]
        still = _sides(net[task])
        yield {
            "id": task,
            "category": asked.category,
            "question": asked.question,
            "flip": "pass to fail" if before else "fail to pass",
            "a": _reason([row for row, _ in both], before),
            "b": _reason([row for _, row in both], after),
            "infrastructure": still != (before, after),
        }


def _sides(pairs: Sequence[tuple[Row, Row]]) -> tuple[bool, bool]:
    """Whether a task passes in each run."""
    passed = [sum(rows[side].passed for rows in pairs) for side in (0, 1)]
    return 2 * passed[0] > len(pairs), 2 * passed[1] > len(pairs)


def _reason(rows: Sequence[Row], passed: bool) -> str:
    """The reason of the first repeat whose outcome is the task's, and how many repeats passed."""
    reason = next(row.reason for row in rows if row.passed == passed)
    return f"{sum(row.passed for row in rows)}/{len(rows)} {reason}" if len(rows) > 1 else reason


def _settings(a: RunInfo, b: RunInfo) -> list[dict[str, Any]]:
    """The settings in which the runs differ, and why a difference is unfair, if it is."""
    whole = {run.selection.get("of_digest", run.suite_digest) for run in (a, b)}
    fair = ("suite_digest",) if len(whole) == 1 else ()  # only other tasks of the same were chosen
    return [
        {"name": name, "a": ours, "b": theirs, "unfair": None if name in fair else UNFAIR.get(name)}
        for name in SETTINGS
        if (ours := a.content.get(name)) != (theirs := b.content.get(name))
    ]


def _row(suite: type[Suite], record: EpisodeRecord, measured: Measured) -> Row:
    final = record.last_round
    rounds = final[0].step if final else 0
    took = (len(record.tool_calls), rounds, record.tokens, record.elapsed_ms / 1e3)
    names = (measure.name for measure in SHARED_MEASURES)
    shared = dict(zip(names, (*took, record.cache_hit_rate), strict=True))
    failed = dict.fromkeys(call.code or "failed" for call in final if not call.ok)
    why = ", ".join([record.ending, *(failed if record.tool_calls else ("no call",))])
    figures = {**measured.figures, **shared}
    days = suite.series(record)
    verdict = (measured.passed, measured.infrastructure, measured.is_of_agent)
    return Row(*verdict, figures, intern(why), days)


def _asked(suite: type[Suite], record: EpisodeRecord) -> Asked:
    solution = (record.ground_truth, record.labelled_tools, record.labelled_arguments)
    rows = (intern(suite.row_of(record, group)) for group in suite.all_groups())
    return Asked(
        intern(record.category),
        _short(record.question),
        digest_of(record.question),
        digest_of(repr(solution)),
        tuple(rows),
    )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= QUESTION_CHARS else f"{text[: QUESTION_CHARS - 1]}…"


def figure_text(value: float, is_share: bool = False, *, sign: bool = False) -> str:
    """A figure of a comparison as people read it, with a sign if it is a difference."""
    plus = "+" if sign else ""
    if is_share:
        return format(value, f"{plus}z.1%")
    return format(value, f"{plus}z,.0f" if abs(value) >= 100 else f"{plus}z.3g")


def metric_rows(
    metrics: Mapping[str, Mapping[str, Any]], shares: AbstractSet[str]
) -> Iterator[tuple[str, ...]]:
    """A row for each metric that both runs have: its name, how many tasks, A, B, their difference
    and its interval, and where a task passes or not, how many pass in both, only A, only B,
    neither, and p. The metrics `shares` are shown in percent.
    """
    for name, found in metrics.items():
        if not found["tasks"]:
            continue
        is_share = name.removesuffix("_net") in shares
        ends = [figure_text(end, is_share, sign=True) for end in found["interval"] or ()]
        counts = (
            [f"{found[side]:,}" for side in ("both", "only_a", "only_b", "neither")]
            if ("p" in found)
            else [""] * 4
        )
        yield (
            name,
            f"{found['tasks']:,}",
            *(figure_text(found[side], is_share) for side in ("a", "b")),
            figure_text(found["difference"], is_share, sign=True),
            " to ".join(ends) or "undefined",
            *counts,
            f"{found['p']:.3g}" if "p" in found else "",
        )
