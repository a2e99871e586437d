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
from manifests.problem import first_problem

ReadTask = Callable[[bytes, int], Task]
"""Makes a task of a line and the line's number, from 0. Raises `ValidationError`."""


def _read_task(line: bytes, _number: int) -> Task:
    return Task.model_validate_json(line)


def read_tasks(path: Path, read_task: ReadTask = _read_task) -> list[Task]:
    """The tasks of a file. Raises `SuiteError`."""
    tasks: list[Task] = []
    try:
        for line in lines(path):
            try:
                tasks.append(read_task(line.text, len(tasks)))
            except ValidationError as error:
                raise SuiteError(f"{path.name}:{line.number}: {first_problem(error)}") from error
    except JsonLinesError as error:
        raise SuiteError(str(error)) from error
    return tasks
