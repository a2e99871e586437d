"""Reads tasks and recorded work from JSON Lines, so that each error names file and line.

A task's line has `id` (made of the question if there is none), `category`, `question`, the labelled
`tools` (`name`, `arguments`) in the order of use, and the gold `answer` (empty where there is
none).
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from bench.json_lines import JsonLinesError, Line, lines
from bench.question import digest_of
from bench.suites.suite import SuiteError
from bench.task import Task
from manifests.common.problem import first_problem

_V = TypeVar("_V")
_T = TypeVar("_T")


def read_each(
    found: Iterable[tuple[_V, Line]],
    read: Callable[[_V, Line], _T],
    fault: Callable[[str], Exception],
) -> Iterator[_T]:
    """What `read` makes of each value and its line. If `read` raises `ValueError`, or a line can't
    be read, raises a `fault`, whose text has file, line and reason.
    """
    try:
        for value, line in found:
            try:
                made = read(value, line)
            except ValidationError as error:
                raise line.error(first_problem(error)) from error
            except ValueError as error:
                raise line.error(str(error)) from error
            yield made
    except JsonLinesError as error:
        raise fault(str(error)) from error


def read_tasks(
    path: Path,
    read_task: Callable[[bytes, int], Task] = lambda text, _: Task.model_validate_json(text),
) -> list[Task]:
    """The tasks of a file, at least one, each with an id of its own. `read_task` makes one of a
    line and the line's number among the tasks, from 0. Raises `SuiteError`.
    """
    seen: dict[str, int] = {}

    def read(text: bytes, line: Line) -> Task:
        task = read_task(text, len(seen))
        if (before := seen.setdefault(task.id, line.number)) != line.number:
            if task.id == digest_of(task.question):
                raise ValueError(f"question: line {before} asks it too; give the two an id each")
            raise ValueError(f"id: {task.id!r} is the id of line {before} too")
        return task

    tasks = list(read_each(((line.text, line) for line in lines(path)), read, SuiteError))
    if not tasks:
        raise SuiteError(f"{path} holds no tasks")
    return tasks
