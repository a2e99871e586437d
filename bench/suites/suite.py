"""What a suite is: a named set of tasks for agents. `bench/suites` reads them."""

from hashlib import blake2b
from typing import Any

from pydantic import BaseModel, ConfigDict


class SuiteError(Exception):
    """A suite can't be read; the text names the place and the reason."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LabelledCall(_Model):
    """A call that solves part of a task, with sample arguments where the suite has them."""

    name: str
    arguments: dict[str, Any] = {}


class Task(_Model):
    """One question for an agent. `source_dataset` names the set that the suite took it from."""

    id: str
    category: str
    question: str
    tools: tuple[LabelledCall, ...]
    answer: str = ""
    source_dataset: str = ""


class Suite(_Model):
    """A set of tasks under one name."""

    name: str
    tasks: tuple[Task, ...]

    @property
    def digest(self) -> str:
        """16 hex digits over all its tasks."""
        return blake2b(self.model_dump_json().encode(), digest_size=8).hexdigest()
