"""The REST API: calls of one tool, the catalogue, function schemas, rows of cached tables.

Every answer is JSON, including errors. A call that is rejected before it is executed is recorded
too.
"""

import asyncio
from dataclasses import replace
from functools import lru_cache, partial
from typing import TypeVar

import orjson
from aiohttp import hdrs, web
from pydantic import Field

from cache import CacheControl, CacheControlError
from gateway.access.rejection import BadRequest, RequestRejected
from gateway.api.budget import BudgetFields
from gateway.api.describe import describe, summarise
from gateway.api.models import Answer, Failure, ResultsPage, ToolFilter, ToolManifest, ToolsPage
from gateway.api.requests import read_body
from gateway.api.responses import Query, answer, listing, parsed, parsed_text, problem
from gateway.api.route import CALLER, JSON, Shape, routed
from gateway.api.sending import LONG, connection_of
from gateway.api.table_forms import ARROW, CSV, table_answer, table_form, table_page
from gateway.call import Gateway
from gateway.context import QUERY_CHARS, CallContext
from gateway.errors import CallError, ErrorCode
from gateway.grant import Grant
from gateway.pipeline.bind import unknown_tool
from gateway.search.finder import Among, ToolFinder
from gateway.tables import rows
from manifests import Catalog, Manifest, Selection, SelectionError
from manifests.export import EXPORT_FORMATS, ExportFormat, export

_FORMATS: dict[str, ExportFormat] = {f: f for f in EXPORT_FORMATS if f != "fintoolbench"}

CALL_ERRORS = tuple(
    code
    for code in ErrorCode
    if code
    not in (
        ErrorCode.CANCELLED,
        ErrorCode.METHOD_NOT_ALLOWED,
        ErrorCode.NOT_ACCEPTABLE,
        ErrorCode.NOT_FOUND,
        ErrorCode.UNAUTHORIZED,
    )
)
"""The error codes with which a call may end."""

AT_ONCE = 100
"""Tools that are written as JSON before yielding to the event loop: 1 ms."""


class ToolsQuery(Query, ToolFilter):
    """Query of `GET /v1/tools`. `cursor` is the `next_cursor` of the page before."""

    limit: int = Field(100, ge=1, le=1000)
    cursor: int = Field(0, ge=0, description="`next_cursor` of the page before.")


class SchemasQuery(Query):
    """Query of `GET /v1/schemas/{format}`: the tools, and how to describe them."""

    q: str = Field("", description="A question or words; the best matches come first.")
    tools: str = Field(
        "all", description="`all` or a selection: `domain:bond,fund;source:akshare`."
    )
    limit: int = Field(1000, ge=1, le=1000)
    strict: bool = Field(False, description="OpenAI's strict mode.")
    tags: bool = Field(True, description="Put the finance tags into descriptions.")


class ResultsQuery(Query):
    """Query of `GET /v1/results/{handle}`: which rows, and which columns of them."""

    offset: int = Field(0, description="Rows to skip; a negative number counts from the end.")
    limit: int = Field(100, ge=1, le=rows.MOST)
    columns: str = Field(
        "", description="Names separated by commas, or a JSON array of them; all by default."
    )
    where: str = Field(
        "", description="A filter of rows, such as `date >= 2024-01-02 and close > 13`."
    )


class CallQuery(Query, BudgetFields):
    """Query of `POST /v1/tools/{name}`: options of one call."""

    max_rows: int | None = Field(None, ge=1, description="Rows of a table to return.")
    timeout_s: float | None = Field(None, gt=0, description="Seconds until a timeout.")
    question: str = Field(
        "",
        max_length=QUERY_CHARS,
        description=f"The question that a shortened answer serves, in at most {QUERY_CHARS} "
        "characters. A longer one fits into a line of `/v1/calls`. It has no effect on an answer "
        "that is not shortened.",
    )

    def of_call(self, context: CallContext) -> CallContext:
        """The context with all these options. Raises `BadRequest`."""
        return self.within(context, deadline_s=self.timeout_s, max_rows=self.max_rows)


