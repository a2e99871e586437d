"""Judgements of one judge, whatever it does.

A judge that fails, takes too long or returns no valid judgement loses this one judgement only.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Collection

import orjson
from pydantic import TypeAdapter, ValidationError

from bench.judges.judge import Judge
from bench.own import words_of
from bench.record import EpisodeRecord, FailedJudgement, Judgement, storable
from manifests.common.problem import first_problem

log = logging.getLogger("finport")

JUDGE_S = 600.0
"""The longest that a judge may take for an episode, where nothing else is said."""

MOST = 10_000
"""The most scores, verdicts and requests of one judgement."""

MOST_BYTES = 2**20
"""The longest judgement, as JSON."""

ERROR_CHARS = 500
"""The longest error of a judge in a record."""

_JUDGEMENT: TypeAdapter[Judgement] = TypeAdapter(Judgement)


class JudgementError(Exception):
    """What a judge gave is no judgement; the text says why."""


class Judging:
    """Has episodes judged, and counts those on which the judge failed: `failed` of `asked`, without
    those where it had nothing to score. It also failed if none of its answers was valid. The first
    failure is logged; `first_error` has its text.

    A failed judgement has the kind that `kind_of` says. Scores are among `scores`, or if there are
    none, from 0 to 1. `most_s` is the longest that a judgement may take.
    """

    def __init__(
        self,
        judge: Judge,
        kind_of: Callable[[EpisodeRecord], str],
        scores: Collection[float] = (),
        most_s: float = JUDGE_S,
    ) -> None:
        self.asked = self.failed = 0
        self.first_error = ""
        self._judge = judge
        self._kind_of = kind_of
        self._scores = scores
        self._most_s = most_s

    async def judged(self, record: EpisodeRecord) -> Judgement:
        """The judgement of an episode, a `FailedJudgement` where the judge failed."""
        self.asked += 1
        try:
            async with asyncio.timeout(self._most_s) as limit:
                judgement = _checked(await self._judge.judge(record), self._scores)
        except Exception as error:  # noqa: BLE001
            if isinstance(error, TimeoutError) and limit.expired():
                return self.failure(record, f"limit: {self._most_s:g} s have passed")
            return self.failure(record, words_of(error))
        self.asked -= judgement.is_empty
        if not judgement.is_valid:
            self._note(record, why_invalid(judgement))
        return judgement

    def failure(self, record: EpisodeRecord, why: str) -> FailedJudgement:
        """The judgement in place of one that the judge did not give, which counts as failed."""
        error = storable(why[:ERROR_CHARS])
        self._note(record, error)
        kind = self._kind_of(record)
        return FailedJudgement(self._judge.name, kind, invalid=1, error=error)

    def _note(self, record: EpisodeRecord, error: str) -> None:
        self.failed += 1
        if self.failed == 1:
            self.first_error = error
            text = "the judge failed on %s: %s; further failures are counted, not logged"
            log.warning(text, record.episode, error)


def why_invalid(judgement: Judgement) -> str:
    """Why a judgement is not valid."""
    if isinstance(judgement, FailedJudgement):
        return judgement.error
    return f"none of its {judgement.invalid} answers was a valid score"


def _checked(found: object, scores: Collection[float]) -> Judgement:
    """The judgement as a reader of its record will read it. Raises `JudgementError`."""
    if not isinstance(found, Judgement):
        raise JudgementError(f"it gave a value of type {type(found).__name__}")
    for name in ("scores", "tools", "model_calls"):
        part = getattr(found, name)
        if not isinstance(part, list | tuple) or len(part) > MOST:
            gave = f"{len(part)}" if isinstance(part, list | tuple) else type(part).__name__
            raise JudgementError(f"its {name} are {gave} where a list of at most {MOST} is allowed")
    if not isinstance(found.by_metric, dict) or len(found.by_metric) > MOST:
        raise JudgementError(f"its by_metric is no object of at most {MOST} metrics")
    for score in found.scores:
        is_number = type(score) in (int, float) and math.isfinite(score)
        if not is_number or not 0 <= score <= 1 or (scores and score not in scores):
            allowed = ", ".join(map(str, scores)) or "a number from 0 to 1"
            raise JudgementError(f"a score is {score!r} where {allowed} is allowed")
    try:
        text = orjson.dumps(found)
        if len(text) > MOST_BYTES:
            raise JudgementError(f"it has {len(text)} bytes as JSON, over {MOST_BYTES}")
        return _JUDGEMENT.validate_json(text)
    except ValidationError as error:
        raise JudgementError(f"it gave no valid judgement: {first_problem(error)}") from error
    except TypeError as error:
        raise JudgementError(f"its judgement can't be written as JSON: {error}") from error
