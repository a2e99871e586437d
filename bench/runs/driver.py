"""The driver: runs many episodes at once, each to its end, and records every one.

It holds only the episodes in flight, at most `concurrency`, so memory does not grow with the number
of finished ones. Whatever an agent does, its episode ends in one record of bounded size: with its
answer, or with an error that names the limit or the fault. Only Ctrl-C ends more than one episode.
The limits can't stop an agent or a judge that never yields, or that goes on after it is cancelled.
"""

import asyncio
import contextlib
import itertools
import logging
import math
import signal
import threading
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

import anyio
import orjson
from aiolimiter import AsyncLimiter
from anyio import to_thread

from bench.agents import Agent, Episode, ModelError, Round, ToolCall
from bench.agents.agent import checked
from bench.agents.function import FunctionAgent
from bench.client import HttpClient, ToolClient
from bench.judges import Judge
from bench.judges.judging import JUDGE_S, Judging
from bench.models.client import ErrorStreak
from bench.models.transcript import TRANSCRIPT, By, Transcript
from bench.own import words_of
from bench.record import DRIVER, Checkpoint, Ending, EpisodeRecord, ToolCallRecord, storable
from bench.runs.episode import (
    AGENT_BYTES,
    Observed,
    answered,
    begun,
    end,
    name_of,
    note_left,
    note_observed,
    pending,
    refused,
    requests_of,
    within_bounds,
)
from bench.runs.metrics import Tally
from bench.runs.resume import Begun
from bench.suites.suite import Environment, Suite
from bench.task import Task
from bench.wire import WireClient
from gateway import CallContext, ErrorCode, Gateway, Result
from gateway.context import QUERY_CHARS
from gateway.pipeline.bind import REDACTED
from gateway.trace import Trace, TraceError
from manifests import Manifest

log = logging.getLogger("finport")


SESSION = "session"
"""The argument of an environment's tools, and the field of its answer, that names a session."""

STARTS_AT_ONCE = 64
"""Episodes that start in one turn of the event loop."""

CLOSING_S = 10.0
"""Seconds for which the end of an episode waits until its session is closed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one episode may use: rounds (as in FinToolBench), calls in all and in one round,
    seconds, and tokens of its model (None: any number). The answers of its calls have at most
    `output_chars` or `output_tokens`; if neither is set, as many as the agent says.
    """

    rounds: int = 5
    calls: int = 80
    calls_a_round: int = 16
    wall_s: float = 600.0
    tokens: int | None = None
    output_chars: int | None = None
    output_tokens: int | None = None


class ModelDownError(Exception):
    """A model gave nothing but one error, so the run ends; the text says which and where."""


Owed = tuple[Task, int]
"""An episode that is to be run: its task, and which repeat of it."""


class Stream(Protocol):
    """Takes records, in order. The driver waits for `room` while it is `full`; `failure` says why
    nothing can be written any more.
    """

    @property
    def failure(self) -> str | None: ...

    @property
    def full(self) -> bool: ...

    def put(self, record: Any) -> None: ...

    async def room(self) -> None: ...


class RunRecords(Protocol):
    """Takes the records of episodes in the order in which they end, those of their calls,
    checkpoints of those in sessions, and transcripts, unless these two are None. `begun` has the
    checkpoints of interrupted episodes, and `finished` names those that need not be run. `unjudged`
    names those that need not be played any more, but lack a judgement; `recorded` gives their
    records. `begin` notes where answers come from.
    """

    finished: set[str]
    begun: Begun

    @property
    def unjudged(self) -> Collection[str]: ...

    @property
    def calls(self) -> Trace: ...

    @property
    def episodes(self) -> Stream: ...

    @property
    def checkpoints(self) -> Stream | None: ...

    @property
    def transcripts(self) -> Stream | None: ...

    async def begin(self, about: Mapping[str, Any]) -> None: ...

    async def recorded(self, episode: str) -> EpisodeRecord: ...


