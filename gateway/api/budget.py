"""The budget that a request sets for its answers: in a query, in a line of a batch, over MCP."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.access.rejection import BadRequest
from gateway.compress.budget import LIMITS
from gateway.context import QUESTION_CHARS, CallContext
from manifests.problem import first_problem

META_PREFIX = "finport/"
"""Begins the names of a budget in the `_meta` of an MCP request: `finport/max_tokens`."""


class BudgetFields(BaseModel):
    """How long an answer may be, and what it is wanted for."""

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
        "", max_length=QUESTION_CHARS, description="The question that a shortened answer serves."
    )

    def within(self, context: CallContext) -> CallContext:
        """The context with this budget; without one its own stays. Raises `BadRequest`."""
        try:
            return replace(context, **self.budget())
        except ValueError as error:
            raise BadRequest(str(error)) from None

    def budget(self) -> dict[str, Any]:
        """The fields of a context with this budget and question; what is not given stays."""
        given: dict[str, Any] = {"question": self.question} if self.question else {}
        if self.max_tokens is not None or self.max_chars is not None:
            given |= {"max_tokens": self.max_tokens, "max_chars": self.max_chars}
        return given


class _Given(BudgetFields):
    model_config = ConfigDict(extra="forbid")


NAMES = frozenset(BudgetFields.model_fields)


def with_budget(context: CallContext, given: Mapping[str, Any], where: str) -> CallContext:
    """The context with the budget that stands in `given`. Raises `BadRequest`."""
    if not given:
        return context
    try:
        return _Given.model_validate(given).within(context)
    except ValidationError as error:
        raise BadRequest(f"{where} {first_problem(error)}") from None


def budget_in_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The budget in the `_meta` of an MCP request, under the names of `BudgetFields`."""
    return {
        key.removeprefix(META_PREFIX): value
        for key, value in meta.items()
        if key.startswith(META_PREFIX)
    }
