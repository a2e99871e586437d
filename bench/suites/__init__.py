"""Suites by name.

A suite file is JSON Lines, one task a line: `id`, `category`, `question`, the labelled `tools`
(`name`, `arguments`) in the order of use, and the gold `answer` (empty where there is none). A
published suite is read by path from its authors' own file.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from bench.suites.fintoolbench import tasks as fintoolbench
from bench.suites.suite import Suite, SuiteError, Task
from manifests.problem import first_problem

BUILT_IN = Path(__file__).parent

ReadTask = Callable[[bytes, int], Task]
"""A task from a line and its number, from 0. Raises `ValidationError`."""

PUBLISHED: dict[str, ReadTask] = {"fintoolbench": fintoolbench.read_task}


def suite_names() -> list[str]:
    """The suites that come with the project, and those that it can read."""
    return sorted([file.stem for file in BUILT_IN.glob("*.jsonl")] + list(PUBLISHED))


def load_suite(name: str, dataset: Path | None = None) -> Suite:
    """A built-in suite, or the tasks of the file `dataset` under `name`. Raises `SuiteError`."""
    if name in PUBLISHED and dataset is None:
        raise SuiteError(f"{name} does not come with the project; name its file with --dataset")
    path = dataset or BUILT_IN / f"{name}.jsonl"
    if not path.is_file():
        raise SuiteError(f"no suite is named {name!r}; there are: {', '.join(suite_names())}")
    if not re.fullmatch(r"[\w.-]+", name) or name.startswith("."):
        raise SuiteError(f"{name!r} is no name for a suite: letters, digits, '-', '_' and '.'")
    tasks = _read(path, PUBLISHED.get(name, _read_task))
    doubled = [task_id for task_id, n in Counter(task.id for task in tasks).items() if n > 1]
    if doubled:
        raise SuiteError(f"{path.name}: two tasks have the id {doubled[0]}")
    if not tasks:
        raise SuiteError(f"{path.name} holds no tasks")
    return Suite(name=name, tasks=tuple(tasks))


def _read(path: Path, read_task: ReadTask) -> list[Task]:
    tasks: list[Task] = []
    for number, line in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            tasks.append(read_task(line, len(tasks)))
        except ValidationError as error:
            raise SuiteError(f"{path.name}:{number}: {first_problem(error)}") from error
    return tasks


def _read_task(line: bytes, _number: int) -> Task:
    return Task.model_validate_json(line)