Offer = Callable[[Task], Awaitable[Sequence[Manifest]]]
"""Finds the tools that the agent is offered for a task."""


class Driver:
    """Runs episodes of one suite with one agent, and has each judged where there is a judge.

    A judgement takes at most `judge_s` seconds. The agent sees the answers of the tools `withheld`,
    but no record holds them. `environment` are further arguments with which the environments of
    episodes are opened. `streaks` tell when a model is down.

    `began` is when it began to play, by the performance counter. `gone_on` has, by interrupted
    episode, how many calls it did not need to decide on again.
    """

    def __init__(
        self,
        suite: Suite,
        agent: Agent,
        client: ToolClient,
        run: RunRecords,
        *,
        concurrency: int,
        limits: Limits | None = None,
        starts_per_s: float = 10_000.0,
        offer: Offer | None = None,
        judge: Judge | None = None,
        judge_s: float = JUDGE_S,
        withheld: Collection[str] = (),
        environment: Mapping[str, Any] = MappingProxyType({}),
        streaks: Sequence[ErrorStreak] = (),
    ) -> None:
        self.in_flight = 0
        self.most_in_flight = 0
        self.done = 0
        self.tally = Tally()
        self.gone_on: dict[str, int] = {}
        self.goes_on = bool(getattr(agent, "goes_on", False))
        self.began: float | None = None
        self.agent = agent
        self._opened_with = environment
        self._suite = suite
        self._ended = agent.ended if isinstance(agent, FunctionAgent) else None
        self._client = client
        self._is_remote = isinstance(client, HttpClient)
        self._run = run
        self._concurrency = concurrency
        self._limits = limits or Limits()
        self._starts = AsyncLimiter(max(starts_per_s / 100, 1), max(0.01, 1 / starts_per_s))
        self._offer = offer
        self._judging = (
            None
            if judge is None
            else Judging(judge, suite.kind_of, suite.scores_of(judge.name), judge_s)
        )
        self._host: asyncio.Task[None] | None = None
        self._withheld = withheld
        self._streaks = streaks

    @property
    def figures(self) -> dict[str, Any]:
        """What its client knows, for `run.json`; a snapshot that is recorded has its id at last."""
        if isinstance(self._client, WireClient):
            return {"gateway_calls": self._client.counts()}
        return {"snapshot": self._client.snapshot_id} if isinstance(self._client, Gateway) else {}

    async def hosts(self) -> dict[str, dict[str, Any]]:
        """The states of the gateway's upstream hosts, by name; empty if it does not give them."""
        if isinstance(self._client, Gateway):
            return self._client.answers.hosts.state()
        return await self._client.hosts() if isinstance(self._client, HttpClient) else {}

    async def run(self, episodes: int) -> None:
        """Run `episodes` episodes: the suite's tasks in order, from the first again after the last,
        without the episodes that are already finished. It ends as `play` does.
        """
        finished = self._run.finished
        self.done = len(finished)
        left = owed(self._suite, episodes, finished)

        async def take() -> Owed | None:
            return next(left, None)

        await self.play(take, most=episodes)

    async def play(self, take: Callable[[], Awaitable[Owed | None]], most: int) -> None:
        """Run the episodes that `take` gives until it gives None, of which there are at most
        `most`. Once its task is cancelled, no agent gets a further turn, and an episode that waits
        for its judge is recorded without a judgement.

        Raises `TraceError` when records can't be written, and `ModelDownError`; then no further
        episode is started.
        """
        self._host, self.began = asyncio.current_task(), time.perf_counter()
        failure: TraceError | ModelDownError | None = None
        try:
            async with anyio.create_task_group() as tasks:
                for number in range(min(self._concurrency, most)):
                    await self._starts.acquire()  # here, so that not all wait for it at once
                    if number % STARTS_AT_ONCE == 0:
                        await asyncio.sleep(0)
                    if self.done >= most:
                        break
                    tasks.start_soon(self._work, take)
        # An error raised in here would be put into a group again.
        except* TraceError as group:
            failure = TraceError(str(group.exceptions[0]))
        except* ModelDownError as group:
            failure = failure or ModelDownError(str(group.exceptions[0]))
        if failure is not None:
            raise failure

    async def _work(self, take: Callable[[], Awaitable[Owed | None]]) -> None:
        run, is_first = self._run, True
        while (given := await take()) is not None:
            task, repeat = given
            if not is_first:
                await self._starts.acquire()
            is_first = False
            self.in_flight += 1
            if self.in_flight > self.most_in_flight:
                self.most_in_flight = self.in_flight
            if run.transcripts is not None:
                TRANSCRIPT.set(Transcript())
            if run.unjudged and (name := name_of(task, repeat)) in run.unjudged:
                record = await run.recorded(name)
            else:
                record = await self._episode(task, repeat)
                if run.transcripts is not None:
                    await self._transcribe(record, "agent")
            if self._judging is not None:
                await self._judge(self._judging, record)
                if run.transcripts is not None:
                    await self._transcribe(record, "judge")
            self.in_flight -= 1
            self.done += 1
            if record.error is not None or record.judgement is not None:
                self.tally.add(record)
            run.episodes.put(record)
            if (why := run.calls.failure) is not None:  # the gateway refuses further calls
                raise TraceError(f"calls.jsonl: {why}; no call could be recorded any more")
            for streak in self._streaks:
                if (why := streak.told) is not None:
                    raise ModelDownError(why)
            if run.episodes.full:
                await run.episodes.room()
            if run.transcripts is not None and run.transcripts.full:
                await run.transcripts.room()
            await asyncio.sleep(0)  # so that the record is written, even if the next agent blocks

    async def _judge(self, judging: Judging, record: EpisodeRecord) -> None:
        """Have an episode judged. Where the run ends before, it is recorded without a judgement."""
        own_task = asyncio.current_task()
        try:
            if self._host is not None and self._host.cancelling():
                raise asyncio.CancelledError
            record.judgement = await judging.judged(record)
        except BaseException as error:
            if asyncio.current_task() is not own_task:  # it is being closed
                raise
            if _is_ctrl_c(error) or self._is_told_to_end():
                self._run.episodes.put(record)
                raise
            record.judgement = judging.failure(record, words_of(error))
        await self._take_back_cancellations()

    async def _transcribe(self, record: EpisodeRecord, by: By) -> None:
        """Put what was said to models and by them since the last time."""
        stream, transcript = self._run.transcripts, TRANSCRIPT.get()
        if stream is None or not transcript:
            return
        said = record.episode, record.started_at, by
        if transcript.is_quick:
            line = transcript.line(*said)
        else:
            with anyio.CancelScope(shield=True):  # the episode has ended, and must not be lost
                line = await to_thread.run_sync(transcript.line, *said)
        stream.put(line)

    async def _episode(self, task: Task, repeat: int) -> EpisodeRecord:
        record = begun(self._suite, task, repeat, self.agent.name)
        episode = Episode(task, repeat, rounds_left=self._limits.rounds)
        record.model_calls = episode.model_calls
        course = _Course(episode, record)
        own_task = asyncio.current_task()
        try:
            async with asyncio.timeout(self._limits.wall_s) as limit:
                if self._offer is not None:
                    episode.tools = tuple(await self._offer(task))
                    record.candidate_tools = [tool.name for tool in episode.tools]
                environment = self._suite.environment(task)
                if environment is None:
                    await self._play(course, limit)
                else:
                    async with self._session(environment, record) as course.session:
                        episode.moves = ()
                        await self._go_on(course, course.session)
                        course.note()
                        await self._play(course, limit)
        except TraceError:
            raise
        except ModelError as error:
            end(record, Ending.MODEL_ERROR, f"model: {error}")
        except SessionError as error:
            end(record, Ending.ENVIRONMENT_ERROR, f"environment: {error}")
        except BaseException as error:
            if _is_ctrl_c(error) or asyncio.current_task() is not own_task:  # it is being closed
                raise
            if self._is_told_to_end():
                if isinstance(error, asyncio.CancelledError):
                    raise
                raise asyncio.CancelledError from error
            if isinstance(error, TimeoutError) and limit.expired():
                end(record, Ending.TIME, f"limit: {self._limits.wall_s:g} s have passed")
            else:
                end(record, Ending.AGENT_ERROR, f"agent: {words_of(error)}")
        finally:
            if self._ended is not None:
                self._ended(episode)
        note_left(episode, course.rounds, record)
        if own_task is not None and own_task.cancelling():
            await self._take_back_cancellations()
        record.elapsed_ms = course.elapsed_ms
        return record

    async def _play(self, course: "_Course", limit: asyncio.Timeout) -> None:
        """Play turns until the last one. What the agent reads of each round is added to the rounds
        of `course`, whatever it does to its episode.
        """
        limits, host, spoken = self._limits, self._host, 0
        episode, record, rounds = course.episode, course.record, course.rounds
        context = self._context(episode.task, record.episode)
        while True:
            if host is not None and host.cancelling():
                raise asyncio.CancelledError
            step = episode.step = len(rounds) + 1
            turn = checked(await self.agent.act(episode))
            if limit.expired():  # the agent ignored its cancellation
                raise TimeoutError
            calls = []
            for asked in turn.calls[: limits.calls]:
                call, size = within_bounds(asked)
                calls.append(call)
                spoken += size
            for text in (turn.response, turn.answer):
                spoken += len(text.encode("utf-8", "replace"))
            if spoken > AGENT_BYTES:
                text = f"agent: texts and arguments of an episode have at most {AGENT_BYTES} bytes"
                return end(record, Ending.AGENT_ERROR, text)
            if turn.response:
                record.response.append(storable(turn.response))
            if not turn.calls:
                record.execution_result = storable(turn.answer)
                record.ending = turn.ending.value
                return None
            if len(rounds) == limits.rounds:
                return end(record, Ending.ROUNDS, f"limit: {limits.rounds} rounds are used up")
            if len(record.tool_calls) + len(turn.calls) > limits.calls:
                return end(record, Ending.CALLS, f"limit: {limits.calls} calls are used up")
            if limits.tokens is not None and record.tokens >= limits.tokens:
                return end(record, Ending.TOKENS, f"limit: {limits.tokens} tokens are used up")
            episode.rounds_left = limits.rounds - step
            session = course.session
            sent = calls if session is None else [session.named_in(call) for call in calls]
            options = CallContext(step=step, **context)
            made = [*map(pending, calls, itertools.repeat(step))]
            record.tool_calls += made  # before they are made: an interrupted one is not lost
            if len(made) == 1:
                replies: tuple[Result, ...] = (await self._call(sent[0], made[0], options),)
            else:
                replies = await self._round(sent, made, options)
            played = Round(turn, replies)
            rounds.append((len(replies), played.observed))
            episode.history.append(played)
            if session is not None:
                await self._checkpoint(course)

    def _is_told_to_end(self) -> bool:
        """Whether the run is being cancelled, not just something that an agent awaited.

        The run's own task knows it first. The other tasks are cancelled once the event loop is
        free, and agents that block the loop would each have another turn before.
        """
        is_host_cancelled = self._host is not None and self._host.cancelling() > 0
        return is_host_cancelled or anyio.current_effective_deadline() == -math.inf

    async def _take_back_cancellations(self) -> None:
        """Undo cancellations of this task by its agent or judge, of which there may be several."""
        task = asyncio.current_task()
        while task is not None and task.cancelling() and not self._is_told_to_end():
            task.uncancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)

    async def _round(
        self, calls: Sequence[ToolCall], made: Sequence[ToolCallRecord], context: CallContext
    ) -> tuple[Result, ...]:
        """Make the calls of one round, as far as a round holds so many."""
        width = self._limits.calls_a_round
        asked = zip(calls[:width], made, strict=False)
        results = await asyncio.gather(*(self._call(call, one, context) for call, one in asked))
        text = f"a round holds at most {width} calls"
        for call, one in zip(calls[width:], made[width:], strict=True):
            results.append(answered(one, refused(ErrorCode.INVALID_REQUEST, text, call)))
        return tuple(results)

    @asynccontextmanager
    async def _session(
        self, environment: Environment, record: EpisodeRecord
    ) -> AsyncIterator["Session"]:
        """The session in which an episode takes place. Raises `SessionError` where it can't be
        opened. It is closed however the episode ends, except that a run that is being cancelled
        does not wait for it.
        """
        session = await Session.open(self._client, record, environment, self._opened_with)
        try:
            yield session
        finally:
            if not self._is_told_to_end():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLOSING_S):
                        await session.close(self._client, record)

    async def _go_on(self, course: "_Course", session: "Session") -> None:
        """Bring the session of an episode that was interrupted to its last checkpoint, and the
        record too, if the agent can go on from there. Raises `SessionError` where a call that
        worked then does not now.
        """
        episode, record = course.episode, course.record
        begun = self._run.begun.get(record.episode)
        if not begun or not self.goes_on:
            return
        calls = [call for checkpoint in begun for call in checkpoint.tool_calls]
        episode.moves = tuple(self._moves(calls))
        context = CallContext(episode=record.episode, step=DRIVER)
        for made in episode.moves:
            call = session.named_in(ToolCall(made.tool_name, made.parameters))
            reply = await self._client.call(call.tool, call.arguments, context)
            if reply.error is not None:
                raise SessionError(f"the episode can't go on: {reply.message or reply.code}")
        self.gone_on[record.episode] = len(episode.moves)
        for checkpoint in begun:
            record.response += checkpoint.response
            episode.model_calls += checkpoint.model_calls
        record.tool_calls += calls
        record.started_at = begun[0].started_at
        course.began -= begun[-1].elapsed_ms / 1e3
        course.rounds += [
            (len([*made]), {}) for _, made in itertools.groupby(calls, lambda call: call.step)
        ]
        episode.rounds_left = self._limits.rounds - len(course.rounds)

    def _moves(self, calls: Sequence[ToolCallRecord]) -> list[ToolCallRecord]:
        moving = self._suite.moving_tools
        return [replace(call) for call in calls if call.ok and call.tool_name in moving]

    async def _checkpoint(self, course: "_Course") -> None:
        """Note what an episode did since its last checkpoint, if that made a state of its session
        which can be made again.
        """
        episode, record, checkpoints = course.episode, course.record, self._run.checkpoints
        calls = record.tool_calls[course.calls :]
        moves = self._moves(calls)
        played = [(call.tool_name, call.parameters) for call in moves]
        if not played or len(self._suite.moves(played, episode.task)) < len(played):
            return
        episode.moves = (*(episode.moves or ()), *moves)
        if self.goes_on and checkpoints is not None:
            note_observed(course.rounds, record)
            checkpoint = Checkpoint(
                record.episode,
                record.started_at,
                course.elapsed_ms,
                calls,
                record.response[course.responses :],
                requests_of(course.noted_requests[course.requests :])[0],
            )
            checkpoints.put(checkpoint)
            if checkpoints.full:
                await checkpoints.room()
            await self._transcribe(record, "agent")
        course.note()

    def _context(self, task: Task, episode: str) -> dict[str, Any]:
        """The options of an episode's calls. If their answers are bounded, they are shortened to
        the task's question, of which as much counts as a query holds.
        """
        chars, tokens = self._limits.output_chars, self._limits.output_tokens
        if chars is None and tokens is None:
            chars = getattr(self.agent, "output_chars", None)
        if chars is None and tokens is None:
            return {"episode": episode}
        question = task.question[:QUERY_CHARS]
        return {"episode": episode, "max_chars": chars, "max_tokens": tokens, "question": question}

    async def _call(self, call: ToolCall, made: ToolCallRecord, context: CallContext) -> Result:
        if call.problem is not None:
            return answered(made, refused(ErrorCode.INVALID_ARGUMENTS, call.problem, call))
        result = await self._client.call(call.tool, call.arguments, context)
        if self._is_remote and result.error is not None:
            made.source = result.source  # a gateway in this process tells none of errors
        is_withheld = call.tool in self._withheld
        if is_withheld and result.ok and (transcript := TRANSCRIPT.get()) is not None:
            transcript.withhold(result.data)
        return answered(made, result, is_withheld=is_withheld)


