"""FinToolBench's metrics (arXiv 2603.08262, section 4, as its public evaluator counts).

Capability: TIR = invoked / N, TESR = passed / N, CER = passed / invoked. `EpisodeOutcome` defines
`invoked` and `passed`; the `_text` variants use `passed_text`. An episode that failed only because
of the infrastructure says nothing about its agent: the paper's rates count it as failed, the `_net`
variants leave it out.

Judged: SoftScore is the mean, over episodes with a valid judgement, of the mean of the episode's
scores. CSS is the same over the episodes that passed by the typed outcome. TMR, IMR and DMR are
shares of the judged episodes that called a tool: those in which a tool of the last round mismatched
in a dimension (timeliness, intent, domain). As in the public evaluator, an episode in which no tool
had a verdict is eligible and not marked. So rules that often can't tell give a lower bound:
`verdicts` in the result says in how many episodes there was a verdict. Where no episode has one, a
rate is undefined.

Where the paper's text and its program differ, `_paper` variants follow the text (its appendix on
metrics): an execution succeeds if its last call does, whatever calls of the same round did; CER is
0 where nothing was invoked; SoftScore is over all episodes, in which a score that is missing counts
as 0, and CSS is SoftScore by TESR; TMR, IMR and DMR count a mismatch in any call of the episode.

A metric over no episodes is None. Each has its 95 % interval over tasks (`OverTasks`), but for
CSS_paper, which is no mean. pass@k and pass^k are of `passed` too, without episodes that failed
only because of the infrastructure.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from bench.metrics.interval import DIGITS, ONE, OverTasks, rounded
from bench.metrics.mergeable import Mergeable
from bench.metrics.passes import pass_figures
from bench.question import language_of
from bench.record import Ending, EpisodeRecord, ToolCallRecord, ToolVerdict, is_infrastructure
from bench.suites.traces import failed_by_text
from bench.task import GROUPS

NOT_JUDGED, NO_VERDICT, MATCH, MISMATCH = -2, -1, 0, 1

SCALE = 1_000
"""The parts of which a score of 1 consists."""

_NO_SCORE = (0, 0)
_NO_MARKS = (NOT_JUDGED, NOT_JUDGED, NOT_JUDGED)


class EpisodeOutcome(NamedTuple):
    """How an episode counts in FinToolBench's metrics (arXiv 2603.08262, section 4, as its public
    evaluator counts).

    `invoked`: the episode has at least one call. `passed`: it has no episode error, at least one
    call, and no failed call in the last round (the highest `step`). The typed outcome of a call
    says whether it failed; `passed_text` guesses that from the output, as the public evaluator
    does. `infrastructure`: only what is nobody's choice (`is_infrastructure`), or the
    model's endpoint, made it fail.

    `score` is the sum of its valid scores, in parts of `SCALE`, and their number; `missing` is the
    number of scores that were asked for and not given. `marks` are for timeliness, intent and
    domain: MISMATCH where a tool of the last round mismatched, MATCH where all judged tools
    matched, NO_VERDICT where the judge gave no verdict on any tool, NOT_JUDGED where there was no
    judgement or no call. `any_marks` are the same over all calls, and `last_ok` says whether the
    last one succeeded.
    """

    invoked: bool
    error: bool
    passed: bool
    passed_text: bool
    infrastructure: bool
    score: tuple[int, int]
    marks: tuple[int, int, int]
    missing: int = 0
    any_marks: tuple[int, int, int] = _NO_MARKS
    last_ok: bool = False
    is_judged: bool = False

    @classmethod
    def of(
        cls, record: EpisodeRecord, last_round: list[ToolCallRecord] | None = None
    ) -> "EpisodeOutcome":
        """The outcome of a record; `last_round` is its last round, if the caller has it already."""
        final = record.last_round if last_round is None else last_round
        error = record.error is not None
        passed = passed_text = infrastructure = False
        if error:
            infrastructure = record.ending == Ending.MODEL_ERROR
        elif final:
            failed = [call for call in final if not call.ok]
            passed, infrastructure = not failed, is_infrastructure(failed)
            passed_text = not any(failed_by_text(call.output) for call in final)
        score, marks, any_marks, missing = _NO_SCORE, _NO_MARKS, _NO_MARKS, 0
        judgement = record.judgement
        if judgement is not None:
            missing = judgement.invalid
            if judgement.scores:
                score = round(SCALE * sum(judgement.scores)), len(judgement.scores)
            if final:
                any_marks = _marks(judgement.tools)
                before = {call.tool_name for call in record.agent_calls}
                before.difference_update(call.tool_name for call in final)
                marks = _marks(tool for tool in judgement.tools if tool.tool not in before)
        return cls(
            bool(final),
            error,
            passed,
            passed_text,
            infrastructure,
            score,
            marks,
            missing,
            any_marks,
            last_ok=bool(final) and not error and final[-1].ok,
            is_judged=judgement is not None,
        )


def _marks(verdicts: Iterable[ToolVerdict]) -> tuple[int, int, int]:
    tools = list(verdicts)
    return (
        _mark(tool.timeliness for tool in tools),
        _mark(tool.intent for tool in tools),
        _mark(tool.domain for tool in tools),
    )


def _mark(verdicts: Iterable[bool | None]) -> int:
    """One mismatch marks the question, so the greatest counts."""
    known = (MATCH if verdict else MISMATCH for verdict in verdicts if verdict is not None)
    return max(known, default=NO_VERDICT)


CAPABILITY = (
    *("TIR", "TESR", "CER", "TESR_net", "CER_net", "TESR_text", "CER_text"),
    *("TESR_paper", "CER_paper"),
)
JUDGED = ("SoftScore", "CSS", "SoftScore_paper")
MARKS = ("TMR", "IMR", "DMR")
ANY_MARKS = ("TMR_paper", "IMR_paper", "DMR_paper")
NAMES = (*CAPABILITY, *JUDGED, *MARKS, *ANY_MARKS)

Outcomes = Counter[EpisodeOutcome]

_OfTask = tuple[tuple[EpisodeOutcome, int], ...]
"""The outcomes of one task, and how many episodes had each, in order."""

LABELLED = "labelled_tools"
"""The group of episodes by how many tools their task is labelled with."""

_LABELS = ("none", "single", "multi")


def row_of(record: EpisodeRecord, group: str) -> str:
    """The row of a group in which an episode counts."""
    if group == LABELLED:
        return _LABELS[min(len(record.labelled_tools), 2)]
    return str(getattr(record, group))


@lru_cache(4_096)
def ratios(outcome: EpisodeOutcome) -> tuple[tuple[int, int], ...]:
    """What an episode adds to the part and the whole of each metric, in the order of `NAMES`."""
    invoked, passed = int(outcome.invoked), int(outcome.passed)
    text, net = int(outcome.passed_text), int(not outcome.infrastructure)
    part, scores = outcome.score
    score = (round(ONE * part / (SCALE * scores)), ONE) if scores else (0, 0)
    asked = scores + outcome.missing
    over_all = (round(ONE * part / (SCALE * asked)) if asked else 0, ONE * outcome.is_judged)
    last = int(outcome.last_ok)
    both = (*outcome.marks, *outcome.any_marks)
    marks = ((int(mark == MISMATCH), int(mark >= NO_VERDICT)) for mark in both)
    return (
        *((invoked, 1), (passed, 1), (passed, invoked)),
        *((passed, net), (passed, net * invoked), (text, 1), (text, invoked)),
        *((last, 1), (last, invoked)),
        *(score, score if outcome.passed else (0, 0), over_all),
        *marks,
    )


def shares(outcomes: Outcomes) -> dict[str, tuple[int, int]]:
    """The part and the whole of each metric over episodes. Marks are of no whole where no episode
    has a verdict.
    """
    parts, wholes = [0] * len(NAMES), [0] * len(NAMES)
    for outcome, n in outcomes.items():
        for place, (part, whole) in enumerate(ratios(outcome)):
            parts[place] += n * part
            wholes[place] += n * whole
    found = dict(zip(NAMES, zip(parts, wholes, strict=True), strict=True))
    for name, verdicts in verdicts_of(outcomes).items():
        if not verdicts:
            found[name] = 0, 0
    return found


def verdicts_of(outcomes: Outcomes) -> dict[str, int]:
    """In how many episodes at least one tool has a verdict, by dimension."""
    return {
        name: sum(n for outcome, n in outcomes.items() if getattr(outcome, of)[place] >= MATCH)
        for names, of in ((MARKS, "marks"), (ANY_MARKS, "any_marks"))
        for place, name in enumerate(names)
    }


def figures(outcomes: Outcomes) -> dict[str, float | None]:
    found = {
        name: round(part / whole, DIGITS) if whole else None
        for name, (part, whole) in shares(outcomes).items()
    }
    if outcomes and found["CER_paper"] is None:
        found["CER_paper"] = 0.0
    soft, tesr = found["SoftScore_paper"], found["TESR_paper"]
    ratio = None if soft is None else round(soft / tesr, DIGITS) if tesr else 0.0
    return {**found, "CSS_paper": ratio}


class _Tasks:
    """The outcomes of each task, and how many tasks are alike: a million of them are a few dozen
    counts.
    """

    def __init__(self) -> None:
        self.alike: Counter[_OfTask] = Counter()
        self._of: dict[str, _OfTask] = {}

    def add(self, task: str, more: _OfTask) -> None:
        if before := self._of.get(task):
            self.alike[before] -= 1
            if not self.alike[before]:
                del self.alike[before]
            counts = dict(before)
            for outcome, n in more:
                counts[outcome] = counts.get(outcome, 0) + n
            more = tuple(sorted(counts.items()))
        self.alike[more] += 1
        self._of[task] = more

    def passes(self) -> dict[str, Any]:
        """As `pass_figures`."""
        tasks: Counter[tuple[int, int]] = Counter()
        left_out = 0
        for outcomes, times in self.alike.items():
            counted = [(outcome, n) for outcome, n in outcomes if not outcome.infrastructure]
            repeats = sum(n for _, n in counted)
            tasks[repeats, sum(n for outcome, n in counted if outcome.passed)] += times
            left_out += times * (sum(n for _, n in outcomes) - repeats)
        return pass_figures(tasks, left_out)

    def merge(self, other: "_Tasks") -> None:
        for task, outcomes in other._of.items():
            self.add(task, outcomes)


class FinToolBenchMetrics(Mergeable):
    """All of them over episodes, also by group (`bench.suites.suite.SuiteMetrics`)."""

    def __init__(self) -> None:
        self._all: Outcomes = Counter()
        self._tasks = _Tasks()
        self._judges: Counter[str] = Counter()
        self._kinds: defaultdict[str, Outcomes] = defaultdict(Counter)
        self._invalid: Counter[str] = Counter()
        self._odd = Counter(rounded=0, invalid_tools=0)
        self._groups: dict[str, defaultdict[str, Outcomes]] = {
            name: defaultdict(Counter) for name in (*GROUPS, LABELLED)
        }

    def add(self, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> None:
        outcome = EpisodeOutcome.of(record, last_round)
        self._all[outcome] += 1
        self._tasks.add(record.id, ((outcome, 1),))
        rows = (
            *(language_of(record.question), record.category, record.source_dataset),
            *(record.difficulty, _LABELS[min(len(record.labelled_tools), 2)]),
        )
        for groups, row in zip(self._groups.values(), rows, strict=True):
            groups[row][outcome] += 1
        if (judgement := record.judgement) is not None:
            self._judges[judgement.judge] += 1
            self._kinds[judgement.kind][outcome] += 1
            self._invalid[judgement.kind] += judgement.invalid
            self._odd.update(rounded=judgement.rounded, invalid_tools=judgement.invalid_tools)

    def rates(self) -> dict[str, Any]:
        invoked, passed, errors, infrastructure = (
            sum(n for outcome, n in self._all.items() if getattr(outcome, name))
            for name in ("invoked", "passed", "error", "infrastructure")
        )
        return {
            "episodes": self._all.total(),
            "episode_errors": errors,
            "invoked": invoked,
            "passed": passed,
            "failed_by_infrastructure": infrastructure,
            **(found := figures(self._all)),
            "intervals": self._intervals(found),
            "denominators": self._denominators(),
            "judged": self._judged(),
        }

    def _intervals(self, found: Mapping[str, float | None]) -> dict[str, list[float] | None]:
        over = [OverTasks() for _ in NAMES]
        for outcomes, times in self._tasks.alike.items():
            of_metrics = zip(*(ratios(outcome) for outcome, _ in outcomes), strict=True)
            for one, of_metric in zip(over, of_metrics, strict=True):
                counted = zip(of_metric, outcomes, strict=True)
                sums = [(n * part, n * whole) for (part, whole), (_, n) in counted]
                one.count(sum(part for part, _ in sums), sum(whole for _, whole in sums), times)
        return {
            **{
                name: None if found[name] is None else rounded(one.interval())
                for name, one in zip(NAMES, over, strict=True)
            },
            "CSS_paper": None,
        }

    def _denominators(self) -> dict[str, int]:
        """Over how many episodes each metric is."""
        scale = dict.fromkeys(JUDGED, ONE)
        return {name: whole // scale.get(name, 1) for name, (_, whole) in shares(self._all).items()}

    def _judged(self) -> dict[str, Any]:
        of = shares(self._all)
        kinds = {
            kind: {
                "episodes": outcomes.total(),
                "judged": _scored(outcomes),
                "invalid": self._invalid[kind],
                "SoftScore": figures(outcomes)["SoftScore"],
            }
            for kind, outcomes in sorted(self._kinds.items())
        }
        return {
            "judges": dict(sorted(self._judges.items())),
            "episodes": self._judges.total(),
            "judged": _scored(self._all),
            "invalid": self._invalid.total(),
            **self._odd,
            "eligible": {name: of[name][1] for name in MARKS},
            "marked": {name: of[name][0] for name in MARKS},
            "verdicts": {name: n for name, n in verdicts_of(self._all).items() if name in MARKS},
            "kinds": kinds,
        }

    def details(self) -> dict[str, Any]:
        return {
            "breakdown": {
                name: {row: _row(outcomes) for row, outcomes in sorted(rows.items())}
                for name, rows in self._groups.items()
            },
            **self._tasks.passes(),
        }

    def counts(self) -> Mapping[str, str]:
        of, over, verdicts = shares(self._all), self._denominators(), verdicts_of(self._all)
        episodes = self._all.total()
        names = (*CAPABILITY, *MARKS, *ANY_MARKS)
        counts = {name: f"{of[name][0]:,} of {of[name][1]:,}" for name in names}
        counts["SoftScore"] = f"{over['SoftScore']:,} of {episodes:,}"
        if over["CSS"]:
            counts["CSS"] = f"{over['CSS']:,} of {episodes:,}"
        for name in MARKS:
            if verdicts[name] < over[name]:
                counts[name] += f", {verdicts[name]:,} with a verdict"
            if 0 < over[name] < episodes:
                counts[name] += f"; {over[name]:,} of {episodes:,} episodes"
        return counts


def _scored(outcomes: Outcomes) -> int:
    """How many episodes have a valid score."""
    return sum(n for outcome, n in outcomes.items() if outcome.score[1])


def _row(outcomes: Outcomes) -> dict[str, Any]:
    """The figures of a group."""
    found = figures(outcomes)
    names = ("TIR", "TESR", "CER", "SoftScore", "CSS", *MARKS)
    return {
        "episodes": outcomes.total(),
        "invoked": sum(n for outcome, n in outcomes.items() if outcome.invoked),
        "passed": sum(n for outcome, n in outcomes.items() if outcome.passed),
        **{name: found[name] for name in names},
    }
