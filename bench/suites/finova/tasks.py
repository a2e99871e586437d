"""Finova's tasks, and recorded answers to them.

The tasks are JSON files, one for each kind: a list of objects with `prompt`, `ground_truth` (a text
or a list of texts) and `from`. The folder is a clone of the authors' repository, its `data` folder,
or any folder with files under our names. The file of a kind may be missing. Answers are JSON Lines
of `task` (the kind), `index` (its place in the file of that kind, from 0) and `answer`. Several
answers to one task are repeats, and all of them count.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bench.json_lines import Line, values
from bench.record import MOST, Ending, EpisodeRecord
from bench.suites.files import read_each
from bench.suites.finova.extraction import KINDS
from bench.suites.suite import SuiteError, Traced, TraceFormatError
from bench.task import Task
from manifests.common.problem import first_problem
from manifests.common.regular_file import read_text

AUTHORS: Mapping[str, str] = {
    "intent_recognition": "Agent/金融意图识别.json",
    "slot_filling": "Agent/金融NER.json",
    "tool_planning": "Agent/金融工具策划.json",
    "expression": "Agent/金融表达.json",
    "compliance": "ComplianceSafety/安全合规.json",
    "reasoning": "Reasoning/复杂金融问题.json",
}
"""By kind, the authors' file in their `data` folder (`src/utils/dataloader.py`)."""

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
            f"{folder} is no folder; Finova's dataset is a clone of the authors' repository, its "
            f"`data` folder, or a folder with {KINDS[0]}.json, ..."
        )
    tasks = [task for kind in KINDS for task in _read(folder, kind)]
    if not tasks:
        names = ", ".join(f"{kind}.json" for kind in KINDS)
        theirs = ", ".join(AUTHORS.values())
        raise SuiteError(f"{folder} holds no tasks; they are in {names}, or {theirs}")
    return tasks


def _read(folder: Path, kind: str) -> list[Task]:
    """The tasks of a kind, from the first of its files that is there."""
    for name in (f"{kind}.json", AUTHORS[kind], f"data/{AUTHORS[kind]}"):
        file = folder / name
        try:
            text = read_text(file, FILE_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise SuiteError(f"{file}: {error.strerror}") from error
        return _tasks(file, kind, text)
    return []


def _tasks(file: Path, kind: str, text: bytes) -> list[Task]:
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


class _RecordedAnswer(BaseModel):
    model_config = ConfigDict(strict=True)

    task: str
    index: int = Field(ge=0, le=MOST)
    answer: str | None


def read_answers(file: Path, counts: Mapping[str, int] | None = None) -> Iterator[Traced]:
    """An episode for each answer. `counts` has the number of tasks of each kind, if it is known.
    Raises `TraceFormatError`, and `IncompleteLineError` after all answers.
    """
    seen: Counter[str] = Counter()

    def read(value: Any, _: Line) -> Traced:
        answer = _RecordedAnswer.model_validate(value)
        if answer.task not in KINDS:
            raise ValueError(f"task: {answer.task!r} is none of {', '.join(KINDS)}")
        if counts is not None and answer.index >= (count := counts.get(answer.task, 0)):
            which = f" (0 to {count - 1})" if count else ""
            text = f"{answer.index} is no task of {answer.task}, which has {count} tasks{which}"
            raise ValueError(f"index: {text}")
        task, text = id_of(answer.task, answer.index), answer.answer or ""
        repeat = seen[task]
        seen[task] += 1
        record = EpisodeRecord(
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
        return Traced(record, typed=True)

    return read_each(values(file, orjson.loads), read, TraceFormatError)
