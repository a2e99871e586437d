"""The environment: one episode of a suite at a time, played through `Rollouts.play`."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from bench.runs.driver import Limits
from finport import Ending, Play, Result, Score, Task
from finport_openenv.models import (
    FinportAction,
    FinportCall,
    FinportObservation,
    FinportReply,
    FinportState,
)
from finport_openenv.server.serving import CLOSING_S, Served, Serving, ServingError

FRAMEWORK = "openenv"


class FinportEnvironment(Environment[FinportAction, FinportObservation, FinportState]):
    """One session. What an exception tells, such as a bad argument or a gateway that can't be
    reached, becomes an error response of OpenEnv's server.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, serving: Serving) -> None:
        super().__init__()
        self._serving = serving
        self._episode = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._served: Served | None = None
        self._play: Play | None = None
        self._state = FinportState()
        self.mcp_client = Tools(self)

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        suite: str | None = None,
        task: str | None = None,
        split: str | None = None,
        index: int | None = None,
    ) -> FinportObservation:
        """Begin an episode: of the task with an id, or of the one with a number in the suite; else
        the seed chooses, else it is the next one. `split` is OpenEnv's word for a suite.
        """
        name = self._serving.named(suite or split)
        served = await self._serving.suite(name)
        chosen = self._serving.chosen(served, task, index, seed)
        return await self.begin(served, chosen, episode_id)

    async def begin(
        self, served: Served, task: Task, episode_id: str | None = None, repeat: int = 0
    ) -> FinportObservation:
        """Begin an episode of a task of a suite."""
        await self._leave()
        self._loop = asyncio.get_running_loop()
        opened = served.rollouts.play(task, served.client, repeat=repeat, framework=FRAMEWORK)
        self._play = await self._episode.enter_async_context(opened)
        self._served = served
        suite = served.rollouts.suite
        self._state = FinportState(
            episode_id=episode_id or uuid4().hex,
            suite=suite.name,
            task=task.id,
            steps_left=int(suite.limits.get("rounds", Limits().rounds)),
        )
        return self._observed(question=task.question, functions=self._play.schemas())

    async def step_async(
        self, action: FinportAction, timeout_s: float | None = None
    ) -> FinportObservation:
        """Make the calls as one round, or take the answer and score the episode. An episode that
        makes calls in its last step ends without an answer.
        """
        play = self.playing()
        if action.answer is not None:
            self._state.step_count += 1
            play.answer(action.answer)
            return await self._scored([])
        replies = await self.make(action.calls, timeout_s)
        if self._state.steps_left:
            return self._observed(replies=replies)
        play.end(Ending.ROUNDS, f"there is no answer after {self._state.step_count} steps")
        return await self._scored(replies)

    async def make(
        self, calls: Sequence[FinportCall], timeout_s: float | None = None
    ) -> list[FinportReply]:
        """Make calls as one round."""
        play = self.playing()
        self._state.step_count += 1
        self._state.steps_left -= 1
        self._state.calls += len(calls)
        async with asyncio.timeout(timeout_s):
            results = await play.calls([(call.tool, call.arguments) for call in calls])
        return [_reply(call.tool, one) for call, one in zip(calls, results, strict=True)]

    async def ended(self, ending: Ending, why: str) -> FinportObservation:
        """End the episode without an answer, and score it."""
        self.playing().end(ending, why)
        return await self._scored([])

    def playing(self) -> Play:
        """The episode. Raises `ServingError` if there is none."""
        if self._state.done:
            raise ServingError("the episode is done; `reset` begins another")
        if self._play is None:
            raise ServingError("there is no episode; `reset` begins one, over /ws")
        return self._play

    @property
    def state(self) -> FinportState:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name="finport_openenv",
            description="Finance tools behind Finport's gateway. Suites: "
            + ", ".join(self._serving.settings.suites),
            version="0.1.0",
        )

    def list_splits(self) -> list[dict[str, str]]:
        return [{"name": name, "type": "validation"} for name in self._serving.settings.suites]

    async def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return await self.get_task_range(split)

    async def num_tasks(self, split: str) -> int:
        return len(await self._serving.tasks(self._serving.named(split)))

    async def get_task(self, split: str, index: int) -> dict[str, Any]:
        if index < 0:
            raise IndexError(index)
        tasks = await self._serving.tasks(self._serving.named(split))
        return _spec(tasks[index], index)

    async def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        tasks = await self._serving.tasks(self._serving.named(split))
        return [
            _spec(tasks[place], place) for place in range(*slice(start, stop).indices(len(tasks)))
        ]

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> FinportObservation:
        """For a caller without an event loop, such as a script; a server calls `reset_async`."""
        return asyncio.run(self.reset_async(seed, episode_id, **options))

    def step(
        self, action: FinportAction, timeout_s: float | None = None, **_: Any
    ) -> FinportObservation:
        return asyncio.run(self.step_async(action, timeout_s))

    def close(self) -> None:
        """Close what an episode has open. OpenEnv calls it in a thread or on the loop."""
        loop, self._loop = self._loop, None
        if loop is None or not loop.is_running():
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is loop:
            _keep(loop.create_task(self._leave()))
        else:
            asyncio.run_coroutine_threadsafe(self._leave(), loop).result(CLOSING_S)

    async def _leave(self) -> None:
        episode, self._episode = self._episode, AsyncExitStack()
        self._play = None
        await episode.aclose()

    async def _scored(self, replies: list[FinportReply]) -> FinportObservation:
        play, served = self.playing(), self._served
        assert served is not None  # noqa: S101 - an episode has a suite
        self._state.done = True
        await self._leave()
        score = await served.rollouts.score(play.record)
        self._state.reward, self._state.outage = score.reward, score.outage
        return self._observed(score, replies=replies)

    def _observed(self, score: Score | None = None, **fields: Any) -> FinportObservation:
        seen = FinportObservation(suite=self._state.suite, task=self._state.task, **fields)
        if score is None:
            return seen
        told = {} if score.outage is None else {"outage": score.outage}
        return seen.model_copy(
            update={
                "done": True,
                "reward": score.reward,
                "passed": None if score.outage else score.passed,
                "credit": score.credit,
                "figures": dict(score.figures),
                "outage": score.outage,
                "metadata": told,
            }
        )


