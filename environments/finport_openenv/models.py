"""What client and server exchange. This module imports nothing of Finport."""

from typing import Any, Self

from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, ConfigDict, Field, model_validator


class FinportCall(BaseModel):
    """A call of a tool."""

    model_config = ConfigDict(extra="forbid")

    tool: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict)


class FinportReply(BaseModel):
    """What a call gave. `text` is what a model reads of it: the answer, or the error's message.
    `fault` says whose fault an error is; only `agent` is the caller's own.
    """

    model_config = ConfigDict(extra="forbid")

    tool: str
    ok: bool
    text: str
    code: str | None = None
    fault: str | None = None


class FinportAction(Action):
    """Either `calls`, which are made together as one round, or the final `answer`."""

    calls: list[FinportCall] = Field(default_factory=list, max_length=16)
    answer: str | None = None

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if bool(self.calls) == (self.answer is not None):
            raise ValueError("an action has either `calls` or an `answer`")
        return self


class FinportObservation(Observation):
    """What the agent sees: after `reset` the question and its tools, after a step the replies.

    With the answer the episode is done and scored. `reward` is the suite's own figure, `credit` the
    share of the steps to the answer that the agent found, where the suite has steps, and `figures`
    are all of the suite. An `outage` is a fault of gateway, quota or upstream that says nothing
    about the agent: such an episode has no reward, and its metadata say why.
    """

    suite: str = ""
    task: str = ""
    question: str = ""
    functions: list[dict[str, Any]] = Field(
        default_factory=list, description="The tools, as functions of Chat Completions"
    )
    replies: list[FinportReply] = Field(default_factory=list)
    passed: bool | None = None
    credit: float | None = None
    figures: dict[str, float] = Field(default_factory=dict)
    outage: str | None = None


class FinportState(State):
    """Where the episode stands. `calls` counts those of the agent, `steps_left` its rounds."""

    suite: str = ""
    task: str = ""
    calls: int = 0
    steps_left: int = 0
    done: bool = False
    reward: float | None = None
    outage: str | None = None