@dataclass(slots=True)
class _Course:
    """An episode that is being played: what its agent sees of it, its record, its rounds and its
    session; when it began, by the performance counter and without the time between its parts; and
    how much of its record is in checkpoints.
    """

    episode: Episode
    record: EpisodeRecord
    session: "Session | None" = None
    rounds: list[Observed] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    calls: int = 0
    responses: int = 0
    requests: int = 0

    @property
    def elapsed_ms(self) -> float:
        return round((time.perf_counter() - self.began) * 1e3, 3)

    @property
    def noted_requests(self) -> list[Any]:
        """What the agent noted of its requests, which is checked at the end of the episode."""
        noted: object = self.episode.model_calls
        return noted if isinstance(noted, list) else []

    def note(self) -> None:
        """Note that all of the record is in checkpoints."""
        self.calls, self.responses = len(self.record.tool_calls), len(self.record.response)
        self.requests = len(self.noted_requests)


class SessionError(Exception):
    """The session of an episode can't be opened; the text says why."""


@dataclass(frozen=True, slots=True)
class Session:
    """The open session of an episode, to whose tools' calls its id is added. The tools that open
    and close it are the driver's alone: an agent could open another one on a later day.
    """

    id: str
    environment: Environment

    @classmethod
    async def open(
        cls,
        client: ToolClient,
        record: EpisodeRecord,
        environment: Environment,
        further: Mapping[str, Any] = MappingProxyType({}),
    ) -> "Session":
        """Open a session with the environment's arguments and `further` ones; the call is noted in
        the record, without the session's id. Raises `SessionError`.
        """
        opening = ToolCall(environment.opening, {**environment.arguments, **further})
        made = pending(opening, DRIVER)
        record.tool_calls.append(made)
        context = CallContext(episode=record.episode, step=DRIVER)
        reply = answered(made, await client.call(opening.tool, opening.arguments, context))
        if reply.error is not None:
            raise SessionError(reply.message or reply.code)
        try:
            found = orjson.loads(reply.data)[SESSION]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            found = None
        if not isinstance(found, str):
            raise SessionError(f"{environment.opening} gave no session")
        made.output = str(made.output).replace(found, REDACTED)
        return cls(found, environment)

    async def close(self, client: ToolClient, record: EpisodeRecord) -> None:
        closing = self.environment.closing
        made = pending(ToolCall(closing, {}), DRIVER)
        record.tool_calls.append(made)
        context = CallContext(episode=record.episode, step=DRIVER)
        answered(made, await client.call(closing, {SESSION: self.id}, context))

    def named_in(self, call: ToolCall) -> ToolCall:
        if call.problem is not None:
            return call
        if call.tool in (self.environment.opening, self.environment.closing):
            return replace(call, problem="the driver opens and closes the session of an episode")
        if call.tool not in self.environment.tools:
            return call
        return replace(call, arguments={**call.arguments, SESSION: self.id})


def owed(suite: Suite, episodes: int, finished: Collection[str] = ()) -> Iterator[Owed]:
    """The suite's tasks and their repeats, without those that are finished."""
    for number in range(episodes):
        repeat, index = divmod(number, len(suite.tasks))
        task = suite.tasks[index]
        if not finished or name_of(task, repeat) not in finished:
            yield task, repeat


def _is_ctrl_c(error: BaseException) -> bool:
    """Whether it is or holds a `KeyboardInterrupt` of the user's. Python raises one in the main
    thread only, and not where something else handles the signal, as `asyncio.run` does.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)
