"""Solvers: an agent with the tools of its task, by MCP or as native tools of Inspect AI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from inspect_ai.model import ChatMessageAssistant
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool, ToolDef, ToolError, ToolParams, mcp_connection, mcp_server_http
from inspect_ai.util import LimitExceededError

from bench.runs.episode import end
from finport import Ending, Play, Rollouts, Suite, Task
from finport_inspect.reaching import Reaching
from finport_inspect.scoring import ENDED, keep

CONNECT_S = 60.0
"""Seconds for a connection to a gateway: hundreds of samples may start together."""


def _task_of(suite: Suite, state: TaskState) -> Task:
    return next(task for task in suite.tasks if task.id == state.sample_id)


@asynccontextmanager
async def _noted(state: TaskState) -> AsyncIterator[None]:
    """Notes what ended an episode, so that it has no score even with `--score-on-error`."""
    try:
        yield
    except LimitExceededError:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        state.store.set(ENDED, {"error": text, "ending": Ending.ENVIRONMENT_ERROR.value})
        raise


@solver
def mcp_tools(suite: Suite, reaching: Reaching) -> Solver:
    """The model with the tools of the gateway's MCP endpoint, until it answers."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        async with Rollouts.open(suite) as rollouts, _noted(state):
            names = rollouts.tools(_task_of(suite, state))
            server = mcp_server_http(
                name="finport",
                url=await reaching.mcp_url(names),
                headers=reaching.headers,
                timeout=CONNECT_S,
            )
            async with mcp_connection(server):
                state.tools = await server.tools()
                return await generate(state)

    return solve


@solver
def native_tools(suite: Suite, reaching: Reaching) -> Solver:
    """The model with native tools of Inspect, in a session where the suite has one."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        task = _task_of(suite, state)
        play = None
        try:
            async with (
                _noted(state),
                Rollouts.open(suite) as rollouts,
                reaching.client() as client,
                rollouts.play(task, client, repeat=state.epoch - 1, framework="inspect") as play,
            ):
                end(play.record, Ending.ROUNDS, "there is no answer")
                state.tools = [_tool(play, schema["function"]) for schema in play.schemas()]
                state = await generate(state)
                last = state.messages[-1]
                if isinstance(last, ChatMessageAssistant) and not last.tool_calls:
                    play.record.error = None
                    play.answer(last.text)
        except LimitExceededError:
            raise
        except Exception as error:
            if play is not None:
                end(play.record, Ending.ENVIRONMENT_ERROR, f"{type(error).__name__}: {error}")
            raise
        finally:
            if play is not None:
                keep(state, play.record)
        return state

    return solve


def _tool(play: Play, function: dict[str, Any]) -> Tool:
    async def execute(**kwargs: Any) -> str:
        result = await play.call(function["name"], kwargs)
        if not result.ok:
            raise ToolError(f"{result.code}: {result.message}")
        return str(result.text())

    return ToolDef(
        execute,
        name=function["name"],
        description=function["description"],
        parameters=ToolParams.model_validate(function["parameters"]),
        max_output=0,
    ).as_tool()
