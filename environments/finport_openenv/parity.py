"""Plays the episodes of a run again in the environment: `python -m finport_openenv.parity RUN`.

Each call gets the answer that the run recorded, so nothing but the environment can make a
difference. A line of JSON an episode says what it earned here.
"""

import argparse
import asyncio
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from bench.judges.registry import JudgeSettingsError
from bench.record import ToolCallRecord
from bench.runs.about import RunDirectoryError
from bench.runs.reader import Run
from cache import View
from finport import (
    CallContext,
    CallError,
    Ending,
    EpisodeRecord,
    ErrorCode,
    Result,
    Rollouts,
    SuiteError,
    Task,
)
from finport_openenv.models import FinportAction, FinportCall
from finport_openenv.server.finport_environment import FinportEnvironment
from finport_openenv.server.serving import Served, Serving, Settings


class Recorded:
    """Answers the calls of an episode in their order, as they were answered in its run."""

    def __init__(self, record: EpisodeRecord) -> None:
        self._calls = deque(record.tool_calls)

    async def call(self, tool: str, _: Mapping[str, Any], __: CallContext) -> Result:
        made = self._calls.popleft()
        result = Result(tool, made.call_id, made.elapsed_ms)
        if made.ok:
            text = made.observed if made.observed is not None else made.output
            data = orjson.dumps(text if isinstance(text, str) else orjson.dumps(text).decode())
            result.view, result.source = View(data, False, b"", is_text=True), made.source  # type: ignore[assignment]
            return result
        said = made.output.get("error") if isinstance(made.output, dict) else made.output
        code = ErrorCode(made.code or ErrorCode.INTERNAL)
        result.error = CallError(code, str(said), by=made.fault)  # type: ignore[arg-type]
        return result


def rounds(record: EpisodeRecord) -> Iterator[list[ToolCallRecord]]:
    for _, calls in groupby(record.agent_calls, key=lambda call: call.step):
        yield [*calls]


async def played(
    rollouts: Rollouts, tasks: Mapping[str, Task], record: EpisodeRecord
) -> dict[str, Any]:
    """What an episode earns in the environment. Raises `SuiteError` if its task is not there."""
    if record.id not in tasks:
        raise SuiteError(f"{rollouts.suite.name} has no task {record.id!r}; name its --dataset")
    environment = FinportEnvironment(Serving(Settings()))
    served = Served(rollouts, Recorded(record), tasks)
    await environment.begin(served, tasks[record.id], record.episode, record.repeat)
    for calls in rounds(record):
        asked = [FinportCall(tool=call.tool_name, arguments=call.parameters) for call in calls]
        await environment.make(asked)
    if record.error is None:
        seen = await environment.step_async(FinportAction(answer=record.execution_result))
    else:
        seen = await environment.ended(Ending(record.ending), record.error)
    found = {"episode": record.episode, "reward": seen.reward, "figures": seen.figures}
    return {**found, "outage": seen.outage}


async def compare(run: Path, suite: str, dataset: Path | None) -> None:
    async with Rollouts.open(suite, dataset) as rollouts:
        tasks = {task.id: task for task in rollouts.suite.tasks}
        for record, _ in Run.open(run).episodes():
            line = await played(rollouts, tasks, record)
            sys.stdout.buffer.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--suite", help="Default: that of the run.")
    parser.add_argument("--dataset", type=Path)
    given = parser.parse_args()
    try:
        suite = given.suite or Run.open(given.run).about.suite
        asyncio.run(compare(given.run, suite, given.dataset))
    except (JudgeSettingsError, RunDirectoryError, SuiteError) as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
