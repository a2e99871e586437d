"""Rollouts of other frameworks, scored as episodes of a run: for trainers and evaluators.

A framework plays an episode itself and hands over its messages, as Chat Completions has them. They
become an `EpisodeRecord`, and the suite measures it as it measures those of `finbench run`, so the
reward is the same figure wherever an episode was played. What a gateway, a quota or an upstream
failed is no fault of the agent: such a rollout has an `outage`, which its framework retries or
masks, and no reward.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

import anyio
import orjson

from bench.agents import ToolCall
from bench.client import ToolClient
from bench.judges.judge import Judge
from bench.judges.judging import Judging
from bench.judges.registry import JudgeSettings, judge_named, open_judge
from bench.record import (
    OUTPUT_CHARS,
    Ending,
    EpisodeRecord,
    ToolCallRecord,
    is_infrastructure,
    storable,
)
from bench.runs.driver import CLOSING_S, SESSION, Session
from bench.runs.episode import answered, begun, end, pending, refused, within_bounds
from bench.suites import load_suite
from bench.suites.suite import Suite, measure
from bench.task import Task
from gateway import CallContext, Result
from gateway.errors import ErrorCode
from manifests import Catalog, Manifest
from manifests.export import export

CALLS: Final = ("call_tool", "execute_tool")
"""Tools by which an MCP client calls others, whose name they take."""

ASIDE: Final = frozenset({"search_tools", "describe_tool", "read_result"})
"""Tools that find others or read on; they are no calls of a task."""

UNANSWERED: Final = "the call was not answered"


@dataclass(frozen=True, slots=True)
class Score:
    """What an episode earned. `reward` is the suite's own figure (`Suite.reward`), None where an
    `outage` says why the agent could not earn it. `figures` are all of the suite, and `credit` is
    the share of the steps to the answer that the agent found, where the suite has steps.
    """

    reward: float | None
    figures: Mapping[str, float]
    passed: bool
    credit: float | None = None
    outage: str | None = None


class Rollouts:
    """Scores rollouts of one suite, by its default judge if it has one: that needs no model."""

    def __init__(self, suite: Suite, judge: Judge | None = None) -> None:
        self.suite = suite
        scores = () if judge is None else suite.scores_of(judge.name)
        self._judging = None if judge is None else Judging(judge, suite.kind_of, scores)

    @classmethod
    @asynccontextmanager
    async def open(cls, suite: Suite | str, dataset: Path | None = None) -> AsyncIterator[Self]:
        """Of a suite, or of the one of that name with its tasks. Raises `SuiteError`."""
        suite = load_suite(suite, dataset) if isinstance(suite, str) else suite
        settings = JudgeSettings(judge_named(None, suite.judges))
        async with open_judge(settings, Catalog.load()) as judge:
            yield cls(suite, judge)

    def tools(self, task: Task) -> list[str]:
        """The tools that an agent is offered for a task: those that the suite says, or those that
        it is labelled with.
        """
        offered = self.suite.offered(task)
        return list(dict.fromkeys(offered or (call.name for call in task.tools)))

    @asynccontextmanager
    async def play(
        self, task: Task, client: ToolClient, *, repeat: int = 0, framework: str = ""
    ) -> AsyncIterator["Play"]:
        """An episode whose calls go through `client`, in a session if the suite has one, which is
        closed with the context. Raises `SessionError` if that can't be opened.
        """
        record = begun(self.suite, task, repeat, framework)
        names, environment = self.tools(task), self.suite.environment(task)
        catalog = Catalog.load().with_market()
        tools = [tool for tool in map(catalog.get, names) if tool is not None]
        record.candidate_tools = [tool.name for tool in tools]
        if environment is None:
            yield Play(client, record, tools, None)
            return
        session = await Session.open(client, record, environment)
        inside = (environment.opening, environment.closing)
        try:
            yield Play(client, record, [t for t in tools if t.name not in inside], session)
        finally:
            with anyio.move_on_after(CLOSING_S, shield=True):
                await session.close(client, record)

    def record(
        self,
        task: Task,
        messages: Sequence[Mapping[str, Any]],
        *,
        repeat: int = 0,
        framework: str = "",
        error: str | None = None,
        ending: Ending = Ending.AGENT_ERROR,
    ) -> EpisodeRecord:
        """The episode that messages tell of, each a message of Chat Completions: `role`, `content`,
        `tool_calls` and `tool_call_id`. The answer is the last text of the assistant that makes no
        call. `error` and `ending` say why the framework ended it before that.
        """
        record = begun(self.suite, task, repeat, framework)
        record.candidate_tools = self.tools(task)
        pending, step, answer = dict[str, ToolCallRecord](), 0, None
        for message in messages:
            role, text = message.get("role"), text_of(message.get("content"))
            calls = [*_calls(message)]
            if role == "assistant":
                answer = None if calls else text
                if text:
                    record.response.append(text)
                step += bool(calls)
                for id_, name, arguments in calls:
                    if name in ASIDE:
                        continue
                    made = ToolCallRecord(
                        *(step, name, arguments, {"error": UNANSWERED}, False),
                        *(ErrorCode.CANCELLED.value, ErrorCode.CANCELLED.fault, None, "", 0.0),
                    )
                    record.tool_calls.append(made)
                    pending[id_] = made
            elif role == "tool" and (call := pending.get(str(message.get("tool_call_id")))):
                note_answer(call, text, is_error=bool(message.get("is_error")))
        if error is not None or answer is None:
            end(record, ending if error else Ending.ROUNDS, error or "there is no answer")
        elif not answer.strip():
            record.ending = Ending.EMPTY.value
        record.execution_result = answer or ""
        return record

    async def score(self, record: EpisodeRecord) -> Score:
        """What an episode earned. Raises `SuiteError` for what the suite's own code raises."""
        if self._judging is not None and record.judgement is None:
            record.judgement = await self._judging.judged(record)
        found = measure(type(self.suite), record)
        figures = {name: float(v) for name, v in found.figures.items() if v is not None}
        outage = None if found.passed else outage_of(record)
        if outage is None and found.infrastructure and not found.passed:
            outage = record.error or "the infrastructure failed"
        reward = figures.get(self.suite.reward, float(found.passed))
        return Score(
            None if outage else reward, figures, found.passed, figures.get("StepCredit"), outage
        )


