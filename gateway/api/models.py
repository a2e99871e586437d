"""The shapes of the API's answers and messages, for OpenAPI and for MCP's output schemas.

Answers are joined from ready bytes and never pass through these models. Tests check that the models
describe what is sent.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, RootModel, WithJsonSchema

from gateway.api.budget import BudgetFields
from gateway.errors import ErrorCode, Fault
from gateway.result import ProvenanceSource
from manifests import Domain, Intent, Source, Timeliness

_ANY_JSON = WithJsonSchema(
    {
        "anyOf": [
            {"type": "object"},
            {"type": "array", "items": {}},
            *({"type": kind} for kind in ("string", "number", "boolean", "null")),
        ]
    }
)
"""Any JSON value, spelt out: clients warn of an empty schema, and client generators drop a schema
that has an array without `items`.
"""


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


TAGS: Mapping[str, tuple[str, ...]] = {
    "source": get_args(Source),
    "domain": get_args(Domain),
    "timeliness": get_args(Timeliness),
    "intent": get_args(Intent),
}
"""The tags that tools are chosen by, and their values."""


class ToolFilter(BaseModel):
    """Words and tags that tools are chosen by."""

    q: str = Field("", description="A question or words; the best matches come first.")
    source: Source | None = None
    domain: Domain | None = None
    timeliness: Timeliness | None = None
    intent: Intent | None = None
    provider: str | None = Field(
        None, max_length=64, description="The user's provider that a tool comes from, or `finport`."
    )

    @property
    def tags(self) -> dict[str, str]:
        """The tags that are given."""
        return self.model_dump(include={*TAGS, "provider"}, exclude_none=True)


class Provenance(_Shape):
    """Where an answer came from this time (`source`), and where it was made (`upstream`)."""

    source: ProvenanceSource
    upstream: str = Field(
        description="`live`, `simulated`, `recorded`, or `simulated_invented`: a simulated answer "
        "whose values agree with no other answer."
    )
    age_s: float
    snapshot: str | None
    digest: str = Field(description="A hash of the whole answer.")
    attempts: int = Field(description="Requests sent upstream for this call.")
    elapsed_ms: float
    call_id: str
    stood_in_for: str = Field("", description="The tool whose own source failed, if so.")
    answered_by: str = Field("", description="The tool of another source that answered.")
    own_error: str = ""
    missing: list[str] = Field([], description="Columns that it can't give: null.")
    within: dict[str, float] = Field({}, description="By how much rounding may change a column.")


class Answer(_Shape):
    """A call that succeeded. `data` is a list of records for a table, any JSON for a document, and
    a text for an answer that was shortened to a budget.
    """

    ok: Literal[True]
    tool: str
    data: Annotated[Any, _ANY_JSON]
    columns: list[str] | None
    rows: int | None = Field(description="Rows of the whole table.")
    truncated: bool = Field(description="Whether `data` leaves rows out.")
    offset: int = Field(
        0,
        description="How many rows of the whole table come before those of `data`. A shortened "
        "answer has no `offset` and no `shown`.",
    )
    shown: str | None = Field(
        None,
        description="Which rows `data` has if it leaves some out: the newest ones if the table is "
        "ordered by date with the oldest first, else the first ones.",
    )
    handle: str | None = Field(
        description="Reads the other rows, at /v1/results or by the MCP tool read_result."
    )
    compression: dict[str, Any] = Field(
        {},
        description="Of a shortened answer: form, tokens, of_tokens, rows_shown, ..., by, and "
        "understood: what the rows were chosen by.",
    )
    aliases: dict[str, str] = Field({}, description="Replaced argument names: yours to the tool's.")
    resolved: dict[str, str] = Field(
        {}, description="Arguments that named an instrument, and the one whose code was taken."
    )
    provenance: Provenance


class ErrorBody(_Shape):
    """Why there is no answer, whose fault that is, and whether to try again."""

    code: ErrorCode
    message: str
    fault: Fault
    retryable: bool
    retry_after_s: float | None
    details: dict[str, Any]


class FailureProvenance(_Shape):
    """Where an error came from."""

    source: ProvenanceSource | None
    snapshot: str | None
    attempts: int
    elapsed_ms: float
    call_id: str


class Failure(_Shape):
    """A call that failed."""

    ok: Literal[False]
    tool: str
    error: ErrorBody
    call_id: str
    provenance: FailureProvenance


class Problem(_Shape):
    """A failed request that is not a call."""

    ok: Literal[False]
    error: ErrorBody


class ToolSummary(_Shape):
    """One line of the catalogue."""

    name: str
    source: str
    provider: str = Field(description="The user's provider it comes from, or `finport`.")
    description: str
    timeliness: str
    intent_type: str
    regulatory_domains: list[str]
    unavailable: str | None = Field(description="Why it can't be called now.")


class SearchFound(_Shape):
    """What a search says beside its tools; a list without a query says none of it."""

    fits: bool | None = Field(
        None, description="Whether any tool fits the query; if not, `tools` are the nearest."
    )
    sure: float | None = Field(None, description="The probability that the first tool fits.")
    why: list[str] = Field([], description="What the first tool has of that which was asked for.")
    intent: dict[str, list[str]] = Field(
        {},
        description="What was read from the query: what is `asks` for, of which `instrument`, "
        "`country` and `frequency`, and the `names` of instruments in it.",
    )


class ToolsPage(SearchFound):
    """A page of the catalogue."""

    total: int
    tools: list[ToolSummary]
    next_cursor: str | None


class ToolManifest(BaseModel):
    """All that is known about a tool."""

    name: str
    description: str
    source: str
    revision: str
    timeliness: str
    intent_type: str
    regulatory_domains: list[str]
    parameters: list[dict[str, Any]]
    sample: dict[str, Any] = Field(description="Arguments of an example call.")
    freshness: dict[str, Any]
    price: dict[str, Any] | None = Field(
        description="What a request costs, `per_request` in `currency`, if the operator said it."
    )
    refused: str | None = Field(description="Why the caller may not use it, if so.")
    shape_changes: list[dict[str, Any]] = Field(
        description="What differed from earlier answers in the live one that last did: `kind`, "
        "`path`, types `before` and `after`, `time`."
    )


class ResultsPage(_Shape):
    """Rows of a stored table. The table has `rows` rows; `offset` of them come before `data`. If a
    filter is given, `matched` rows pass it, and `offset` counts only these.
    """

    handle: str
    columns: list[str]
    rows: int
    matched: int | None = None
    offset: int
    data: list[dict[str, Any]]


NOTHING = ""
"""In place of a media type: an answer without a body, sent with status 202."""


class Call(_Shape, BudgetFields):
    """One call of a batch; without an id it is identified by its number, counted from 1."""

    id: str | int | None = None
    tool: str
    arguments: dict[str, Any] = Field({})
    timeout_s: float | None = Field(None, gt=0, description="Seconds until a timeout.")


WholeId = Annotated[int, Field(ge=-(2**63), le=2**64 - 1)]


class RpcMessage(BaseModel):
    """A JSON-RPC request. Without an id it is a notification, which is answered by status 202."""

    jsonrpc: Literal["2.0"]
    id: str | WholeId = Field(default_factory=str)
    method: str
    params: dict[str, Any] = Field(default_factory=dict)


_SEVERAL = Field(min_length=1, max_length=64)


class RpcMessages(RootModel[RpcMessage | Annotated[list[RpcMessage | Any], _SEVERAL]]):
    """A message; in revision 2025-03-26 also an array of messages, each answered separately."""


class RpcResult(_Shape):
    """The answer to a request that succeeded. The result says so if the called tool failed."""

    jsonrpc: Literal["2.0"]
    id: str | WholeId
    result: dict[str, Any]


class RpcErrorBody(_Shape):
    """What was wrong with a request."""

    code: int
    message: str
    data: dict[str, Any] = Field(default_factory=dict)


class RpcError(_Shape):
    """The answer to a request that failed. `id` is null if the request's id can't be read."""

    jsonrpc: Literal["2.0"]
    id: str | WholeId | None
    error: RpcErrorBody


class RpcAnswers(RootModel[RpcResult | RpcError | list[RpcResult | RpcError]]):
    """The answer to a message, or the answers to an array of them."""


class RpcProblem(RootModel[RpcError | Problem]):
    """An error of the protocol, or of a request that is not valid HTTP."""


class Health(BaseModel):
    """The state of the gateway. Where a key is needed, a caller without one gets only `status`."""

    status: Literal["ok", "failed"]


class Readiness(_Shape):
    """Whether new calls should be sent here, and if not, why."""

    status: Literal["ready", "not ready"]
    reason: str | None = None
    redis: Literal["ok", "away", "slow", "refuses writes"] | None = Field(
        None, description="The Redis that gateways share, if there is one."
    )


class FoundTools(SearchFound):
    """What `search_tools` returns."""

    total: int
    tools: list[ToolSummary]


class ToolDescription(_Shape):
    """What `describe_tool` returns."""

    name: str
    description: str
    input_schema: dict[str, Any]
    sample: dict[str, Any] = Field(description="Arguments of an example call.")
    columns: list[str]
    generated: str | None = Field(
        None, description="What its manifest was made of, if no person wrote it."
    )
    unavailable: str | None
