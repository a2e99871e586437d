"""A task for an agent, with what is known of its solution."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class TaskModel(BaseModel):
    """Validated strictly and immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LabelledCall(TaskModel):
    """A call that solves part of a task, with sample arguments where the suite has them."""

    name: str
    arguments: dict[str, Any] = {}


class Task(TaskModel):
    """One question for an agent. `source_dataset` names the set that the suite took it from."""

    id: str
    category: str
    question: str
    tools: tuple[LabelledCall, ...]
    answer: str = ""
    source_dataset: str = ""
