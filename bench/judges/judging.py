"""One judgement of one episode, whatever the judge does.

A judge that fails, takes too long, or gives what is no judgement costs its own judgement only.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Collection

from bench.judges.judge import Judge
from bench.own import words_of
from bench.record import EpisodeRecord, Judgement, ModelCallRecord, ToolVerdict

log = logging.getLogger("finport")

JUDGE_S = 3_600.0
"""The longest that a judge may take for an episode; one that asks a model gives up far earlier."""

LOGGED = 500
"""How many characters of a judge's error are logged."""


class JudgementError(Exception):
    """What a judge gave is no judgement; the text says why."""


async def judged(
    judge: Judge,
    record: EpisodeRecord,
    kind_of: Callable[[EpisodeRecord], str],
    scores: Collection[float] = (),
) -> Judgement:
    """The judgement, or an invalid one of the kind that `kind_of` says. Scores are among `scores`,
    or if there are none, from 0 to 1.
    """
    try:
        async with asyncio.timeout(JUDGE_S):
            return _checked(await judge.judge(record), scores)
    except Exception as error:  # noqa: BLE001
        log.warning("the judge failed on %s: %s", record.episode, words_of(error)[:LOGGED])
        return Judgement(judge.name, kind_of(record), invalid=1)


def _checked(found: object, scores: Collection[float]) -> Judgement:
    """Raises `JudgementError`."""
    if not isinstance(found, Judgement):
        raise JudgementError(f"it gave a value of type {type(found).__name__}")
    if not isinstance(found.judge, str) or not isinstance(found.kind, str):
        raise JudgementError("`judge` and `kind` are texts")
    for score in found.scores:
        is_number = type(score) in (int, float) and math.isfinite(score)
        if not is_number or not 0 <= score <= 1 or (scores and score not in scores):
            allowed = ", ".join(map(str, scores)) or "a number from 0 to 1"
            raise JudgementError(f"a score is {score!r} where {allowed} is allowed")
    of_types = (found.tools, ToolVerdict), (found.model_calls, ModelCallRecord)
    if type(found.invalid) is not int or not all(
        isinstance(part, kind) for parts, kind in of_types for part in parts
    ):
        raise JudgementError("its tools, requests or count of invalid answers are none")
    return found
