"""Scores the episodes of a run by the scorer of Inspect AI: a line of JSON for each.

    python -m finport_inspect.parity RUN [--suite SUITE] [--dataset PATH]

Each line has `episode`, `reward` (null for an outage), `figures` and `outage`. They must be what
`finport.Rollouts` says of the same episodes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from inspect_ai.model import ModelName
from inspect_ai.scorer import Target
from inspect_ai.solver import TaskState

from bench.parity import Scorer, main
from bench.rollouts import messages_of
from finport import EpisodeRecord, Score
from finport_inspect.choice import Choice, suite_of
from finport_inspect.messages import from_chat
from finport_inspect.scoring import ENDED, OutageError, finport_reward, keep


def state_of(record: EpisodeRecord, *, has_session: bool) -> TaskState:
    """The state of a sample after the recorded episode."""
    state = TaskState(
        model=ModelName("mockllm/model"),
        sample_id=record.id,
        epoch=record.repeat + 1,
        input=record.question,
        messages=[*from_chat(messages_of(record))],
    )
    if record.error is not None:
        state.store.set(ENDED, {"error": record.error, "ending": record.ending})
    if has_session:  # the calls that open and close it are in no message
        keep(state, record)
    return state


@asynccontextmanager
async def opened(suite: str, dataset: Path | None) -> AsyncIterator[Scorer]:
    file = None if dataset is None else str(dataset)
    chosen = suite_of(Choice(suite, file))
    has_session = chosen.environment(chosen.tasks[0]) is not None
    scorer = finport_reward(suite, file)

    async def score(record: EpisodeRecord) -> Score:
        try:
            found = await scorer(state_of(record, has_session=has_session), Target(""))
        except OutageError as outage:
            return outage.score
        assert found is not None  # noqa: S101 - our scorer gives a score or raises
        about = found.metadata or {}
        return Score(found.as_float(), about["figures"], about["passed"])

    yield score


if __name__ == "__main__":
    main(opened)
