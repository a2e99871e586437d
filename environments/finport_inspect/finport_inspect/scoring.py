"""The scorer: the reward and the figures of the suite, from an episode's messages."""

import asyncio
from asyncio import AbstractEventLoop, Future, Task
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from weakref import WeakKeyDictionary

from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    mean,
    metric,
    scorer,
    stderr,
)
from inspect_ai.solver import TaskState
from pydantic import TypeAdapter

import finport
from finport import EpisodeRecord, Rollouts, Suite
from finport_inspect.choice import Choice, suite_of
from finport_inspect.messages import to_chat

RECORD = "finport_record"
"""Where a sample's store has the record of an episode that was played by native tools."""

ENDED = "finport_ended"
"""Where it has `error` and `ending` of an episode that did not run to its answer."""

_RECORD = TypeAdapter(EpisodeRecord)


class _Opened:
    """The rollouts of a suite, open from the first score until the event loop ends and cancels the
    task that holds them: a judge may have processes.
    """

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._by_loop = WeakKeyDictionary[AbstractEventLoop, tuple[Future[Rollouts], Task[None]]]()

    async def rollouts(self) -> Rollouts:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            opened = loop.create_future()
            self._by_loop[loop] = opened, loop.create_task(self._hold(opened))
        return await asyncio.shield(self._by_loop[loop][0])

    async def _hold(self, opened: "Future[Rollouts]") -> None:
        try:
            async with Rollouts.open(self._suite) as rollouts:
                opened.set_result(rollouts)
                await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001 - it is raised where the rollouts are wanted
            if not opened.done():
                opened.set_exception(error)


class OutageError(Exception):
    """What the gateway, a quota or an upstream failed: the sample has an error and no score, so
    that Inspect retries it.
    """

    def __init__(self, score: finport.Score) -> None:
        super().__init__(f"outage: {score.outage}")
        self.score = score


@metric
def figures() -> Metric:
    """The mean of each figure of the suite, over the samples that have it."""

    def means(scores: Sequence[SampleScore]) -> dict[str, float]:
        found: dict[str, list[float]] = {}
        for one in scores:
            for name, value in ((one.score.metadata or {}).get("figures") or {}).items():
                found.setdefault(name, []).append(value)
        return {name: sum(values) / len(values) for name, values in found.items()}

    return means


def keep(state: TaskState, record: EpisodeRecord) -> None:
    """Keep the record of an episode that messages alone do not tell."""
    state.store.set(RECORD, asdict(record))


def record_of(rollouts: Rollouts, state: TaskState) -> EpisodeRecord:
    """The episode that a sample's messages or its kept record tell of."""
    if (kept := state.store.get(RECORD)) is not None:
        return _RECORD.validate_python(kept)
    task = next(one for one in rollouts.suite.tasks if one.id == state.sample_id)
    ended: dict[str, Any] = state.store.get(ENDED) or {}
    return rollouts.record(
        task, [*to_chat(state.messages)], repeat=state.epoch - 1, framework="inspect", **ended
    )


@scorer(metrics=[mean(), stderr(), figures()])
def finport_reward(
    suite: str,
    dataset: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    difficulty: str | None = None,
    language: str | None = None,
) -> Scorer:
    """The reward of the suite. Its figures, `passed`, `credit` and `ending` are metadata of the
    score.
    """
    levels = tuple(difficulty.split(",")) if difficulty else ()
    opened = _Opened(suite_of(Choice(suite, dataset, limit, seed, levels, language)))

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
        rollouts = await opened.rollouts()
        record = record_of(rollouts, state)
        found = await rollouts.score(record)
        if found.reward is None:
            raise OutageError(found)
        return Score(
            value=found.reward,
            answer=record.execution_result,
            explanation=record.error,
            metadata={
                "figures": dict(found.figures),
                "passed": found.passed,
                "credit": found.credit,
                "outage": found.outage,
                "ending": record.ending,
                "calls": len(record.agent_calls),
            },
        )

    return score