class Tools:
    """The tools of a session's episode as OpenEnv's `/mcp` asks for them. A call is a step; the
    answer is given over `/ws` by whoever plays the agent.
    """

    def __init__(self, environment: FinportEnvironment) -> None:
        self._environment = environment

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def is_connected(self) -> bool:
        return True

    async def list_tools(self) -> list[dict[str, Any]]:
        functions = (schema["function"] for schema in self._environment.playing().schemas())
        return [
            {
                "name": one["name"],
                "description": one["description"],
                "inputSchema": one["parameters"],
            }
            for one in functions
        ]

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if not self._environment.state.steps_left:
            raise ServingError("no step is left; give the answer")
        (reply,) = await self._environment.make([FinportCall(tool=name, arguments=dict(arguments))])
        return {"content": [{"type": "text", "text": reply.text}], "isError": not reply.ok}


_closing: set[asyncio.Task[None]] = set()


def _keep(task: asyncio.Task[None]) -> None:
    """Keep a task from being collected before it ends."""
    _closing.add(task)
    task.add_done_callback(_closing.discard)


def _reply(tool: str, result: Result) -> FinportReply:
    return FinportReply(
        tool=tool, ok=result.ok, text=result.text(), code=result.code, fault=result.fault
    )


def _spec(task: Task, index: int) -> dict[str, Any]:
    """What may be known of a task before it is played."""
    return {
        "id": task.id,
        "index": index,
        "question": task.question,
        "category": task.category,
        "difficulty": task.difficulty,
    }
