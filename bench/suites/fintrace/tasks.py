"""FinTrace's tasks: one JSON object a line, each a query with its gold trajectory.

A line has `id`, `category`, `difficulty`, `query`, `gold_trajectory` (objects with `tool` and
`arguments`, in the order of use) and `reference_answer`. `id`, `query` and a call are required.
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
    id: str = Field(min_length=1)
    category: str = ""
    difficulty: str = ""
    query: str = Field(min_length=1)
    gold_trajectory: tuple[_GoldCall, ...] = Field(
        min_length=1, validation_alias=AliasChoices("gold_trajectory", "trajectory")
    )
    reference_answer: str = Field("", validation_alias=AliasChoices("reference_answer", "answer"))


def read_task(line: bytes, _number: int) -> Task:
    """Raises `ValidationError`."""
    query = _Query.model_validate_json(line)
    return Task(
        id=query.id,
        category=query.category,
        question=query.query,
        tools=tuple(_labelled(call) for call in query.gold_trajectory),
        answer=query.reference_answer,
        difficulty=query.difficulty,
    )


def _labelled(call: _GoldCall) -> LabelledCall:
    if "arguments" in call.model_fields_set:
        return LabelledCall(name=call.tool, arguments=call.arguments)
    return LabelledCall(name=call.tool)
