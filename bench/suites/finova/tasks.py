"""Finova's tasks, read from a folder with a JSON file for each kind of task.

A file holds a list of objects with `prompt`, `ground_truth` (a text or a list of texts) and `from`.
The file of a kind may be missing: the authors' repository has none for `expression`.
"""

from pathlib import Path

import orjson
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from bench.suites.finova.extraction import KINDS
from bench.suites.suite import SuiteError
from bench.task import Task
from manifests.common.problem import first_problem
from manifests.common.regular_file import read_text

FILE_BYTES = 256 * 2**20
"""The largest file that is read."""


class _Item(BaseModel):
    prompt: str
    ground_truth: str | list[str]
    source: str = Field("", alias="from")


_ITEMS = TypeAdapter(list[_Item])


def id_of(kind: str, index: int) -> str:
    """The id of a task: its kind, and its place in the file of that kind, from 0."""
    return f"{kind}_{index}"


def read_folder(folder: Path) -> list[Task]:
    """The tasks of all files in a folder. Raises `SuiteError`."""
    if not folder.is_dir():
        raise SuiteError(
            f"{folder} is no folder; Finova's dataset is one with {KINDS[0]}.json, ..."
        )
    tasks = [task for kind in KINDS for task in _read(folder / f"{kind}.json", kind)]
    if not tasks:
        names = ", ".join(f"{kind}.json" for kind in KINDS)
        raise SuiteError(f"{folder} holds no tasks; they are in {names}")
    return tasks


def _read(file: Path, kind: str) -> list[Task]:
    try:
        text = read_text(file, FILE_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SuiteError(f"{file}: {error.strerror}") from error
    try:
        items = _ITEMS.validate_json(text)
    except ValidationError as error:
        raise SuiteError(f"{file}: {first_problem(error)}") from error
    return [
        Task(
            id=id_of(kind, index),
            category=kind,
            question=item.prompt,
            tools=(),
            answer=_text(item.ground_truth),
            source_dataset=item.source,
        )
        for index, item in enumerate(items)
    ]


def _text(gold: str | list[str]) -> str:
    """A gold answer as text; a list as JSON."""
    return gold if isinstance(gold, str) else orjson.dumps(gold).decode()
