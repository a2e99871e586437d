"""The driver: many episodes at once, each to its end, every one recorded.

At most `concurrency` episodes are in flight and nothing else is held, so memory grows with what is
in flight, never with what is done. Whatever an agent does, its episode ends in one record: in its
answer, or in an error that says at which limit or by which fault.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import anyio
from aiolimiter import AsyncLimiter

from bench.agents import Agent, Round, ToolCall, Turn
from bench.client import Reply, ToolClient
from bench.record import OUTPUT_CHARS, EpisodeRecord, ToolCallRecord
from bench.run_dir import RunDirectory
from bench.suite import Suite, Task
from gateway import ErrorCode
from gateway.bind import masked
from gateway.trace import TraceError


@dataclass(frozen=True, slots=True)
class Limits:
    """What one episode may use: rounds, calls in a round, seconds. Rounds as in FinToolBench."""

    rounds: int = 5
    calls_a_round: int = 16
    wall_s: float = 600.0


class Driver:
    """Runs episodes of one suite with one agent."""

    def __init__(
        self,
        suite: Suite,
        agent: Agent,
        client: ToolClient,
        run: RunDirectory,
        *,
        concurrency: int,
        limits: Limits | None = None,
        starts_per_s: float = 10_000.0,
    ) -> None:
        self.in_flight = 0
        self.most_in_flight = 0
        self.done = 0
        self._suite = suite
        self._agent = agent
        self._client = client
        self._run = run
        self._concurrency = concurrency
        self._limits = limits or Limits()
        self._starts = AsyncLimiter(max(starts_per_s / 10, 1), 0.1)

    async def run(self, episodes: int) -> None:
        """Run `episodes` episodes: the suite's tasks in order, again from the first when through;
        without those that are finished already.

        Raises `TraceError` when records can't be written; then nothing more is started.
        """
        work = self._owed(episodes)
        self.done = len(self._run.finished)
        failure = ""
        try:
            async with anyio.create_task_group() as tasks:
                for _ in range(min(self._concurrency, episodes)):
                    tasks.start_soon(self._work, work)
        except* TraceError as group:  # what is raised in here would come out as a group again
            failure = str(group.exceptions[0])
        if failure:
            raise TraceError(failure)

    def _owed(self, episodes: int) -> Iterator[tuple[Task, int]]:
        """Tasks and their repeats, without those that are finished."""
        tasks, finished = self._suite.tasks, self._run.finished
        for number in range(episodes):
            repeat, index = divmod(number, len(tasks))
            if _name_of(tasks[index], repeat) not in finished:
                yield tasks[index], repeat

    async def _work(self, owed: Iterator[tuple[Task, int]]) -> None:
        for task, repeat in owed:
            await self._starts.acquire()
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            record = await self._episode(task, repeat)
            self.in_flight -= 1
            self.done += 1
            self._run.episodes.put(record)
            if self._run.episodes.full:
                await self._run.episodes.room()

    async def _episode(self, task: Task, repeat: int) -> EpisodeRecord:
        record = EpisodeRecord(
            episode=_name_of(task, repeat),
            id=task.id,
            repeat=repeat,
            source_dataset=self._suite.name,
            category=task.category,
            question=task.question,
            setting=self._agent.name,
            ground_truth=task.answer,
            candidate_tools=[call.name for call in task.tools],
            started_at=round(time.time(), 3),
        )
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._limits.wall_s) as limit:
                await self._play(task, record)
        except TraceError:
            raise
        except Exception as error:  # noqa: BLE001 - an agent's fault ends its own episode only
            record.error = f"agent: {type(error).__name__}: {error}"
            if isinstance(error, TimeoutError) and limit.expired():
                record.error = f"limit: {self._limits.wall_s:g} s have passed"
        record.elapsed_ms = round((time.perf_counter() - started) * 1e3, 3)
        return record

    async def _play(self, task: Task, record: EpisodeRecord) -> None:
        history: list[Round] = []
        while True:
            turn = await self._agent.act(task, record.repeat, history)
            if turn.response:
                record.response.append(turn.response)
            if not turn.calls:
                record.execution_result = turn.answer
                return
            if len(history) == self._limits.rounds:
                record.error = f"limit: {self._limits.rounds} rounds are used up"
                return
            history.append(await self._round(turn, record, step=len(history) + 1))

    async def _round(self, turn: Turn, record: EpisodeRecord, step: int) -> Round:
        """Calls are in the record before they are made: one that is cut off is not lost."""
        calls = turn.calls[: self._limits.calls_a_round]
        made = [_pending(call, step) for call in calls]
        record.tool_calls.extend(made)
        replies = await asyncio.gather(
            *(self._call(call, made[n], record.episode) for n, call in enumerate(calls))
        )
        return Round(turn, tuple(replies))

    async def _call(self, call: ToolCall, made: ToolCallRecord, episode: str) -> Reply:
        reply = await self._client.call(call.tool, call.arguments, episode, made.step)
        made.output = reply.output[:OUTPUT_CHARS] if reply.ok else {"error": reply.message}
        made.ok, made.code, made.fault = reply.ok, reply.code, reply.fault
        made.source, made.call_id, made.elapsed_ms = reply.source, reply.call_id, reply.elapsed_ms
        return reply


def _name_of(task: Task, repeat: int) -> str:
    return f"{task.id}.{repeat}"


def _pending(call: ToolCall, step: int) -> ToolCallRecord:
    return ToolCallRecord(
        step=step,
        tool_name=call.tool,
        parameters=masked(call.arguments),
        output={"error": "the episode ended before the answer came"},
        ok=False,
        code=ErrorCode.CANCELLED.value,
        fault=ErrorCode.CANCELLED.fault,
        source=None,
        call_id="",
        elapsed_ms=0.0,
    )