class Play:
    """An episode that a framework plays by calling tools one after another. `record` is what it did
    so far, and `tools` are those that its agent is offered.
    """

    def __init__(
        self,
        client: ToolClient,
        record: EpisodeRecord,
        tools: Sequence[Manifest],
        session: Session | None,
    ) -> None:
        self.record = record
        self.tools = tuple(tools)
        self._client = client
        self._session = session
        self._step = 0

    def schemas(self) -> list[dict[str, Any]]:
        """The tools as functions of Chat Completions. A session is named by the play itself."""
        found = [export(tool, "openai") for tool in self.tools]
        for schema in found if self._session is not None else ():
            parameters = schema["function"]["parameters"]
            parameters["properties"].pop(SESSION, None)
            parameters["required"] = [n for n in parameters["required"] if n != SESSION]
        return found

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Result:
        """Make a call, as one step. The result is an answer or an error, never an exception."""
        return (await self.calls([(tool, arguments)]))[0]

    async def calls(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Result]:
        """Make calls together, as one step; their results are in the order of the calls."""
        self._step += 1
        each = [within_bounds(ToolCall(tool, dict(given)))[0] for tool, given in calls]
        made = [pending(asked, self._step) for asked in each]
        self.record.tool_calls += made
        return await asyncio.gather(*map(self._make, each, made))

    async def _make(self, asked: ToolCall, made: ToolCallRecord) -> Result:
        sent = asked if self._session is None else self._session.named_in(asked)
        if sent.problem is not None:
            return answered(made, refused(ErrorCode.INVALID_ARGUMENTS, sent.problem, asked))
        context = CallContext(episode=self.record.episode, step=made.step)
        result = await self._client.call(sent.tool, sent.arguments, context)
        answered(made, result)
        made.observed = storable(result.text()) if result.ok else None
        return result

    def answer(self, text: str) -> None:
        """End the episode with an answer."""
        self.record.execution_result = storable(text)
        self.record.ending = (Ending.ANSWER if text.strip() else Ending.EMPTY).value

    def end(self, ending: Ending, why: str) -> None:
        """End the episode without an answer; `why` says what ended it."""
        end(self.record, ending, why)


def line_of(episode: str, score: Score) -> dict[str, Any]:
    """What is compared of an episode's score between frameworks, as a line of JSON."""
    return {
        "episode": episode,
        "reward": score.reward,
        "figures": dict(score.figures),
        "outage": score.outage,
    }


