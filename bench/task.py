"""A task for an agent, with what is known of its solution."""

from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict

from manifests import Catalog, Signature


class TaskModel(BaseModel):
    """Validated strictly and immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LabelledCall(TaskModel):
    """A call that solves part of a task, with sample arguments where the suite has them."""

    name: str
    arguments: dict[str, Any] = {}


class Task(TaskModel):
    """One question for an agent. `source_dataset` names the set that the suite took it from;
    `difficulty` is by the suite's own scale.
    """

    id: str
    category: str
    question: str
    tools: tuple[LabelledCall, ...]
    answer: str = ""
    source_dataset: str = ""
    difficulty: str = ""

    @property
    def labelled_arguments(self) -> list[dict[str, Any]]:
        """The arguments of each labelled call; none if they were given for no call."""
        are_given = any("arguments" in call.model_fields_set for call in self.tools)
        return [call.arguments for call in self.tools] if are_given else []


@cache
def signature_of(tool: str) -> Signature | None:
    """The signature of a tool of the project's catalogue."""
    manifest = Catalog.load().get(tool)
    return None if manifest is None else Signature(manifest)


def completed(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a labelled or recorded call. Datasets and earlier traces leave out an
    instrument for which the upstream has a default, and mean that one.
    """
    signature = signature_of(tool)
    return arguments if signature is None else signature.completed(arguments)
