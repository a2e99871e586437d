"""Scores an episode of which only its answer and the gateway's trace are known.

The trace says which calls were made and how they ended. What they answered is in the snapshot that
the gateway records meanwhile, so the scorer asks no upstream. Calls that began before all earlier
ones had ended are one round.
"""

import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from anyio import to_thread

from bench.record import DRIVER, OUTPUT_CHARS, EpisodeRecord, ToolCallRecord, storable
from bench.rollouts import Rollouts, Score
from bench.runs.about import RunDirectoryError
from bench.runs.episode import AGENT_BYTES
from bench.runs.reader import Run, calls_in, text_of
from bench.suites import suite_named
from bench.suites.suite import Suite
from bench.task import Task, TaskModel
from cache.merge import merge
from cache.snapshot import SnapshotError
from gateway import CallRecord, Gateway, GatewaySettings

FRAMEWORK: Final = "harbor"

Answers = Mapping[str, str]
"""What calls that succeeded had answered, by their ids, as far as it is known."""


class LackError(Exception):
    """What the gateway should have left is not there or can't be read. That is an outage."""


class Scored(TaskModel):
    """A task with the name of its suite, as a scorer elsewhere needs it."""

    suite: str
    task: Task

    def loaded(self) -> Suite:
        """The suite with this task alone. Raises `SuiteError`."""
        return suite_named(self.suite)(self.suite, [self.task])


def read_task(file: Path) -> Scored:
    """Raises `ValidationError` and `OSError`."""
    return Scored.model_validate_json(file.read_bytes())


def answer_in(file: Path) -> str | None:
    """The answer that an agent left in a file; None if there is no file."""
    try:
        with file.open("rb") as opened:
            return opened.read(AGENT_BYTES).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def made_in(trace: Path) -> list[CallRecord]:
    """The calls of a trace. Raises `LackError`."""
    try:
        return [call for call, _ in calls_in(trace)]
    except RunDirectoryError as error:
        raise LackError(f"the gateway left no trace: {error}") from error


def tool_calls(made: Iterable[CallRecord], answers: Answers) -> list[ToolCallRecord]:
    """The calls of an episode, in the order in which they began."""
    calls, step, end = list[ToolCallRecord](), 0, 0.0
    for call in sorted(made, key=lambda call: call.at):
        if call.step is not None:
            step = call.step
        elif call.at >= end:
            step += 1
        end = max(end, call.at + call.elapsed_ms / 1e3)
        text = answers.get(call.call_id) if call.ok else None
        output = storable(text or "")[:OUTPUT_CHARS] if call.ok else {"error": call.message or ""}
        calls.append(
            ToolCallRecord(
                *(step, call.tool, dict(call.arguments), output, call.ok, call.code, call.fault),
                *(call.source, call.call_id, call.elapsed_ms, call.at),
                observed=None if text is None else storable(text),
            )
        )
    return calls


@asynccontextmanager
async def recorded(snapshot: Path) -> AsyncIterator[Gateway | None]:
    """A gateway that answers from the snapshot that another one records, or has recorded; None if
    there is none. Raises `LackError`.
    """
    journal = snapshot.with_name(f"{snapshot.name}.journal")
    source = next((file for file in (snapshot, journal) if file.is_file()), None)
    if source is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "answers.snapshot"
        try:
            await to_thread.run_sync(merge, [source], copy)
        except SnapshotError as error:
            if source.stat().st_size > EMPTY_BYTES:
                raise LackError(f"the answers can't be read: {error}") from error
            yield None
            return
        settings = GatewaySettings(mode="offline", snapshot=copy, cache_dir=Path(folder))
        async with Gateway.open(settings) as gateway:
            yield gateway


EMPTY_BYTES = 128
"""A journal of so many bytes holds no row."""


async def answers_of(made: Iterable[CallRecord], gateway: Gateway | None) -> Answers:
    """The answers of calls by a gateway that has recorded them."""
    texts = dict[str, str]()
    for call in made:
        if call.ok and gateway is not None:
            result = await gateway.call(call.tool, call.arguments)
            if result.ok:
                texts[call.call_id] = result.text()
    return texts


async def score(
    rollouts: Rollouts, task: Task, answer: str | None, calls: list[ToolCallRecord]
) -> Score:
    """What an answer and calls earn. Raises `SuiteError`."""
    said = [] if answer is None else [{"role": "assistant", "content": answer}]
    record = rollouts.record(task, said, framework=FRAMEWORK)
    record.tool_calls = calls
    return await rollouts.score(record)


async def score_left(scored: Scored, answer: Path, trace: Path, snapshot: Path) -> Score:
    """What the files earn that an agent and its gateway left. Raises `LackError`, `SuiteError`."""
    made = await to_thread.run_sync(made_in, trace)
    async with Rollouts.open(scored.loaded()) as rollouts, recorded(snapshot) as gateway:
        calls = tool_calls(made, await answers_of(made, gateway))
        said = await to_thread.run_sync(answer_in, answer)
        return await score(rollouts, scored.task, said, calls)


async def score_run(run: Run, rollouts: Rollouts) -> AsyncIterator[tuple[EpisodeRecord, Score]]:
    """What the episodes of a run earn by their answers and the run's trace, which is held in
    memory. An episode that ended by an error has no answer.
    """
    traced = defaultdict[str | None, list[CallRecord]](list)
    for call, _ in run.calls():
        if call.step != DRIVER:
            traced[call.episode].append(call)
    tasks: Mapping[str, Task] = {task.id: task for task in rollouts.suite.tasks}
    for record, _ in run.episodes():
        if record.id not in tasks:
            raise LackError(f"{rollouts.suite.name} has no task {record.id!r}; name its --dataset")
        texts = {
            call.call_id: text_of(call.output) if call.observed is None else call.observed
            for call in record.agent_calls
        }
        calls = tool_calls(traced.pop(record.episode, ()), texts)
        answer = record.execution_result if record.error is None else None
        yield record, await score(rollouts, tasks[record.id], answer, calls)
