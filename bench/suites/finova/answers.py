"""Recorded answers to Finova's tasks: JSON Lines of `{"task", "index", "answer"}`.

`task` is the kind of task, `index` its place in the file of that kind, from 0. Several answers to
one task are repeats, and all of them count.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.json_lines import JsonLinesError, values
from bench.record import MOST, Ending, EpisodeRecord
from bench.suites.finova.extraction import KINDS
from bench.suites.finova.tasks import id_of
from bench.suites.suite import Traced, TraceFormatError
from manifests.common.problem import first_problem


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
