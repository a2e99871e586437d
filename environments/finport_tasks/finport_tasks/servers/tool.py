"""A tool server for one rollout: it has the key of the gateway, and the session of the episode."""

import inspect
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import verifiers.v1 as vf
from pydantic import Field, TypeAdapter

from bench.client import HttpClient, Untraced
from bench.record import EpisodeRecord
from bench.rollouts import Play, Rollouts
from bench.task import Task
from finport_tasks.scoring import FRAMEWORK, suite_with

if TYPE_CHECKING:
    from finport_tasks.taskset import FinportData

TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}

_RECORD: TypeAdapter[EpisodeRecord] = TypeAdapter(EpisodeRecord)


class FinportState(vf.State):
    """What a tool server tells of its rollout."""

    record: str = ""
    """The calls of the episode so far, as JSON."""


class FinportToolsetConfig(vf.ToolsetConfig):
    """The rollout sets these itself: the gateway, and the variable that has its key."""

    gateway: str = ""
    key_variable: str | None = None


class FinportToolset(vf.Toolset[FinportToolsetConfig, FinportState]):
    """The tools of a task. With a `url` they are the gateway's own, and no server is started."""

    TOOL_PREFIX = None

    def __init__(self, config: FinportToolsetConfig) -> None:
        super().__init__(config)
        self._play: Play | None = None

    async def setup_task(self, task: "FinportData") -> None:
        """Open the session, which ends with this server. Raises `SessionError`."""
        told = Task.model_validate_json(task.task)
        key = os.environ.get(self.config.key_variable or "")
        client = await self._exit_stack.enter_async_context(
            HttpClient.open(self.config.gateway, Untraced(), key)
        )
        rollouts = Rollouts(suite_with(task.suite, told, task.dataset))
        self._play = await self._exit_stack.enter_async_context(
            rollouts.play(told, client, framework=FRAMEWORK)
        )

    def register(self, mcp: Any) -> None:
        assert self._play is not None  # noqa: S101 - `setup_task` comes first
        for schema in self._play.schemas():
            function = schema["function"]
            called = self._with_state(self._calling(self._play, function))
            mcp.add_tool(called, name=function["name"], description=function["description"])

    def _calling(self, play: Play, function: dict[str, Any]) -> Callable[..., Awaitable[str]]:
        """A function with the parameters that the schema of a tool tells."""
        name, told = function["name"], function["parameters"]

        async def call(**arguments: Any) -> str:
            given = {key: value for key, value in arguments.items() if value is not None}
            result = await play.call(name, given)
            self.state.record = _RECORD.dump_json(play.record).decode()
            return result.to_json().decode()

        parameters = []
        required = set(told.get("required", ()))
        for key, about in sorted(
            told["properties"].items(), key=lambda one: one[0] not in required
        ):
            kind = TYPES.get(str(about.get("type")), Any)
            annotated = Annotated[
                kind if key in required else kind | None,
                Field(description=about.get("description", "")),
            ]
            default = inspect.Parameter.empty if key in required else None
            parameters.append(
                inspect.Parameter(
                    key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotated
                )
            )
        call.__name__ = name
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return call


if __name__ == "__main__":
    FinportToolset.run()
