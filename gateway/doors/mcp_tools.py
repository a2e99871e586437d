"""Which tools an MCP client is offered, and what each of them does.

760 tools flood a model's context. So by default there are three: find tools, read what one takes,
call it. A selection offers its tools themselves. What the caller may not use, and what nobody can
call now, is not offered. Beside either stands `read_result`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cache.entry import quoted
from gateway.bind import unknown_tool
from gateway.call import Gateway
from gateway.context import CallContext
from gateway.describe import summarise
from gateway.doors.bodies import arguments_text
from gateway.doors.mcp_rows import READ_RESULT, read_result, with_read_result
from gateway.doors.models import Answer, FoundTools, ToolDescription
from gateway.errors import CallError, ErrorCode
from gateway.finder import ToolFinder
from gateway.grant import Grant
from gateway.result import Result
from manifests import Domain, Intent, Manifest, Selection, Source, Timeliness
from manifests.export import arguments_schema, export
from manifests.export import describe as description_of
from manifests.problem import first_problem

PAGE = 100
"""Tools of a page of `tools/list`."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SearchTools(_Arguments):
    """Find finance tools by what they are about; the best matches come first."""

    query: str = Field(description="A question or words, in English or Chinese.")
    source: Source | None = None
    domain: Domain | None = None
    timeliness: Timeliness | None = None
    intent: Intent | None = None
    limit: int = Field(10, ge=1, le=50)


class DescribeTool(_Arguments):
    """Read what a tool returns and which arguments it takes, with an example."""

    name: str = Field(description="A name that search_tools gave.")


class CallTool(_Arguments):
    """Call a tool by its name, with the arguments that describe_tool told of."""

    name: str = Field(description="A name that search_tools gave.")
    arguments: dict[str, Any] = Field({}, description="Arguments by name.")
    max_rows: int | None = Field(None, ge=1, description="Rows of a table to give back.")


_THREE: dict[str, tuple[type[_Arguments], type[BaseModel]]] = {
    "search_tools": (SearchTools, FoundTools),
    "describe_tool": (DescribeTool, ToolDescription),
    "call_tool": (CallTool, Answer),
}


class UnknownToolError(Exception):
    """The client was not offered a tool of that name."""


class CursorError(Exception):
    """The client goes on where no page begins."""


