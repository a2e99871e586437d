"""The budget that a request sets for its answers, and whether another source may give them: in a
query, in a line of a batch, over MCP.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, Field, ValidationError, field_validator

from gateway.access.rejection import BadRequest
from gateway.compress.budget import LIMITS
from gateway.context import QUESTION_CHARS, CallContext, StandInUse
from manifests.common.nearest import not_among
from manifests.common.problem import first_problem

META_PREFIX = "finport/"
"""Begins the names of a budget in the `_meta` of an MCP request: `finport/max_tokens`."""


class BudgetFields(BaseModel):
    """How long an answer may be, what it is wanted for, and whether a stand-in may give it."""

    max_tokens: int | None = Field(
        None,
        ge=LIMITS["tokens"][0],
        le=LIMITS["tokens"][1],
        description="Shorten the answer to a text of at most this many tokens.",
    )
    max_chars: int | None = Field(
        None,
        ge=LIMITS["chars"][0],
        le=LIMITS["chars"][1],
        description="Shorten the answer to a text of at most this many characters.",
    )
    question: str = Field(
        "",
        max_length=QUESTION_CHARS,
        description=f"The question that a shortened answer serves, in at most {QUESTION_CHARS:,} "
        "characters. It has no effect on an answer that is not shortened.",
    )

    stand_in: StandInUse | None = Field(
        None,
        description="`allow`: while the tool's own source fails, another source may answer. The "
        "provenance says so.",
    )

    @field_validator("max_tokens", "max_chars", mode="before")
    @classmethod
    def _is_no_boolean(cls, given: object) -> object:
        if isinstance(given, bool):  # pydantic takes true for 1
            raise ValueError(f"Input should be a whole number, not {str(given).lower()}")
        return given

    def within(self, context: CallContext, **options: Any) -> CallContext:
        """The context with this budget and question, and with other `options` of it. A budget or a
        question that is not given stays, and so does `stand_in`. Raises `BadRequest`.
        """
        if self.question:
            options["question"] = self.question
        if self.stand_in is not None:
            options["stand_in"] = self.stand_in
        if self.max_tokens is not None or self.max_chars is not None:
            options |= {"max_tokens": self.max_tokens, "max_chars": self.max_chars}
        try:
            return replace(context, **options)
        except ValueError as error:
            raise BadRequest(str(error)) from None


NAMES = tuple(BudgetFields.model_fields)

META_NAMES = {f"{META_PREFIX}{name}": name for name in NAMES}
"""The names of a budget in the `_meta` of an MCP request."""


def with_budget(context: CallContext, given: Mapping[str, Any], where: str) -> CallContext:
    """The context with the budget in `given`, whose names are `NAMES`. Raises `BadRequest`, whose
    text begins with `where`.
    """
    if not given:
        return context
    try:
        return BudgetFields.model_validate(given).within(context)
    except ValidationError as error:
        raise BadRequest(f"{where}{first_problem(error)}") from None


def with_budget_in_meta(context: CallContext, meta: Mapping[str, Any]) -> CallContext:
    """The context with the budget in the `_meta` of an MCP request. Raises `BadRequest`."""
    given = {key: value for key, value in meta.items() if key.startswith(META_PREFIX)}
    unknown = next((key for key in given if key not in META_NAMES), None)
    if unknown is not None:
        raise BadRequest(f"the budget in _meta has no {not_among(unknown, META_NAMES)}")
    budget = {META_NAMES[key]: value for key, value in given.items()}
    return with_budget(context, budget, f"_meta {META_PREFIX}")
