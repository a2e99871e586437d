"""The tools that an MCP client is offered, and the results of calling them.

760 tools flood a model's context. So three are offered by default: find tools, describe a tool,
call a tool. With a selection, the selected tools are offered directly. Tools that the caller may
not use, or that nobody can call now, are not offered. `read_result` is always offered. A list has
one page if possible, because many clients do not ask for a second.
"""

import asyncio
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal

import orjson
from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cache.entry import quoted
from gateway.access.guard import Caller
from gateway.access.rejection import RequestRejected
from gateway.api.budget import META_NAMES, NAMES, BudgetFields
from gateway.api.describe import summarise
from gateway.api.mcp_errors import INVALID_PARAMS, McpError
from gateway.api.models import TAGS, Answer, FoundTools, ResultsPage, ToolDescription
from gateway.call import Gateway
from gateway.context import CallContext
from gateway.errors import CallError, ErrorCode
from gateway.grant import Grant
from gateway.pipeline.bind import printable, unknown_tool
from gateway.result import Result
from gateway.search.finder import Among, ToolFinder
from gateway.tables.rows import BYTES_AT_ONCE, Page, column_names
from manifests import Domain, Intent, Manifest, Selection, Source, Timeliness
from manifests.common.json_text import Repeating, read_json
from manifests.common.nearest import hint
from manifests.common.problem import first_problem
from manifests.export import annotations, arguments_schema, export
from manifests.export import describe as description_of

MAX_PAGE = 1_000
"""Tools of a page of `tools/list`: the maximum and the default."""

KEPT_LISTS = 64
"""Lists of selected tools that are kept."""

OutputSchema = Literal["short", "full", "none"]
"""How much of its output schema a listed tool has. With `none` results are text alone."""

CALL_TOOL, EXECUTE_TOOL, READ_RESULT = "call_tool", "execute_tool", "read_result"

MOST_ROWS = 500
"""The most rows of a page over MCP, since a model reads them all."""

CALL_TOOL_NAMES = {"search": CALL_TOOL, "execute": EXECUTE_TOOL}
"""The offers of the three tools, and the name under which each lists the third. Semantic Kernel
skips a tool named as a method of its own, `call_tool`, and reserves the argument `arguments`.
"""


@dataclass(frozen=True, slots=True)
class Visitor:
    """A client that sends messages, and what it is offered: a selection of tools, or with None the
    three. The rest says how tools are listed: how many on a page, how much of their output schemas,
    and the name of the tool that calls others.
    """

    caller: Caller
    offer: Selection | None = None
    page_size: int = MAX_PAGE
    output_schema: OutputSchema = "short"
    call_tool: str = CALL_TOOL


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SearchTools(_Arguments):
    """Find finance tools by what they are about; the best matches come first. `fits` is false if
    none fits. The tool resolve_symbol, called like any other, gives codes for names.
    """

    query: str = Field(description="A question or words, in English or Chinese.")
    source: Source | None = None
    domain: Domain | None = None
    timeliness: Timeliness | None = None
    intent: Intent | None = None
    limit: int = Field(10, ge=1, le=50)


class DescribeTool(_Arguments):
    """Read what a tool returns and which arguments it takes, with an example."""

    name: str = Field(description="A name that search_tools gave.")


class CallTool(_Arguments, BudgetFields):
    """Call a tool by its name, with the arguments that describe_tool listed."""

    name: str = Field(description="A name that search_tools gave.")
    arguments: dict[str, Any] = Field({}, description="Arguments by name.")
    max_rows: int | None = Field(None, ge=1, description="Rows of a table to return.")


class ExecuteTool(CallTool):
    """Call a tool by its name, with the arguments that describe_tool listed."""

    arguments: dict[str, Any] = Field({}, alias="parameters", description="Arguments by name.")


class ReadResult(_Arguments):
    """Read more rows of a shortened answer: one with truncated true and a handle."""

    handle: str = Field(description="The handle of the answer.")
    offset: int = Field(0, description="How many rows to skip; -20 gives the last 20 rows.")
    limit: int = Field(50, ge=1, le=MOST_ROWS, description="Rows to return; no budget applies.")
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