TABLES: dict[str, Shape] = {
    CSV: {"type": "string"},
    ARROW: {"type": "string", "format": "binary"},
}
"""The forms of a table beside JSON."""

C = TypeVar("C", bound=CallQuery)


class Rest:
    """Request handlers of the REST API of one gateway."""

    def __init__(self, gateway: Gateway, finder: ToolFinder) -> None:
        self._gateway = gateway
        self._finder = finder
        self._exports: dict[tuple[ExportFormat, bool, bool], dict[str, tuple[Manifest, bytes]]] = {}

    @routed(
        "GET", "/v1/tools", {JSON: ToolsPage}, query=ToolsQuery, errors=(ErrorCode.RATE_LIMITED,)
    )
    async def tools(self, request: web.Request) -> web.StreamResponse:
        """The tools that the caller may use, in pages, by tags; with `q` the best first."""
        query, caller = parsed(ToolsQuery, request), request[CALLER]
        catalog, grant = self._gateway.catalog, caller.context.grant
        about: dict[str, object] = {}
        async with caller.slot:
            if query.q:
                among = Among((grant,), partial(self._gateway.may_use, grant=grant))
                searched = await self._finder.search(query.q, query.tags, among)
                found, about = searched.tools, searched.about()
            else:
                found = catalog.select(**query.tags)
                found = [tool for tool in found if self._gateway.may_use(tool, grant)]
        end = query.cursor + query.limit
        page = {
            "total": len(found),
            "tools": [summarise(manifest) for manifest in found[query.cursor : end]],
            "next_cursor": str(end) if end < len(found) else None,
            **about,
        }
        return listing(request, page)

    @routed("GET", "/v1/tools/{name}", {JSON: ToolManifest}, errors=(ErrorCode.UNKNOWN_TOOL,))
    async def manifest(self, request: web.Request) -> web.StreamResponse:
        """All that is known about a tool, with a sample call."""
        name = request.match_info["name"]
        manifest = self._gateway.catalog.get(name)
        if manifest is None:
            return problem(request, unknown_tool(self._gateway.catalog, name))
        refusal = self._gateway.refusal(manifest, request[CALLER].context.grant)
        shapes = self._gateway.answers.shapes
        changes = await shapes.last_changes(name) if shapes else []
        about = {
            **describe(manifest, self._gateway.settings),
            "refused": refusal and refusal.message,
            "shape_changes": [change.to_dict() for change in changes],
        }
        return listing(request, about)

    @routed(
        "POST",
        "/v1/tools/{name}",
        {JSON: Answer, **TABLES},
        query=CallQuery,
        body={JSON: {"type": "object"}},
        errors=CALL_ERRORS,
        failure=Failure,
    )
    async def call(self, request: web.Request, name: str = "") -> web.StreamResponse:
        """Call a tool."""
        name, caller = name or request.match_info["name"], request[CALLER]
        context = caller.context
        form = table_form(request.headers.get(hdrs.ACCEPT, ""))
        if form is not None:
            context = replace(context, as_rows=True, max_tokens=None)  # the key's default
        try:
            text = await read_body(request)
            context = asked_for(request, CallQuery, context)[1]
            if form is not None and context.max_rows is None:
                context = context.asking(rows.MOST)
            async with caller.slot:
                result = await self._gateway.call(name, text, context)
                if result.view is not None and len(result.view.data) >= LONG:
                    connection_of(request).hold()
        except RequestRejected as refusal:
            result = await self._gateway.refuse(name, refusal.error, context)
        if form is not None and result.error is None:
            return await table_answer(request, result, form)
        return answer(request, result)

    @routed(
        "GET",
        "/v1/schemas/{format}",
        {JSON: {"type": "array", "items": {"type": "object"}}},
        query=SchemasQuery,
        errors=(ErrorCode.NOT_FOUND, ErrorCode.RATE_LIMITED),
    )
    async def schemas(self, request: web.Request) -> web.StreamResponse:
        """Tools as a model's interface takes them, in one of its formats."""
        query = parsed(SchemasQuery, request)
        format_ = _FORMATS.get(request.match_info["format"])
        if format_ is None:
            text = f"no such format of schemas; there are {', '.join(_FORMATS)}"
            return problem(request, CallError(ErrorCode.NOT_FOUND, text))
        caller = request[CALLER]
        tools = selection(self._gateway.catalog, query.tools)
        async with caller.slot:
            found = await self._selected(query.q, tools, query.limit, caller.context.grant)
            schemas = await self._exported(found, format_, query.strict, query.tags)
        return listing(request, b"[%b]" % b",".join(schemas))

    @routed(
        "GET",
        "/v1/results/{handle}",
        {JSON: ResultsPage, **TABLES},
        query=ResultsQuery,
        errors=(
            *(ErrorCode.FORBIDDEN, ErrorCode.INVALID_ARGUMENTS),
            *(ErrorCode.NOT_FOUND, ErrorCode.RATE_LIMITED),
        ),
    )
    async def results(self, request: web.Request) -> web.StreamResponse:
        """Rows of the whole table behind a shortened answer."""
        handle, caller = request.match_info["handle"], request[CALLER]
        query = parsed(ResultsQuery, request)
        async with caller.slot:
            page = await self._gateway.read_result(
                handle,
                query.offset,
                query.limit,
                query.columns,
                grant=caller.context.grant,
                where=query.where,
            )
        if isinstance(page, CallError):
            return problem(request, page)
        form = table_form(request.headers.get(hdrs.ACCEPT, ""))
        if form is not None:
            return await table_page(request, page, form, query.limit)
        # A handle names one answer, so the page, which may have megabytes, need not be hashed.
        version = orjson.dumps([handle, page.offset, query.limit, page.columns, query.where])
        return listing(request, page.to_json(), version, has_forms=True)

    async def _exported(
        self, tools: list[Manifest], format_: ExportFormat, strict: bool, tags: bool
    ) -> list[bytes]:
        """Return tools as JSON. Each is built once and cached: 0.6 KB for one, at most 8 MB."""
        made = self._exports.setdefault((format_, strict, tags), {})
        missing = [one for one in tools if one.name not in made or made[one.name][0] is not one]
        for number, tool in enumerate(missing, 1):
            made[tool.name] = tool, orjson.dumps(export(tool, format_, strict=strict, tags=tags))
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        return [made[tool.name][1] for tool in tools]

    async def _selected(
        self, q: str, tools: Selection, limit: int, grant: Grant | None
    ) -> list[Manifest]:
        """Return the selected tools that are available and that the grant allows."""
        catalog, may_use = self._gateway.catalog, self._gateway.may_use
        found = await self._finder.find(q, len(catalog)) if q else catalog
        chosen = [m for m in found if m in tools and m.unavailable is None and may_use(m, grant)]
        return chosen[:limit]