class McpTools:
    """What MCP clients are offered of one gateway. An offer of None is the three tools."""

    def __init__(self, gateway: Gateway, finder: ToolFinder) -> None:
        self._gateway = gateway
        self._finder = finder
        self._pages = lru_cache(64)(self._page)

    async def page(
        self, offer: Selection | None, grant: Grant | None, cursor: str | None
    ) -> tuple[bytes, str | None]:
        """A JSON array of tools, and where the next page begins. Raises `CursorError`."""
        if offer is None:
            if cursor is not None:
                raise CursorError(cursor)
            return with_read_result(three_tools()), None
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 9):
            raise CursorError(cursor)
        tools, next_ = await to_thread.run_sync(self._pages, offer, grant, int(cursor or 0))
        return (with_read_result(tools) if cursor is None else tools), next_

    async def call(
        self, offer: Selection | None, name: str, arguments: dict[str, Any], context: CallContext
    ) -> bytes:
        """The result of `tools/call`. Raises `UnknownToolError`."""
        if name == READ_RESULT:
            return await self._read_result(arguments, context.grant)
        if offer is None:
            return await self._one_of_three(name, arguments, context)
        manifest = self._gateway.catalog.get(name)
        if manifest is None or manifest not in offer:
            raise UnknownToolError(name)
        return await self._called(name, arguments, context)

    async def refuse(
        self,
        offer: Selection | None,
        name: str,
        arguments: Mapping[str, Any],
        error: CallError,
        context: CallContext,
    ) -> bytes:
        """The result of `tools/call` for what came to nothing; where a tool was to be called that
        counts as a call.
        """
        tool = name if offer is not None else _tool_to_call(name, arguments)
        if tool is None or name == READ_RESULT:
            return refused(name, error)
        return _result_of(await self._gateway.refuse(tool, error, context))

    async def _read_result(self, given_: dict[str, Any], grant: Grant | None) -> bytes:
        page = await read_result(self._gateway, given_, grant)
        if isinstance(page, CallError):
            return refused(READ_RESULT, page)
        line = page.to_json().replace(b"\n", b"")
        return given(line, b'"%b"' % quoted(line), failed=False)

    async def _called(self, name: str, arguments: dict[str, Any], context: CallContext) -> bytes:
        return _result_of(await self._gateway.call(name, arguments_text(arguments), context))

    async def _one_of_three(self, name: str, given: dict[str, Any], context: CallContext) -> bytes:
        if name not in _THREE:
            raise UnknownToolError(name)
        match given:
            case {"name": str() as tool, "arguments": dict() as plain} if (
                name == "call_tool" and len(given) == 2
            ):  # as it mostly is: a model takes 2 us to say so
                return await self._called(tool, plain, context)
        try:
            arguments = _THREE[name][0].model_validate(given)
        except ValidationError as error:
            text = f"argument {first_problem(error)}"
            allowed = {"allowed": [*_THREE[name][0].model_fields]}
            wrong = CallError(ErrorCode.INVALID_ARGUMENTS, text, details=allowed)
            return await self.refuse(None, name, given, wrong, context)
        match arguments:
            case SearchTools():
                return await self._search(arguments, context.grant)
            case DescribeTool():
                return self._describe(arguments.name)
            case CallTool():
                if arguments.max_rows is not None:
                    context = context.asking(arguments.max_rows)
                return await self._called(arguments.name, arguments.arguments, context)
        raise AssertionError(name)

    async def _search(self, wanted: SearchTools, grant: Grant | None) -> bytes:
        tags = wanted.model_dump(include={"source", "domain", "timeliness", "intent"})
        ranked = await self._finder.find(wanted.query, len(self._gateway.catalog), **tags)
        found = [manifest for manifest in ranked if self._is_offered(manifest, grant)]
        tools = [summarise(manifest) for manifest in found[: wanted.limit]]
        return _given({"total": len(found), "tools": tools})

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
            "unavailable": manifest.unavailable,
        }
        return _given(described)

    def _page(self, offer: Selection, grant: Grant | None, start: int) -> tuple[bytes, str | None]:
        tools = [
            manifest
            for manifest in self._gateway.catalog
            if manifest in offer and self._is_offered(manifest, grant)
        ]
        if start and start >= len(tools):
            raise CursorError(str(start))
        end = start + PAGE
        shown = [export(m, "mcp") | {"outputSchema": _ANSWER} for m in tools[start:end]]
        return orjson.dumps(shown), str(end) if end < len(tools) else None

    def _is_offered(self, manifest: Manifest, grant: Grant | None) -> bool:
        return manifest.unavailable is None and self._gateway.may_use(manifest, grant)


_ANSWER = Answer.model_json_schema()


@lru_cache(1)
def three_tools() -> bytes:
    """The three tools, as `tools/list` gives them."""
    return orjson.dumps(
        [
            {
                "name": name,
                "description": taken.__doc__,
                "inputSchema": taken.model_json_schema(),
                "outputSchema": given.model_json_schema(),
                "annotations": {"readOnlyHint": name != "call_tool", "openWorldHint": True},
            }
            for name, (taken, given) in _THREE.items()
        ]
    )


def _tool_to_call(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Which tool one of the three is to call, if any."""
    tool = arguments.get("name") if name == "call_tool" else None
    return tool if isinstance(tool, str) else None


def _result_of(result: Result) -> bytes:
    line, text = result.to_texts()
    return given(line, text, failed=not result.ok)


def refused(tool: str, error: CallError) -> bytes:
    """The result of a call that came to nothing."""
    envelope = {"ok": False, "tool": tool, "error": error.to_dict()}
    return _given(envelope, failed=True)


def _given(value: object, *, failed: bool = False) -> bytes:
    line = orjson.dumps(value)
    return given(line, b'"%b"' % quoted(line), failed=failed)


def given(line: bytes, text: bytes, *, failed: bool) -> bytes:
    """The result of `tools/call`: JSON on one line, and the same as a JSON text."""
    if failed:
        return b'{"content":[{"type":"text","text":%b}],"isError":true}' % text
    return b'{"content":[{"type":"text","text":%b}],"structuredContent":%b,"isError":false}' % (
        text,
        line,
    )
