"""FinToolBench's questions (arXiv 2603.08262), read from its own file.

A question's id is that of the public traces, `{dataset}_{index}`. The index is the question's place
in the file, since `original_idx` is not unique there. Labels name tools without arguments. Gold
answers are kept unchanged, also the eighteen that read "nan".
"""

from pydantic import BaseModel

from bench.task import LabelledCall, Task


class _Question(BaseModel):
    dataset_name: str
    category: str
    question: str
    answer: str | None = None
    select_tools: tuple[str, ...] = ()


def read_task(line: bytes, number: int) -> Task:
    """Raises `ValidationError`."""
    question = _Question.model_validate_json(line)
    return Task(
        id=f"{question.dataset_name}_{number}",
        category=question.category,
        question=question.question,
        tools=tuple(LabelledCall(name=name) for name in question.select_tools),
        answer=question.answer or "",
        source_dataset=question.dataset_name,
    )
