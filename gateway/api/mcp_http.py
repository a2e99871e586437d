"""MCP over streamable HTTP, without sessions: one message in, one answer out.

An answer is JSON. If a call takes long and its client asked for progress, the answer is a stream of
events that ends with the result. A client cancels by closing the connection or, up to revision
2025-11-25, by a notification. Only for that notification does `initialize` give it a session id,
which no other client can guess. The POST of a cancelled request ends as a stream of events without
a result. A stream of changes lasts until its client closes it, or the gateway drains. Every
refusal, also one of the guard, is a JSON-RPC error, because clients show the message of such a body
and of no other.
"""

import asyncio
import base64
import binascii
import secrets
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import orjson
from aiohttp import hdrs, web
from multidict import CIMultiDictProxy
from pydantic import Field

from gateway.access.guard import NO_LIMITS, Caller
from gateway.access.rejection import BadRequest, RequestRejected
from gateway.api import mcp, mcp_errors
from gateway.api.mcp import Mcp, Request
from gateway.api.mcp_errors import McpError
from gateway.api.mcp_tools import CALL_TOOL, CALL_TOOL_NAMES, MAX_PAGE, OutputSchema, Visitor
from gateway.api.models import NOTHING, RpcAnswers, RpcError, RpcMessages, RpcProblem
from gateway.api.negotiation import takes_events, takes_json
from gateway.api.requests import read_body
from gateway.api.responses import (
    ReadyResponse,
    is_plain,
    own_headers,
    parsed_text,
    problem,
    whole_body,
)
from gateway.api.rest import CallQuery, selection
from gateway.api.route import CALLER, JSON, routed
from gateway.api.sending import LONG, connection_of, holder_of
from gateway.api.subscriptions import LISTEN
from gateway.api.tasks import Tasks
from gateway.call import Gateway
from gateway.errors import CallError, ErrorCode
from gateway.search.finder import ToolFinder
from manifests.common.json_text import AT_ONCE, read_json, read_json_aside

SEARCH = "search"

MAX_BATCH = 64
"""Messages in one array."""

MAX_ANSWERS = 8 * 2**20
"""Bytes of the answers to one array: each of its messages may ask for a list of all tools, 1 MB."""

MAX_REASON = 200
"""Characters of a reason phrase."""

WITH_ARRAYS = (None, *mcp.HANDSHAKE_REVISIONS[:2])
"""Revisions that allow an array of messages. A request that names none (None) is of the second."""

REVISION = "MCP-Protocol-Version"
SESSION = "Mcp-Session-Id"
METHOD = "Mcp-Method"
NAME = "Mcp-Name"

_NOT_STORED: dict[str, str] = {hdrs.CACHE_CONTROL: "no-store"}

_EVENT = b"event: message\ndata: %b\n\n"
_COMMENT = b":\n\n"
"""An event that clients ignore (HTML, 9.2.5)."""

ABOUT_TASKS = ("tasks/get", "tasks/update", "tasks/cancel")

Place = tuple[str, str, bytes]
"""The key of a call that a client may cancel: client, session, id of the request."""


class McpQuery(CallQuery):
    """Query of `POST /mcp`: the tools to offer, and options for all calls."""

    tools: str = Field(
        SEARCH,
        description="`search`, `execute` (the same with `call_tool` named `execute_tool`, for "
        "clients that reserve that name), `all`, or as in `domain:bond,fund;source:akshare`.",
    )
    page_size: int = Field(
        MAX_PAGE, ge=1, le=MAX_PAGE, description="Tools of a page of `tools/list`."
    )
    output_schema: OutputSchema = Field(
        "short",
        description="`outputSchema` of the tools in a list: what matters of it (`short`), all of "
        "it (`full`), or `none`; then results have no `structuredContent` either.",
    )


