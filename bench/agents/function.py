"""Functions as agents: `async def agent(question, tools) -> str`, of any framework.

The function runs in a task of its own, one for each episode. The calls that it makes together are
the next turn of the episode, so each is recorded and limited as those of any agent.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from bench.agents.agent import Episode, ToolCall, Turn
from bench.agents.conversation import LAST_WORD, FunctionTools, read
from bench.agents.declaration import AgentParts, AgentSettingsError, AgentType, NoOptions
from bench.record import OUTPUT_CHARS, Ending

FORM: Final = "python:"
"""What the name of such an agent begins with: `python:module:factory`."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as frameworks want it; `parameters` are a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]
    box: "ToolBox"

    async def call(self, **arguments: Any) -> str:
        """What a model reads of the answer, or of the error."""
        return await self.box.call(self.name, arguments)


class ToolBox:
    """The tools that are offered in one episode: iterate over it, or give a model the `schemas`,
    functions of Chat Completions. It belongs to the event loop on which the agent was called.
    """

    def __init__(self, schemas: Sequence[dict[str, Any]]) -> None:
        self.schemas = [*schemas]
        self._asked: list[tuple[ToolCall, asyncio.Future[str]]] = []
        self._made: list[asyncio.Future[str]] = []
        self._news = asyncio.Event()

    def __iter__(self) -> Iterator[OfferedTool]:
        for schema in self.schemas:
            one = schema["function"]
            yield OfferedTool(one["name"], one["description"], one["parameters"], self)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What a model reads of the answer, or of the error. It raises nothing. The calls that are
        made at once are one round of the episode.
        """
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._asked.append((ToolCall(name, dict(arguments)), answer))
        self._news.set()
        return await answer

    async def _turn(self, task: "asyncio.Task[str]", *, is_last: bool) -> Turn:
        """The calls that wait, or the answer of the agent's `task`. With `is_last` the first ones
        are told that no call can be made any more.
        """
        while True:
            await self._news.wait()
            await asyncio.sleep(0)  # so that all calls that are made at once are in
            self._news.clear()
            if task.done():
                answer = task.result()
                is_empty = isinstance(answer, str) and not answer.strip()
                return Turn(answer=answer, ending=Ending.EMPTY if is_empty else Ending.ANSWER)
            asked = [(call, answer) for call, answer in self._asked if not answer.done()]
            self._asked.clear()
            self._made = [answer for _, answer in asked]
            if asked and not is_last:
                return Turn(calls=tuple(call for call, _ in asked))
            self._answer([LAST_WORD] * len(asked))
            is_last = is_last and not asked

    def _answer(self, texts: Sequence[str]) -> None:
        for answer, text in zip(self._made, texts, strict=True):
            if not answer.done():
                answer.set_result(text)


Function = Callable[[str, ToolBox], Awaitable[str]]


class FunctionAgent:
    """Plays each episode with one call of a function."""

    output_chars = OUTPUT_CHARS

    def __init__(self, name: str, function: Function) -> None:
        self.name = name
        self._function = function
        self._tools = FunctionTools({}, inject=True)

    async def act(self, episode: Episode) -> Turn:
        if episode.memory is None:
            box = ToolBox([orjson.loads(tool) for tool in self._tools.encoded(episode.tools)])
            task = asyncio.create_task(self._play(episode.task.question, box))
            task.add_done_callback(lambda _: box._news.set())
            episode.memory = box, task
        else:
            box, task = episode.memory
            box._answer(read(episode.history[-1]))
        return await box._turn(task, is_last=episode.rounds_left == 0)

    async def _play(self, question: str, box: ToolBox) -> str:
        return await self._function(question, box)

    def ended(self, episode: Episode) -> None:
        """End the function with its episode."""
        if episode.memory is not None:
            _, task = episode.memory
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            task.cancel()


def function_type(name: str, factory: Callable[[], Any]) -> AgentType[NoOptions]:
    """The agent whose function `factory` gives, `name` without its form."""

    async def make(_options: NoOptions, _parts: AgentParts) -> FunctionAgent:
        found = factory()
        if inspect.isawaitable(found):
            found = await found
        called = found if inspect.isroutine(found) else getattr(found, "__call__", None)  # noqa: B004
        if called is None or (
            inspect.isroutine(called)
            and not inspect.isbuiltin(called)
            and not inspect.iscoroutinefunction(inspect.unwrap(called))
        ):
            text = "the factory gives an `async def agent(question, tools)`, which returns a text"
            raise AgentSettingsError(f"agent {FORM}{name}: {text}, not {found!r:.100}")
        return FunctionAgent(f"{FORM}{name}", found)

    return AgentType(name, "", make, NoOptions)
