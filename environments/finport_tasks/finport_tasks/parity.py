"""Scores the episodes of a run of `finbench run` as traces of verifiers, one JSON object a line.

    python -m finport_tasks.parity RUN [--suite S] [--dataset D]

Each episode becomes a trace with verifiers' own messages, and the environment's own reward and
metrics score it, as they score a rollout. `finbench env parity` compares them with the run's own.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from bench.parity import Scorer, main
from bench.record import Ending, EpisodeRecord
from bench.rollouts import Score, messages_of
from finport_tasks.scoring import ENDINGS, RECORD, record_fields, score_of
from finport_tasks.servers.tool import FinportState
from finport_tasks.taskset import FinportConfig, FinportTask, FinportTaskset

STOPS: Mapping[Ending, str] = {ending: stop for stop, ending in reversed(ENDINGS.items())}


def message_of(told: Mapping[str, Any]) -> vf.Message:
    """A message of Chat Completions as one of verifiers."""
    match told["role"]:
        case "user":
            return vf.UserMessage(content=told["content"])
        case "tool":
            return vf.ToolMessage(tool_call_id=told["tool_call_id"], content=told["content"])
    calls = [
        vf.ToolCall(id=call["id"], **call["function"]) for call in told.get("tool_calls") or ()
    ]
    return vf.AssistantMessage(content=told["content"], tool_calls=calls or None)


def trace_of(task: FinportTask, record: EpisodeRecord, *, has_session: bool) -> vf.Trace:
    """A trace with what a recorded episode did."""
    messages = [message_of(told) for told in messages_of(record)]
    nodes = [
        vf.MessageNode(
            parent=place - 1 if place else None,
            message=message,
            sampled=message.role == "assistant",
        )
        for place, message in enumerate(messages)
    ]
    trace: vf.Trace = vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig())),
        state=FinportState(),
        nodes=nodes,
    )
    if record.error is not None:
        ending = Ending(record.ending)
        trace.errors.append(vf.Error(type=ending.value, message=record.error))
        trace.stop(STOPS[ending])
    if has_session:
        trace.info[RECORD] = record_fields(record)
    return trace


@asynccontextmanager
async def opened(suite: str, dataset: Path | None) -> AsyncIterator[Scorer]:
    config = FinportConfig(id="finport-tasks", suite=suite, dataset=dataset)
    tasks = {task.data.id: task for task in FinportTaskset(config)}

    async def score(record: EpisodeRecord) -> Score:
        """What the environment's rewards and metrics give, or the outage that the episode met."""
        task = tasks[record.id]
        trace = trace_of(task, record, has_session=record.agent_calls != record.tool_calls)
        try:
            await task.score(trace)
        except vf.ToolsetError as error:
            outage = str(error).removeprefix("outage: ")
            # An errored trace has no metrics; these are what they would be.
            found = await score_of(task.data.suite, task.task, trace)
            return replace(found, reward=None, outage=outage)
        figures = {name: value for name, value in trace.metrics.items() if name != "passed"}
        return Score(trace.reward, figures, bool(trace.metrics["passed"]))

    yield score


if __name__ == "__main__":
    main(opened)
