"""Reads tasks from JSON Lines, one task a line.

A line has `id`, `category`, `question`, the labelled `tools` (`name`, `arguments`) in the order of
use, and the gold `answer` (empty where there is none).
"""

from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from bench.json_lines import JsonLinesError, lines
from bench.suites.suite import SuiteError
from bench.task import Task
from manifests.common.problem import first_problem

ReadTask = Callable[[bytes, int], Task]
"""Makes a task of a line and the line's number, from 0. Raises `ValidationError`."""


def _read_task(line: bytes, _number: int) -> Task:
    return Task.model_validate_json(line)


def read_tasks(path: Path, read_task: ReadTask = _read_task) -> list[Task]:
    """The tasks of a file, at least one, each with an id of its own. Raises `SuiteError`."""
    tasks: list[Task] = []
    seen: dict[str, int] = {}
    try:
        for line in lines(path):
            try:
                task = read_task(line.text, len(tasks))
            except ValidationError as error:
                raise line.error(first_problem(error)) from error
            if (before := seen.setdefault(task.id, line.number)) != line.number:
                raise line.error(f"id: {task.id!r} is the id of line {before} too")
            tasks.append(task)
    except JsonLinesError as error:
        raise SuiteError(str(error)) from error
    if not tasks:
        raise SuiteError(f"{path} holds no tasks")
    return tasks
