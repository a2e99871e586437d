"""A task for an agent, with what is known of its solution."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from bench.question import digest_of, language_of
from manifests import Catalog, Signature

GROUPS: Mapping[str, str] = {
    "language": "Language",
    "category": "Category",
    "source": "Source",
    "difficulty": "Difficulty",
}
"""What tasks of every suite are grouped by, with its name in a report: properties of `Task` and of
`EpisodeRecord`.
"""


class TaskModel(BaseModel):
    """Validated strictly and immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LabelledCall(TaskModel):
    """A call that solves part of a task, with sample arguments where the suite has them."""

    name: str
    arguments: dict[str, Any] = {}

    @field_validator("arguments")
    @classmethod
    def _as_a_trace_has_them(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """An integer of over 64 bits is the nearest double, which any reader of a trace makes of
        it. Raises `ValueError` if there is none.
        """
        try:
            orjson.dumps(arguments)
        except TypeError:
            read: dict[str, Any] = orjson.loads(json.dumps(arguments))
            return read
        return arguments


class Task(TaskModel):
    """One question for an agent. Its `id` is made of the question if none is given.
    `source_dataset` names the set that the suite took it from; `difficulty` is by the suite's own
    scale, and `details` is what the suite keeps besides.
    """

    id: str = ""
    category: str
    question: str
    tools: tuple[LabelledCall, ...]
    answer: str = ""
    source_dataset: str = ""
    difficulty: str = ""
    details: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _with_an_id(cls, given: Any) -> Any:
        if isinstance(given, dict) and "id" not in given and isinstance(given.get("question"), str):
            return {"id": digest_of(given["question"]), **given}
        return given

    @property
    def language(self) -> str:
        return language_of(self.question)

    @property
    def source(self) -> str:
        return self.source_dataset

    @property
    def labelled_arguments(self) -> list[dict[str, Any] | None]:
        """The arguments of each labelled call, None for one without; empty if no call has any."""
        given = [
            call.arguments if "arguments" in call.model_fields_set else None for call in self.tools
        ]
        return given if any(arguments is not None for arguments in given) else []


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
