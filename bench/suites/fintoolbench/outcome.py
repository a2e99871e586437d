"""What one episode adds to the rates, as a small tuple.

Episodes that count the same have equal tuples, so a million of them are a few dozen counts.
"""

from typing import NamedTuple

from bench.record import Ending, EpisodeRecord, Judgement, ToolCallRecord, is_infrastructure
from bench.suites.traces import failed_by_text

NOT_JUDGED, NO_VERDICT, MATCH, MISMATCH = -2, -1, 0, 1

_NO_SCORE = (0, 0)
_NO_MARKS = (NOT_JUDGED, NOT_JUDGED, NOT_JUDGED)


class Outcome(NamedTuple):
    """How an episode counts in FinToolBench's metrics (arXiv 2603.08262, section 4, as its public
    evaluator counts).

    `invoked`: the episode has at least one call. `passed`: it has no episode error, at least one
    call, and no failed call in the last round (the highest `step`). The typed outcome of a call
    says whether it failed; `passed_text` guesses that from the output, as the public evaluator
    does. `infrastructure`: only a quota, the gateway or the model's endpoint made it fail.

    `score` is the sum of its valid scores, in halves, and their number. `marks` are for timeliness,
    intent and domain: MISMATCH where a tool of the last round mismatched, MATCH where all judged
    tools matched, NO_VERDICT where the judge gave no verdict on any tool, NOT_JUDGED where there
    was no judgement or no call.
    """

    invoked: bool
    error: bool
    passed: bool
    passed_text: bool
    infrastructure: bool
    score: tuple[int, int]
    marks: tuple[int, int, int]

    @classmethod
    def of(cls, record: EpisodeRecord, last_round: list[ToolCallRecord] | None = None) -> "Outcome":
        """The outcome of a record; `last_round` is its last round, if the caller has it already."""
        final = record.last_round if last_round is None else last_round
        error = record.error is not None
        passed = passed_text = infrastructure = False
        if error:
            infrastructure = record.ending == Ending.MODEL_ERROR
        elif final:
            failed = [call.fault for call in final if not call.ok]
            passed, infrastructure = not failed, is_infrastructure(failed)
            passed_text = not any(failed_by_text(call.output) for call in final)
        score, marks = _NO_SCORE, _NO_MARKS
        if (judgement := record.judgement) is not None:
            if judgement.scores:
                score = round(2 * sum(judgement.scores)), len(judgement.scores)
            if final:
                marks = _marks(judgement)
        return cls(bool(final), error, passed, passed_text, infrastructure, score, marks)


def _marks(judgement: Judgement) -> tuple[int, int, int]:
    timeliness = intent = domain = NO_VERDICT
    for tool in judgement.tools:  # one mismatch marks the question, so the greatest counts
        if tool.timeliness is not None and timeliness != MISMATCH:
            timeliness = MATCH if tool.timeliness else MISMATCH
        if tool.intent is not None and intent != MISMATCH:
            intent = MATCH if tool.intent else MISMATCH
        if tool.domain is not None and domain != MISMATCH:
            domain = MATCH if tool.domain else MISMATCH
    return timeliness, intent, domain