class McpHttp:
    """Request handler for MCP clients of one gateway."""

    def __init__(self, gateway: Gateway, finder: ToolFinder, tasks: Tasks) -> None:
        self._catalog = gateway.catalog
        self._mcp = Mcp(gateway, finder, tasks)
        self.give_notice, self.leave = self._mcp.give_notice, self._mcp.leave
        self._visitor_of = lru_cache(256)(self._visitor)
        self._under_way: dict[Place, asyncio.Future[Any]] = {}
        self._cancelled: set[Place] = set()

    @routed(
        "POST",
        "/mcp",
        {JSON: RpcAnswers, "text/event-stream": {"type": "string"}, NOTHING: {}},
        query=McpQuery,
        body={JSON: RpcMessages},
        errors=(ErrorCode.NOT_ACCEPTABLE, ErrorCode.NOT_FOUND, ErrorCode.TOO_LARGE),
        failure=RpcProblem,
        refusal=RpcError,
    )
    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Model Context Protocol, streamable HTTP."""
        if request.method != "POST":
            text = f"{request.method} is not served here; POST is"
            error = CallError(ErrorCode.METHOD_NOT_ALLOWED, text)
            return refused(request, error, {hdrs.ALLOW: "POST"})
        headers, caller = request.headers, request[CALLER]
        message, stateless, asked = None, False, None
        try:
            try:
                body = await read_body(request)
                message = read_json(body) if len(body) <= AT_ONCE else await read_json_aside(body)
            except orjson.JSONDecodeError as error:
                raise McpError(mcp_errors.PARSE_ERROR, f"the body is no JSON: {error}") from None
            text = request.rel_url.raw_query_string
            version = self._catalog.version
            visitor = self._visitor_of(text, caller, version) if text else Visitor(caller)
            if not takes_json(", ".join(headers.getall(hdrs.ACCEPT, ("*/*",)))):
                raise BadRequest("answers are application/json", ErrorCode.NOT_ACCEPTABLE)
            revision = headers.get(REVISION)
            stateless = revision in mcp.STATELESS_REVISIONS
            if revision is not None:
                mcp.check_revision(revision, mcp.REVISIONS)
            if isinstance(message, list) and revision in WITH_ARRAYS:
                return await self._each(request, message, visitor)
            asked = mcp.read(message)
            if asked is None:
                self._take_note(message, headers, caller)
                return web.Response(status=202)
            if stateless or asked.stateless:
                stateless = True
                _check_head(asked, headers)
                mcp.check_stateless(asked)
                if asked.method == LISTEN:
                    return await self._listen(request, asked, visitor)
            return await self._answer(request, asked, visitor)
        except McpError as fault:
            # Before revision 2026-07-28 the status says only whether a request was read.
            status = 404 if fault.code == mcp_errors.METHOD_NOT_FOUND else 400
            status = status if stateless or asked is None else 200
            return whole_body(request, (fault.response(mcp.id_of(message)),), status, {})
        except RequestRejected as refusal:
            return refused(request, refusal.error, id_=mcp.id_of(message))

    async def _answer(
        self, request: web.BaseRequest, asked: Request, visitor: Visitor
    ) -> web.StreamResponse:
        headers, own, place = request.headers, _NOT_STORED, None
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a handler runs in one
        if asked.method == "initialize" and not asked.stateless:
            own = {**own, SESSION: secrets.token_hex(16)}
        elif asked.method == "tools/call" and SESSION in headers:
            place = _place(headers, visitor.caller, asked.id)
            self._under_way[place] = task
        token = asked.progress_token if asked.meta else None
        try:
            if token is None or not takes_events(", ".join(headers.getall(hdrs.ACCEPT, ()))):
                text = await self._mcp.answer(asked, visitor)
            else:
                answering = asyncio.ensure_future(self._mcp.answer(asked, visitor))
                try:
                    await asyncio.wait({answering}, timeout=mcp.PROGRESS_S)
                    if not answering.done():
                        return await self._streamed(request, asked, place, answering)
                    text = answering.result()
                finally:
                    answering.cancel()
        except asyncio.CancelledError:
            if place not in self._cancelled:
                raise
            task.uncancel()
            return _unanswered(request)
        finally:
            if place is not None:
                self._under_way.pop(place, None)
                self._cancelled.discard(place)
        if len(text) >= LONG:
            connection_of(request).hold()
        if own is _NOT_STORED and is_plain(request, len(text)):
            return ReadyResponse((text,))
        return whole_body(request, (text,), 200, own)

    async def _streamed(
        self,
        request: web.BaseRequest,
        asked: Request,
        place: Place | None,
        answering: "asyncio.Future[bytes]",
    ) -> web.StreamResponse:
        """Send the progress of a call as events, then its answer unless it was cancelled."""
        response = await _begin_events(request)
        if place is not None:
            self._under_way[place] = answering  # cancel the call, not the stream
        async with aclosing(mcp.progress_while(answering, asked.progress_token)) as events:
            async for event in events:
                await response.write(_EVENT % event)
        if not answering.cancelled():
            try:
                text = answering.result()
            except McpError as fault:
                text = fault.response(asked.id)
            await response.write(_EVENT % text)
        connection_of(request).ping = None
        await response.write_eof()
        return response

    async def _listen(
        self, request: web.BaseRequest, asked: Request, visitor: Visitor
    ) -> web.StreamResponse:
        """Send a stream of changes as events."""
        if not takes_events(", ".join(request.headers.getall(hdrs.ACCEPT, ()))):
            text = f"the answer to {LISTEN} is text/event-stream, which Accept does not name"
            raise BadRequest(text, ErrorCode.NOT_ACCEPTABLE)
        connection = connection_of(request)
        messages = self._mcp.listen(asked, visitor, holder_of(connection))
        async with aclosing(messages):
            first = await anext(messages)
            response = await _begin_events(request)
            await response.write(_EVENT % first)
            async for message in messages:
                await response.write(_COMMENT if message is None else _EVENT % message)
        connection.ping = None
        await response.write_eof()
        return response

    async def _each(
        self, request: web.BaseRequest, messages: list[object], visitor: Visitor
    ) -> web.StreamResponse:
        """Answer an array of messages, each of which counts as if it came by itself."""
        if not 0 < len(messages) <= MAX_BATCH:
            raise McpError(mcp_errors.INVALID_REQUEST, f"an array holds 1 to {MAX_BATCH} messages")
        room = MAX_ANSWERS

        async def one(message: object) -> bytes | None:
            nonlocal room
            id_ = mcp.id_of(message)
            try:
                asked = mcp.read(message)
                if asked is None:
                    self._take_note(message, request.headers, visitor.caller)
                    return None
                if asked.stateless:
                    said = "a request of a revision without a handshake comes by itself"
                    raise McpError(mcp_errors.INVALID_REQUEST, said)
                is_counted = mcp.is_counted(asked, visitor)
                async with NO_LIMITS if is_counted else visitor.caller.slot:
                    text = await self._mcp.answer(asked, visitor)
            except McpError as fault:
                return fault.response(id_)
            except RequestRejected as refusal:
                return mcp_errors.refused(id_, refusal.error)
            if len(text) > room:
                said = f"the answers to an array are over {MAX_ANSWERS} bytes; send this by itself"
                return mcp_errors.refused(id_, CallError(ErrorCode.TOO_LARGE, said))
            room -= len(text)
            return text

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(message)) for message in messages]
        answers = [text for task in tasks if (text := task.result()) is not None]
        if not answers:
            return web.Response(status=202)
        return whole_body(request, (b"[%b]" % b",".join(answers),), 200, _NOT_STORED)

    def _take_note(self, message: object, headers: Mapping[str, str], caller: Caller) -> None:
        """Obey a notification that cancels a request; ignore all others."""
        id_ = mcp.cancelled_id(message)
        place = _place(headers, caller, id_ or b"")
        task = self._under_way.get(place)
        if task is not None:
            self._cancelled.add(place)
            task.cancel()

    def _visitor(self, text: str, caller: Caller, _version: int) -> Visitor:
        """Return the visitor that a query describes. Raises `BadRequest`."""
        query = parsed_text(McpQuery, text)
        name = CALL_TOOL_NAMES.get(query.tools)
        offer = selection(self._catalog, query.tools) if name is None else None
        caller = replace(caller, context=query.of_call(caller.context))
        return Visitor(caller, offer, query.page_size, query.output_schema, name or CALL_TOOL)


def refused(
    request: web.BaseRequest,
    error: CallError,
    headers: Mapping[str, str] | None = None,
    *,
    id_: bytes = b"null",
) -> web.StreamResponse:
    """Return the answer to a refused request; `id_` is null if its id was not read.

    The reason phrase holds the message too: clients of the official Python SDK 1 show only that.
    """
    response = problem(request, error, headers, said=mcp_errors.refused(id_, error))
    words = error.message.encode("ascii", "replace").decode()[:MAX_REASON]
    response.set_status(response.status, "".join(c if c.isprintable() else "?" for c in words))
    return response


async def _begin_events(request: web.BaseRequest) -> web.StreamResponse:
    """Begin a stream of events, which proxies are told not to hold back."""
    headers = {hdrs.CACHE_CONTROL: "no-store", "X-Accel-Buffering": "no", **own_headers()}
    response = web.StreamResponse(headers=headers)
    response.content_type = "text/event-stream"
    await response.prepare(request)
    connection_of(request).ping = partial(_write_comment, request)
    return response


def _write_comment(request: web.BaseRequest) -> None:
    """Write an event that clients ignore, as a chunk of the body (RFC 9112, 7.1)."""
    if request.transport is not None:
        request.transport.write(b"%x\r\n%b\r\n" % (len(_COMMENT), _COMMENT))


def _place(headers: Mapping[str, str], caller: Caller, id_: bytes) -> Place:
    return caller.context.client, headers.get(SESSION, ""), id_


def _unanswered(request: web.BaseRequest) -> web.Response:
    """Return the end of the POST of a cancelled request: an empty stream of events.

    Raises `McpError` for a client that accepts no events, because it must get an answer.
    """
    if not takes_events(", ".join(request.headers.getall(hdrs.ACCEPT, ()))):
        raise McpError(mcp_errors.INVALID_REQUEST, "the client cancelled this request")
    return web.Response(headers=_NOT_STORED, content_type="text/event-stream")


def _check_head(asked: Request, headers: CIMultiDictProxy[str]) -> None:
    """Raises `McpError` if the headers of a stateless request contradict its body."""
    said = {REVISION: asked.meta.get(mcp.REVISION_KEY), METHOD: asked.method}
    if asked.method == "tools/call":
        said[NAME] = asked.params.get("name")
    elif asked.method in ABOUT_TASKS:
        said[NAME] = asked.params.get("taskId")
    for header, value in said.items():
        given = headers.getall(header, [])
        if len(given) != 1 or _decoded(given[0]) != value:
            text = f"the {header} header does not say what the body says"
            raise McpError(mcp_errors.HEADER_MISMATCH, text)


def _decoded(value: str) -> str | None:
    """Decode a header's value. A value that no header can carry is sent as marked base64."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