def outage_of(record: EpisodeRecord) -> str | None:
    """Why an episode says nothing about its agent: a call that quota, gateway or upstream failed,
    and that no later call of the same kind made up for.
    """
    if record.ending in (Ending.MODEL_ERROR, Ending.ENVIRONMENT_ERROR):
        return record.error
    failed: dict[bytes, ToolCallRecord] = {}
    for call in record.agent_calls:
        key = orjson.dumps(
            [call.tool_name, call.parameters], option=orjson.OPT_SORT_KEYS, default=str
        )
        if call.ok:
            failed.pop(key, None)
        elif call.fault == "tool" or is_infrastructure([call]):
            failed[key] = call
    for call in failed.values():
        said = call.output.get("error") if isinstance(call.output, dict) else call.output
        return f"{call.tool_name}: {call.code}: {said}"
    return None


def note_answer(call: ToolCallRecord, text: str, *, is_error: bool = False) -> None:
    """Note what a call answered: an envelope of a gateway, or any other text. With `is_error` a
    text that is no envelope is the framework's own error of its connection to the gateway.
    """
    call.observed = storable(text)
    try:
        said = orjson.loads(text)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("ok"), bool):
        call.ok, call.output = not is_error, call.observed[:OUTPUT_CHARS]
        unreachable = ErrorCode.OVERLOADED
        call.code = unreachable.value if is_error else None
        call.fault = unreachable.fault if is_error else None
        return
    provenance = said.get("provenance") or {}
    call.ok, call.source = said["ok"], provenance.get("source")
    call.call_id = str(provenance.get("call_id") or "")
    with suppress(TypeError, ValueError):
        call.elapsed_ms = float(provenance.get("elapsed_ms") or 0.0)
    if call.ok:
        call.code = call.fault = None
        data = said.get("data")
        written = data if isinstance(data, str) else orjson.dumps(data).decode()
        call.observed = storable(written)
        call.output = call.observed[:OUTPUT_CHARS]
        return
    error = said.get("error") or {}
    call.code, call.fault = error.get("code"), error.get("fault")
    call.output = {"error": storable(str(error.get("message"))[:OUTPUT_CHARS])}


def messages_of(record: EpisodeRecord) -> list[dict[str, Any]]:
    """The messages of a recorded episode, which `Rollouts.record` reads as the same episode."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": record.question}]
    calls, number = record.agent_calls, count()
    for step in sorted({call.step for call in calls}):
        asked, answers = list[dict[str, Any]](), list[dict[str, Any]]()
        for call in (call for call in calls if call.step == step):
            id_ = f"call_{next(number)}"
            arguments = orjson.dumps(call.parameters).decode()
            function = {"name": call.tool_name, "arguments": arguments}
            asked.append({"id": id_, "type": "function", "function": function})
            answers.append({"role": "tool", "tool_call_id": id_, "content": _envelope(call)})
        messages += [{"role": "assistant", "content": "", "tool_calls": asked}, *answers]
    if record.error is None:
        messages.append({"role": "assistant", "content": record.execution_result})
    return messages


def _envelope(call: ToolCallRecord) -> str:
    """A call's outcome as a gateway would have told it."""
    provenance = {"source": call.source, "call_id": call.call_id, "elapsed_ms": call.elapsed_ms}
    said: dict[str, Any] = {"ok": call.ok, "tool": call.tool_name}
    if call.ok:
        said["data"] = call.observed or call.output
    else:
        output = call.output if isinstance(call.output, dict) else {"error": call.output}
        said["error"] = {"code": call.code, "message": output.get("error"), "fault": call.fault}
    return orjson.dumps({**said, "provenance": provenance}).decode()


def text_of(content: object) -> str:
    """The text of a message's content, which may come in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Id, tool and arguments of each call in a message."""
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call
        name, arguments = str(function.get("name")), function.get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = orjson.loads(arguments or "{}")
            except orjson.JSONDecodeError:
                arguments = {"arguments": arguments}
        if not isinstance(arguments, dict):
            arguments = {}
        if name in CALLS:
            inner = arguments.get("arguments", arguments.get("parameters"))
            name = str(arguments.get("name"))
            arguments = inner if isinstance(inner, dict) else {}
        yield str(call.get("id")), name, arguments


def endless_tasks(seed: int = 0, *, world: int = 0, now: date | None = None) -> Iterator[Task]:
    """Generated tasks of one simulated market without an end; each seed has tasks of its own."""
    from adapters.simulator.world.world import World
    from bench.suites.generated.make import Maker, line
    from bench.suites.generated.suite import read_line

    maker = Maker(World(world, now or date(2026, 6, 30)), seed=seed)
    for number, task in enumerate(maker.tasks(10**9), 1):
        yield read_line(line(task), number)