_NESTED = {dict, list, Repeating}

_OWN: dict[str, tuple[type[_Arguments], type[BaseModel]]] = {
    "search_tools": (SearchTools, FoundTools),
    "describe_tool": (DescribeTool, ToolDescription),
    CALL_TOOL: (CallTool, Answer),
    EXECUTE_TOOL: (ExecuteTool, Answer),
    READ_RESULT: (ReadResult, ResultsPage),
}
"""What the tools of the gateway itself take and return."""


class McpTools:
    """The tools of one gateway as MCP clients see them."""

    def __init__(self, gateway: Gateway, finder: ToolFinder) -> None:
        self._gateway = gateway
        self._finder = finder
        self._version = gateway.catalog.version
        self._lists: dict[Hashable, tuple[bytes, ...]] = {}
        self._listing = asyncio.Lock()
        self._changers = lru_cache(1)(
            lambda _version: gateway.catalog.select(intent="transactional")
        )
        self._texts: dict[tuple[str, OutputSchema], tuple[Manifest, bytes]] = {}

    async def tools(self, visitor: Visitor, grant: Grant | None) -> tuple[bytes, ...]:
        """The tools that a visitor with that grant is offered now, each as JSON."""
        output_schema = visitor.output_schema
        version = self._gateway.catalog.version
        if self._version != version:
            self._version = version
            self._lists.clear()
            self._texts.clear()
        reading = own_tool(READ_RESULT, output_schema)
        if visitor.offer is None:
            changes = any(self._is_offered(one, grant) for one in self._changers(version))
            names = "search_tools", "describe_tool", visitor.call_tool
            own = (own_tool(name, output_schema, changes_something=changes) for name in names)
            return (*own, reading)
        about = visitor.offer, output_schema, grant
        chosen = self._lists.get(about)
        if chosen is None:
            chosen = await self._made(*about, version)
        return (reading, *chosen)  # `read_result` is on the first page

    async def page(self, visitor: Visitor, cursor: str | None) -> tuple[bytes, str | None]:
        """Return a JSON array of tools and the cursor of the next page. Raises `McpError`."""
        tools = await self.tools(visitor, visitor.caller.context.grant)
        size, start = visitor.page_size, 0
        if cursor is not None:
            starts = {str(start): start for start in range(size, len(tools), size)}
            if cursor not in starts:
                raise McpError(INVALID_PARAMS, "no page begins at this cursor")
            start = starts[cursor]
        end = start + size
        page = b"[%b]" % b",".join(tools[start:end])
        return page, str(end) if end < len(tools) else None

    async def call(
        self, visitor: Visitor, name: str, arguments: dict[str, Any], context: CallContext
    ) -> bytes:
        """Return the result of `tools/call`. Raises `McpError` for a tool that is not offered, and
        `RequestRejected`.
        """
        offer = visitor.offer
        if isinstance(arguments, Repeating) and name in _OWN:
            text = f"argument {printable(arguments.repeated[0])}: is given more than once"
            raise RequestRejected(CallError(ErrorCode.INVALID_ARGUMENTS, text))
        if offer is None and name == CALL_TOOL and len(arguments) == 2:
            match arguments:
                case {"name": str() as tool, "arguments": dict() as plain}:
                    # The usual case: validation by the model takes 2 us, and so much is saved if
                    # the gateway gets a text, whose meaning it remembers.
                    is_flat = type(plain) is dict and _NESTED.isdisjoint(map(type, plain.values()))
                    taken = orjson.dumps(plain) if is_flat else plain
                    return _result_of(await self._gateway.call(tool, taken, context))
        if name == READ_RESULT or (offer is None and name in _OWN):
            return await self._own(name, arguments, context)
        if offer is None:
            return await self._found_only(name, arguments, context)
        manifest = self._gateway.catalog.get(name)
        if manifest is None or manifest not in offer:
            raise self._unknown(name, offer)
        result = await self._gateway.call(name, arguments, context)
        return _result_of(_with_way_to_budget(result, arguments))

    async def refuse(
        self,
        visitor: Visitor,
        name: str,
        arguments: Mapping[str, Any],
        error: CallError,
        context: CallContext,
    ) -> bytes:
        """Return the result of a rejected `tools/call`. If it was to call a tool, the rejection is
        recorded as a call.
        """
        tool = name if visitor.offer is not None else _tool_to_call(name, arguments)
        if tool is None or name == READ_RESULT:
            return refused(name, error)
        return _result_of(await self._gateway.refuse(tool, error, context))

    async def _own(self, name: str, given: dict[str, Any], context: CallContext) -> bytes:
        """Call one of the gateway's own tools."""
        if name == EXECUTE_TOOL:
            name, given = CALL_TOOL, _as_call_tool(given)
        try:
            gathered = self._gathered(given) if name == CALL_TOOL else given
            arguments = _OWN[name][0].model_validate(gathered)
        except ValidationError as error:
            raise _wrong(name, first_problem(error), is_budget=_is_of_budget(error)) from None
        match arguments:
            case SearchTools():
                return await self._search(arguments, context.grant)
            case DescribeTool():
                return self._describe(arguments.name)
            case ReadResult():
                return await self._read_result(arguments, context.grant)
            case CallTool():
                if arguments.max_rows is not None:
                    context = context.asking(arguments.max_rows)
                result = await self._gateway.call(
                    arguments.name, gathered["arguments"], arguments.within(context)
                )
                return _result_of(result)
        raise AssertionError(name)

    async def _read_result(self, asked: ReadResult, grant: Grant | None) -> bytes:
        page = await self._gateway.read_result(
            asked.handle, asked.offset, asked.limit, asked.columns, grant, where=asked.where
        )
        if isinstance(page, CallError):
            return refused(READ_RESULT, page)
        if len(page.data) <= BYTES_AT_ONCE:
            return _page_result(page)
        return await to_thread.run_sync(_page_result, page)

    def _gathered(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return what call_tool was given, with all arguments of the tool in `arguments`.

        Models also give them as null, as JSON text, and beside the name. Raises `RequestRejected`
        if it is ambiguous which arguments belong to the tool.
        """
        own = {name: value for name, value in given.items() if name in CallTool.model_fields}
        beside = {name: value for name, value in given.items() if name not in own}
        arguments = _object(own.get("arguments"))
        if beside:
            manifest = self._gateway.catalog.get(str(own.get("name")))
            names = [p.name for p in manifest.parameters] if manifest else []
            clash = next((name for name in names if name in CallTool.model_fields), None)
            odd = printable(next(iter(beside)))
            if clash is not None:
                text = f"{odd}: this tool has an argument {clash} too: give all in arguments"
                raise _wrong(CALL_TOOL, text)
            if arguments:
                text = f"{odd}: stands beside arguments: give all in arguments, or none"
                raise _wrong(CALL_TOOL, text)
        return own | {"arguments": arguments or beside}

    async def _found_only(self, name: str, given: dict[str, Any], context: CallContext) -> bytes:
        """Return the error for a tool that was called by its name instead of through call_tool."""
        manifest = self._gateway.catalog.get(name)
        if manifest is None:
            raise self._unknown(name, None)
        is_plain = given and not any(isinstance(value, dict | list) for value in given.values())
        how = {"name": name, "arguments": given if is_plain else manifest.sample()}
        text = f"{name} is called through call_tool: give call_tool the object in details.call_tool"
        error = CallError(ErrorCode.INVALID_REQUEST, text, details={"call_tool": how})
        return _result_of(await self._gateway.refuse(name, error, context))

    def _unknown(self, name: str, offer: Selection | None) -> McpError:
        catalog = self._gateway.catalog
        found = (catalog.get(near) for near in catalog.nearest(printable(name)))
        nearest = [m.name for m in found if m is not None and (offer is None or m in offer)]
        text = f"Unknown tool: {printable(name)}{hint(nearest)}"
        return McpError(INVALID_PARAMS, text, {"nearest": nearest} if nearest else None)

    async def _search(self, wanted: SearchTools, grant: Grant | None) -> bytes:
        tags = wanted.model_dump(include={*TAGS})
        among = Among((grant, "offered"), partial(self._is_offered, grant=grant))
        found = await self._finder.search(wanted.query, tags, among)
        tools = [summarise(manifest) for manifest in found.tools[: wanted.limit]]
        return _given({**found.about(), "total": len(found.tools), "tools": tools})

    def _describe(self, name: str) -> bytes:
        manifest = self._gateway.catalog.get(name)
        if manifest is None:
            return refused("describe_tool", unknown_tool(self._gateway.catalog, name))
        described = {
            "name": manifest.name,
            "description": description_of(manifest, tags=True),
            "input_schema": arguments_schema(manifest),
            "sample": manifest.sample(),
            "columns": [column.name for column in manifest.columns],
            "generated": manifest.generated,
            "unavailable": manifest.unavailable,
        }
        return _given(described)

    async def _made(
        self, offer: Selection, output_schema: OutputSchema, grant: Grant | None, version: int
    ) -> tuple[bytes, ...]:
        """Make a list in a thread, and keep it. After a change many want the same at once."""
        about = offer, output_schema, grant
        async with self._listing:
            chosen = self._lists.get(about)
            if chosen is None:
                chosen = await to_thread.run_sync(self._list, *about)
                if version == self._version == self._gateway.catalog.version:
                    if len(self._lists) >= KEPT_LISTS:
                        del self._lists[next(iter(self._lists))]
                    self._lists[about] = chosen
        return chosen

    def _list(
        self, offer: Selection, output_schema: OutputSchema, grant: Grant | None
    ) -> tuple[bytes, ...]:
        """Return the tools of a selection that a caller with that grant may call."""
        return tuple(
            self._text(manifest, output_schema)
            for manifest in self._gateway.catalog
            if manifest in offer and self._is_offered(manifest, grant)
        )

    def _text(self, manifest: Manifest, output_schema: OutputSchema) -> bytes:
        """Return a tool as JSON, which is built once."""
        kept = self._texts.get((manifest.name, output_schema))
        if kept is not None and kept[0] is manifest:
            return kept[1]
        output = _output(Answer, output_schema)
        if output_schema == "full" and manifest.observed is not None:
            output["outputSchema"]["properties"]["data"] = manifest.observed.schema_of_data
        text = orjson.dumps(export(manifest, "mcp") | output)
        self._texts[manifest.name, output_schema] = manifest, text
        return text

    def _is_offered(self, manifest: Manifest, grant: Grant | None) -> bool:
        return manifest.unavailable is None and self._gateway.may_use(manifest, grant)


# Unlike OpenAPI, which needs empty `items` for generators: MCP clients warn of empty `items`.
_KINDS = [{"type": t} for t in ("object", "array", "string", "number", "boolean", "null")]
_SHORT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ok": {"type": "boolean"},
        "data": {"description": "A table as a list of records, or any JSON.", "anyOf": _KINDS},
        "truncated": {"description": "Whether rows are left out.", "type": "boolean"},
        "provenance": {"type": "object"},
    },
    "required": ["ok", "data"],
}
"""The short output schema: the whole schema would be three quarters of the size of a list."""


def _output(answer: type[BaseModel], output_schema: OutputSchema) -> dict[str, Any]:
    """Return the `outputSchema` field of a listed tool, or nothing."""
    if output_schema == "none":
        return {}
    is_short = output_schema == "short" and answer is Answer
    return {"outputSchema": _SHORT if is_short else answer.model_json_schema()}


@lru_cache(32)
def own_tool(name: str, output_schema: OutputSchema, *, changes_something: bool = False) -> bytes:
    """Return one of the gateway's own tools as an entry of `tools/list`. `changes_something` says
    whether the caller may call a tool that changes something.
    """
    taken, given = _OWN[name]
    title, calls = name.replace("_", " ").capitalize(), issubclass(taken, CallTool)
    return orjson.dumps(
        {
            "name": name,
            "title": title,
            "description": taken.__doc__,
            "inputSchema": taken.model_json_schema(),
            **_output(given, output_schema),
            "annotations": annotations(
                title, changes_something=changes_something and calls, open_world=calls
            ),
        }
    )


def _as_call_tool(given: dict[str, Any]) -> dict[str, Any]:
    """Return what execute_tool was given as call_tool takes it."""
    if "parameters" not in given or "arguments" in given:
        return given
    return {("arguments" if n == "parameters" else n): value for n, value in given.items()}


def _object(value: object) -> Any:
    """Return `arguments` as an object. Raises `RequestRejected` for a text that holds none."""
    if value is None:
        return {}
    if not isinstance(value, str):
        return value
    try:
        meant = read_json(value.encode())
    except orjson.JSONDecodeError as error:
        raise _wrong(CALL_TOOL, f"arguments: a text that is no JSON: {error}") from None
    if not isinstance(meant, dict | None):
        raise _wrong(CALL_TOOL, "arguments: a JSON text that is no object")
    return meant or {}


def _wrong(name: str, problem: str, *, is_budget: bool = False) -> RequestRejected:
    """Reject an argument that a tool of the gateway does not take. A wrong budget has the code
    that it has wherever else it is set.
    """
    allowed = {"allowed": [*_OWN[name][0].model_fields]}
    is_budget = is_budget and name != READ_RESULT
    code = ErrorCode.INVALID_REQUEST if is_budget else ErrorCode.INVALID_ARGUMENTS
    return RequestRejected(CallError(code, f"argument {problem}", details=allowed))


def _is_of_budget(error: ValidationError) -> bool:
    """Whether the first problem is one of a budget."""
    place = error.errors(include_url=False, include_input=False)[0]["loc"]
    return any(name in NAMES for name in place[:1])


def _tool_to_call(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the tool that one of the three is asked to call, if any."""
    tool = arguments.get("name") if name in (CALL_TOOL, EXECUTE_TOOL) else None
    return tool if isinstance(tool, str) else None


def _result_of(result: Result) -> bytes:
    line, text = result.to_texts()
    return _GIVEN % (text, line) if result.error is None else _FAILED % text


def _with_way_to_budget(result: Result, arguments: Mapping[str, Any]) -> Result:
    """The result of a tool called by its own name. If it refused a budget among its arguments, the
    error says where a budget belongs.
    """
    error = result.error
    if error is None or error.code is not ErrorCode.INVALID_ARGUMENTS:
        return result
    takes = error.details.get("allowed", {})
    ways = [key for key, name in META_NAMES.items() if name in arguments and name not in takes]
    if ways:
        text = f"{error.message}; a budget stands in _meta: {', '.join(ways)}"
        result.error = replace(error, message=text)
    return result


def _page_result(page: Page) -> bytes:
    line = page.to_json().replace(b"\n", b"")
    return _GIVEN % (b'"%b"' % quoted(line), line)


def refused(tool: str, error: CallError) -> bytes:
    """Return an error as the result of `tools/call`."""
    line = orjson.dumps({"ok": False, "tool": tool, "error": error.to_dict()})
    return _FAILED % (b'"%b"' % quoted(line))


def _given(value: object) -> bytes:
    line = orjson.dumps(value)
    return _GIVEN % (b'"%b"' % quoted(line), line)


_GIVEN = b'{"content":[{"type":"text","text":%b}],"structuredContent":%b,"isError":false}'
_FAILED = b'{"content":[{"type":"text","text":%b}],"isError":true}'
"""The result of `tools/call`: JSON on one line, and before it the same as a JSON string."""


def text_only(result: bytes) -> bytes:
    """Return a result without its structured content. No text within JSON holds a bare quote."""
    head, structured, _ = result.partition(b'],"structuredContent":')
    return head + b'],"isError":false}' if structured else result