def selection(catalog: Catalog, text: str) -> Selection:
    """Parse the selection of tools in a request. Raises `BadRequest`."""
    try:
        return Selection.of(catalog, text)
    except SelectionError as error:
        raise BadRequest(str(error)) from None


def asked_for(
    request: web.BaseRequest, model: type[C], context: CallContext
) -> tuple[C | None, CallContext]:
    """Return the query of a request, None if it has none, and the context that it sets for its
    calls. Raises `BadRequest`.
    """
    headers = request.headers
    asked = headers.getall(hdrs.CACHE_CONTROL, None)
    traceparent = headers.get("traceparent")
    text = request.rel_url.raw_query_string
    if not text and asked is None and traceparent is None:
        return None, context
    query, context = _with_query(model, text, context)
    if asked is None and traceparent is None:
        return query, context
    try:
        cache = None if asked is None else CacheControl.parse(", ".join(asked))
    except CacheControlError as error:
        raise BadRequest(str(error)) from None
    return query, replace(context, cache=cache, traceparent=traceparent)


@lru_cache(256)
def _with_query(model: type[C], text: str, context: CallContext) -> tuple[C, CallContext]:
    """The query and the context that it makes of a caller's, which are often the same."""
    query = parsed_text(model, text)
    return query, query.of_call(context)
