"""Suites: named sets of tasks for agents.

A suite file is JSON Lines, one task a line: `id`, `category`, `question`, the labelled `tools`
(`name`, `arguments`) in the order of use, and the gold `answer` (empty where there is none).
"""

import re
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

BUILT_IN = Path(__file__).parent / "suites"


class SuiteError(Exception):
    """A suite can't be read; the text names the place and the reason."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LabelledCall(_Model):
    """A call that solves part of a task, with sample arguments."""

    name: str
    arguments: dict[str, Any]


class Task(_Model):
    """One question for an agent."""

    id: str
    category: str
    question: str
    tools: tuple[LabelledCall, ...]
    answer: str = ""


class Suite(_Model):
    """A set of tasks under one name."""

    name: str
    tasks: tuple[Task, ...]

    @property
    def digest(self) -> str:
        """16 hex digits over all its tasks."""
        return blake2b(self.model_dump_json().encode(), digest_size=8).hexdigest()


def suite_names() -> list[str]:
    """The suites that come with the project."""
    return sorted(file.stem for file in BUILT_IN.glob("*.jsonl"))


def load_suite(name: str, dataset: Path | None = None) -> Suite:
    """A built-in suite, or the tasks of the file `dataset` under `name`. Raises `SuiteError`."""
    path = dataset or BUILT_IN / f"{name}.jsonl"
    if not path.is_file():
        raise SuiteError(f"no suite is named {name!r}; there are: {', '.join(suite_names())}")
    if not re.fullmatch(r"[\w.-]+", name) or name.startswith("."):
        raise SuiteError(f"{name!r} is no name for a suite: letters, digits, '-', '_' and '.'")
    tasks: list[Task] = []
    for number, line in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            tasks.append(Task.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise SuiteError(f"{path.name}:{number}: {place}: {first['msg']}") from error
    doubled = [task_id for task_id, n in Counter(task.id for task in tasks).items() if n > 1]
    if doubled:
        raise SuiteError(f"{path.name}: two tasks have the id {doubled[0]}")
    if not tasks:
        raise SuiteError(f"{path.name} holds no tasks")
    return Suite(name=name, tasks=tuple(tasks))
