"""Finova's tasks, read from a folder with a JSON file for each kind of task.

A file holds a list of objects with `prompt`, `ground_truth` (a text or a list of texts) and `from`.
The file of a kind may be missing: the authors' repository has none for `expression`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bench.json_lines import JsonLinesError, values
from bench.record import MOST, Ending, EpisodeRecord
from bench.suites.finova.extraction import KINDS
from bench.suites.suite import SuiteError, Traced, TraceFormatError
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
            answer=gold_text(item.ground_truth),
            source_dataset=item.source,
        )
        for index, item in enumerate(items)
    ]


def gold_text(gold: str | list[str]) -> str:
    """A gold answer as text; a list as JSON."""
    return gold if isinstance(gold, str) else orjson.dumps(gold).decode()


class _Answer(BaseModel):
    model_config = ConfigDict(strict=True)

    task: str
    index: int = Field(ge=0, le=MOST)
    answer: str | None


def read_answers(file: Path, counts: Mapping[str, int] | None = None) -> Iterator[Traced]:
    """An episode for each answer. `counts` has the number of tasks of each kind, if it is known.
    Raises `TraceFormatError`, and `IncompleteLineError` after all answers.
    """
    seen: Counter[str] = Counter()
    try:
        for value, line in values(file, orjson.loads):
            try:
                answer = _Answer.model_validate(value)
            except ValidationError as error:
                raise line.error(first_problem(error)) from error
            if answer.task not in KINDS:
                raise line.error(f"task: {answer.task!r} is none of {', '.join(KINDS)}")
            if counts is not None and answer.index >= (count := counts.get(answer.task, 0)):
                which = f" (0 to {count - 1})" if count else ""
                text = f"{answer.index} is no task of {answer.task}, which has {count} tasks{which}"
                raise line.error(f"index: {text}")
            task = id_of(answer.task, answer.index)
            yield Traced(_episode(task, answer, seen[task]), typed=True)
            seen[task] += 1
    except JsonLinesError as error:
        raise TraceFormatError(str(error)) from error


def _episode(task: str, answer: _Answer, repeat: int) -> EpisodeRecord:
    text = answer.answer or ""
    return EpisodeRecord(
        episode=f"{task}.{repeat}",
        id=task,
        repeat=repeat,
        source_dataset="",
        category=answer.task,
        question="",
        setting="",
        ground_truth="",
        candidate_tools=[],
        started_at=0.0,
        execution_result=text,
        ending=(Ending.ANSWER if text.strip() else Ending.EMPTY).value,
    )
