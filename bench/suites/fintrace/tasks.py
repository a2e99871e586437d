"""FinTrace's tasks: one JSON object a line, each a query with its gold trajectory.

A line has `id`, `category`, `difficulty`, `query`, `gold_trajectory` (objects with `tool` and
`arguments`, in the order of use) and `reference_answer`.
"""

from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from bench.task import LabelledCall, Task


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _GoldCall(_Model):
    tool: str
    arguments: dict[str, Any] = {}


class _Query(_Model):
    id: str
    category: str = ""
    difficulty: str = ""
    query: str
    gold_trajectory: tuple[_GoldCall, ...] = Field(
        validation_alias=AliasChoices("gold_trajectory", "trajectory")
    )
    reference_answer: str = Field("", validation_alias=AliasChoices("reference_answer", "answer"))


def read_task(line: bytes, _number: int) -> Task:
    """Raises `ValidationError`."""
    query = _Query.model_validate_json(line)
    return Task(
        id=query.id,
        category=query.category,
        question=query.query,
        tools=tuple(
            LabelledCall(name=call.tool, arguments=call.arguments) for call in query.gold_trajectory
        ),
        answer=query.reference_answer,
        difficulty=query.difficulty,
    )
