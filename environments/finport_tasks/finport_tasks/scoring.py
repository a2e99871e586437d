"""What a trace earned, by Finport's own measures."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from pydantic import TypeAdapter

from bench.record import Ending, EpisodeRecord
from bench.rollouts import Rollouts, Score
from bench.suites import suite_named
from bench.suites.suite import Suite
from bench.task import Task

RECORD = "finport_record"
"""The key of a trace's `info` under which the record of a played session stands."""

FRAMEWORK = "verifiers"

ENDINGS: Mapping[str, Ending] = {
    "max_turns": Ending.ROUNDS,
    "max_calls": Ending.CALLS,
    "max_input_tokens": Ending.TOKENS,
    "max_output_tokens": Ending.TOKENS,
    "max_total_tokens": Ending.TOKENS,
    "agent_timeout": Ending.TIME,
    "harness_error": Ending.AGENT_ERROR,
    "provider_error": Ending.MODEL_ERROR,
    "toolset_error": Ending.ENVIRONMENT_ERROR,
    "setup_timeout": Ending.ENVIRONMENT_ERROR,
    "error": Ending.LOST,
}
"""How an episode ended, by what stopped its trace. Any other trace ran to its answer."""

_RECORD: TypeAdapter[EpisodeRecord] = TypeAdapter(EpisodeRecord)


def suite_with(name: str, task: Task, dataset: str | None = None) -> Suite:
    """The suite of that name with one task. Raises `SuiteError`."""
    suite = suite_named(name)(name, [task])
    suite.dataset = Path(dataset) if dataset else None
    return suite


def record_fields(record: EpisodeRecord) -> Any:
    """The record of a played session, as `info` of a trace holds it."""
    return _RECORD.dump_python(record, mode="json")


def messages_of(trace: vf.Trace) -> Iterator[dict[str, Any]]:
    """The messages of a trace's last branch, as Chat Completions has them."""
    for message in trace.messages:
        yield message.model_dump(exclude_none=True)


def record_of(rollouts: Rollouts, task: Task, trace: vf.Trace) -> EpisodeRecord:
    """The episode that a trace tells of."""
    ending = ENDINGS.get(trace.stop_condition or "")
    error = None
    if ending is not None:
        last = trace.last_error
        error = last.message if last is not None else f"the rollout stopped: {trace.stop_condition}"
    record = rollouts.record(
        task,
        [*messages_of(trace)],
        framework=FRAMEWORK,
        error=error,
        ending=ending or Ending.AGENT_ERROR,
    )
    if played := trace.info.get(RECORD):
        record.tool_calls = _RECORD.validate_python(played).tool_calls
    return record


async def score_of(suite: str, task: Task, trace: vf.Trace) -> Score:
    """What a trace earned. Raises `SuiteError`."""
    async with Rollouts.open(suite_with(suite, task)) as rollouts:
        return await rollouts.score(record_of(rollouts, task, trace))


async def scored(suite: str, task: Task, trace: vf.Trace) -> Score:
    """The same. Raises `ToolsetError` for an outage: an errored trace is retried or masked."""
    score = await score_of(suite, task, trace)
    if score.outage is not None:
        raise vf.ToolsetError(f"outage: {score.outage}")
    return score
