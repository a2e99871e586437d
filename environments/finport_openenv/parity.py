"""Plays the episodes of a run again in the environment: `python -m finport_openenv.parity RUN`.

Each call gets the answer that the run recorded, so nothing but the environment can make a
difference. A line of JSON an episode says what it earned here.
"""

from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from bench.parity import Scorer, main
from bench.record import ToolCallRecord
from cache import View
from finport import (
    CallContext,
    CallError,
    Ending,
    EpisodeRecord,
    ErrorCode,
    Result,
    Rollouts,
    Score,
    SuiteError,
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


@asynccontextmanager
async def opened(suite: str, dataset: Path | None) -> AsyncIterator[Scorer]:
    async with Rollouts.open(suite, dataset) as rollouts:
        tasks = {task.id: task for task in rollouts.suite.tasks}

        async def played(record: EpisodeRecord) -> Score:
            """What an episode earns in the environment. Raises `SuiteError` without its task."""
            if record.id not in tasks:
                raise SuiteError(f"{suite} has no task {record.id!r}; name its --dataset")
            environment = FinportEnvironment(Serving(Settings()))
            served = Served(rollouts, Recorded(record), tasks)
            await environment.begin(served, tasks[record.id], record.episode, record.repeat)
            for calls in rounds(record):
                asked = [FinportCall(tool=one.tool_name, arguments=one.parameters) for one in calls]
                await environment.make(asked)
            if record.error is None:
                answer = FinportAction(answer=record.execution_result)
                seen = await environment.step_async(answer)
            else:
                seen = await environment.ended(Ending(record.ending), record.error)
            return Score(seen.reward, seen.figures, bool(seen.passed), seen.credit, seen.outage)

        yield played


if __name__ == "__main__":
    main(opened)
