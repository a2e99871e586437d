"""The tool `read_result`: gives MCP clients more rows of an answer that was shortened.

It is offered in addition to all other tools.
"""

from functools import lru_cache
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gateway.api.models import ResultsPage
from gateway.call import Gateway
from gateway.errors import CallError, ErrorCode
from gateway.grant import Grant
from gateway.tables.rows import Page, column_names
from manifests.common.problem import first_problem
from manifests.export import annotations

READ_RESULT = "read_result"

MOST = 500
"""The most rows of a page over MCP, since a model reads them all."""


class ReadResult(BaseModel):
    """Read more rows of a shortened answer: one with truncated true and a handle."""

    model_config = ConfigDict(extra="forbid")

    handle: str = Field(description="The handle of the answer.")
    offset: int = Field(0, description="How many rows to skip; -20 gives the last 20 rows.")
    limit: int = Field(50, ge=1, le=MOST, description="Rows to return; no budget applies.")
    columns: list[str] | None = Field(None, description="Columns to return; all by default.")

    where: str | None = Field(
        None,
        description="A filter of rows, such as: date >= 2024-01-02 and close > 13. Operators: "
        "= != < <= > >= contains in is null, and, or, not, parentheses.",
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _as_list(cls, given: object) -> object:
        return column_names(given) if isinstance(given, str) else given


async def read_result(
    gateway: Gateway, given: dict[str, Any], grant: Grant | None
) -> Page | CallError:
    """Call the tool: return a page of rows, or an error."""
    try:
        asked = ReadResult.model_validate(given)
    except ValidationError as error:
        text = f"argument {first_problem(error)}"
        allowed = {"allowed": [*ReadResult.model_fields]}
        return CallError(ErrorCode.INVALID_ARGUMENTS, text, details=allowed)
    return await gateway.read_result(
        asked.handle, asked.offset, asked.limit, asked.columns, grant, where=asked.where
    )


@lru_cache(2)
def read_result_tool(says_output: bool) -> bytes:
    """Return the tool as an entry of `tools/list`."""
    output = {"outputSchema": ResultsPage.model_json_schema()} if says_output else {}
    title = "Read result"
    return orjson.dumps(
        {
            "name": READ_RESULT,
            "title": title,
            "description": ReadResult.__doc__,
            "inputSchema": ReadResult.model_json_schema(),
            **output,
            "annotations": annotations(title, changes_something=False, open_world=False),
        }
    )
