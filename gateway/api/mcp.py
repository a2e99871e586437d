"""The Model Context Protocol, independent of its transports: one message in, one message out.

Two groups of revisions are supported. Up to revision 2025-11-25 a client starts with a handshake;
no state of it is stored here, so any process can answer any message. From 2026-07-28 on each
request names its revision in `_meta`. A failed tool gives a result marked `isError`, which the
model can read. An invalid request of the protocol gets a JSON-RPC error.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import orjson

from gateway.access.clients import Client
from gateway.access.rejection import RequestRejected
from gateway.api import tasks
from gateway.api.budget import with_budget_in_meta
from gateway.api.mcp_errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_REVISION,
    McpError,
)
from gateway.api.mcp_tools import McpTools, Visitor, text_only
from gateway.api.requests import is_id
from gateway.api.subscriptions import Subscriptions
from gateway.api.tasks import EXTENSION, Tasks, check_takes_tasks, takes_tasks
from gateway.call import Gateway
from gateway.errors import CallError, ErrorCode
from gateway.pipeline.bind import printable
from gateway.search.finder import ToolFinder
from manifests.common.json_text import Repeating

HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_REVISIONS = ("2026-07-28",)
REVISIONS = (*HANDSHAKE_REVISIONS, *STATELESS_REVISIONS)

REVISION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

SERVER = {"name": "finport", "title": "Finport", "version": version("finport")}
"""The server's name, title and version, short enough to go into each answer."""

INSTRUCTIONS = (
    "Finance tools behind one gateway. Every answer says where it came from and how old it is; "
    "every error says whose fault it is and whether to try again. Where search_tools, "
    "describe_tool and call_tool are offered: find a tool, read what it takes, call it. "
    "A long table is cut; shown says which rows are left, and read_result returns the others."
)

TURN_S = 10.0
"""Seconds that a list of tools waits for the client's limits: some clients make a list after their
first call, and give up if it is refused.
"""

PROGRESS_S = 1.0
"""Seconds after which a call counts as long, and seconds between two of its notifications."""

TOOLS_STAY_MS = 300_000
"""Milliseconds for which a client may cache a list of tools."""


@dataclass(slots=True)
class Request:
    """One request. `id` is JSON, `meta` its `_meta`; `stateless` says whether its revision has no
    handshake.
    """

    id: bytes
    method: str
    params: Mapping[str, Any]
    meta: Mapping[str, Any]
    stateless: bool

    @property
    def progress_token(self) -> str | float | None:
        token = self.meta.get("progressToken")
        return token if is_id(token) else None


class Mcp:
    """Answers the requests of MCP clients to one gateway."""

    def __init__(
        self, gateway: Gateway, finder: ToolFinder, held: Tasks, *, announces: bool = False
    ) -> None:
        """`announces` says whether clients with a handshake are told of changed lists."""
        self._tools = McpTools(gateway, finder)
        self._tasks = held
        self._announces = announces
        self.subscriptions = Subscriptions(gateway.catalog, self._tools, held)

    def give_notice(self) -> None:
        """Begin nothing that would outlast its request."""
        self._tasks.give_notice()

    def leave(self) -> None:
        """End tasks and streams: the gateway is about to end."""
        self._tasks.end()
        self.subscriptions.end()

    def listen(
        self, request: Request, visitor: Visitor, holder: str
    ) -> AsyncGenerator[bytes | None]:
        """Yield the messages that answer `subscriptions/listen`; None keeps the stream alive.

        Raises `McpError` and `RequestRejected` before the first one.
        """
        given = request.params, request.meta.get(CAPABILITIES_KEY)
        return self.subscriptions.listen(request.id, *given, visitor, holder, _SERVER_META)

    async def answer(self, request: Request, visitor: Visitor) -> bytes:
        """Return the response to a request. Raises `McpError`, and `RequestRejected` for a list of
        tools for which the client's limits leave no room.
        """
        if request.method == "tools/call":
            if request.stateless and takes_tasks(request.meta.get(CAPABILITIES_KEY)):
                result = await self._call_or_task(request, visitor)
                return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request.id, result)
            result = await self._call(request, visitor)
        else:
            result = await self._result(request, visitor)
        if request.stateless and request.method != "server/discover":
            result = _completed(result)
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request.id, result)

    async def _call(self, request: Request, visitor: Visitor) -> bytes:
        """Return the result of `tools/call`."""
        params, meta, context = request.params, request.meta, visitor.caller.context
        if isinstance(params, Repeating):
            raise McpError(INVALID_PARAMS, f"{params.repeated[0][:64]} is given more than once")
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            raise McpError(INVALID_PARAMS, "tools/call takes a name and an object of arguments")
        if meta and isinstance(parent := meta.get("traceparent"), str):
            context = context.within(parent)
        arguments = arguments or {}
        try:
            if meta:
                context = with_budget_in_meta(context, meta)
            async with visitor.caller.slot:
                result = await self._tools.call(visitor, name, arguments, context)
        except RequestRejected as refusal:
            result = await self._tools.refuse(visitor, name, arguments, refusal.error, context)
        return text_only(result) if visitor.output_schema == "none" else result

    async def _call_or_task(self, request: Request, visitor: Visitor) -> bytes:
        """Return the result of `tools/call`, or a task if it takes over `tasks.TASK_S`."""

        async def call() -> bytes:
            return _completed(await self._call(request, visitor))

        calling, name = asyncio.ensure_future(call()), request.params.get("name")
        task = None
        try:
            await asyncio.wait({calling}, timeout=tasks.TASK_S)
            if not calling.done():
                owner = visitor.caller.context.client
                task = self._tasks.begin(calling, owner, printable(str(name)))
            if task is not None:
                return b"{%b,%b" % (task.members, _TASK_END)
            return await calling
        finally:
            if task is None:
                calling.cancel()

    async def _result(self, request: Request, visitor: Visitor) -> bytes:
        """Return the result of a request that calls no tool."""
        match request.method:
            case "tools/list" if is_counted(request, visitor):
                async with _turn(visitor.caller.client):
                    return await self._list(request, visitor)
            case "tools/list":
                return await self._list(request, visitor)
            case "tasks/get" | "tasks/update" | "tasks/cancel" if request.stateless:
                check_takes_tasks(request.meta.get(CAPABILITIES_KEY))
                owner = visitor.caller.context.client
                return await self._tasks.handle(request.method, request.params, owner)
            case "server/discover" if request.stateless:
                return _DISCOVERED
            case "initialize" if not request.stateless:
                return _initialized(request.params, announces=self._announces)
            case "ping" if not request.stateless:
                return b"{}"
        raise McpError(METHOD_NOT_FOUND, f"no method is named {request.method[:64]!r}")

    async def _list(self, request: Request, visitor: Visitor) -> bytes:
        cursor = request.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise McpError(INVALID_PARAMS, "cursor is a text")
        tools, next_ = await self._tools.page(visitor, cursor)
        more = b"" if next_ is None else b',"nextCursor":"%b"' % next_.encode()
        stay = b',"ttlMs":%d,"cacheScope":"private"' % TOOLS_STAY_MS if request.stateless else b""
        return b'{"tools":%b%b%b}' % (tools, more, stay)


def id_of(message: object) -> bytes:
    """Return, as JSON, the id for the answer to a message: null if the message has no valid id."""
    id_ = message.get("id") if isinstance(message, dict) else None
    return orjson.dumps(id_) if is_id(id_) else b"null"


def read(message: object) -> Request | None:
    """Read a JSON value as a request; None if it needs no answer. Raises `McpError`."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise McpError(INVALID_REQUEST, "a message is a JSON-RPC 2.0 object")
    if isinstance(message, Repeating):
        raise McpError(INVALID_REQUEST, f"{message.repeated[0][:64]} is given more than once")
    method, params = message.get("method"), message.get("params", {})
    if method is None and message.keys() & {"result", "error"}:
        return None  # a response to a request that the gateway never sent
    if not isinstance(method, str):
        raise McpError(INVALID_REQUEST, "a request names its method")
    if "id" not in message:
        return None
    id_ = message["id"]
    if type(id_) is not int and not is_id(id_):
        raise McpError(INVALID_REQUEST, "an id is a text or a whole number")
    if not isinstance(params, dict):
        raise McpError(INVALID_PARAMS, "params is an object")
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        meta = {}
    return Request(orjson.dumps(id_), method, params, meta, meta.get(REVISION_KEY) is not None)


def check_stateless(request: Request) -> None:
    """Raises `McpError` unless the request names a stateless revision that is supported."""
    missing = [k for k in (REVISION_KEY, CAPABILITIES_KEY) if k not in request.meta]
    if missing:
        raise McpError(INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}")
    revision = request.meta[REVISION_KEY]
    if not isinstance(revision, str):
        raise McpError(INVALID_PARAMS, f"{REVISION_KEY} is a text")
    check_revision(revision, STATELESS_REVISIONS)


def check_revision(revision: str, spoken: tuple[str, ...]) -> None:
    """Raises `McpError` if `revision` is not in `spoken`."""
    if revision not in spoken:
        data = {"supported": spoken, "requested": revision[:64]}
        raise McpError(UNSUPPORTED_REVISION, "Unsupported protocol version", data)


def cancelled_id(message: object) -> bytes | None:
    """Return, as JSON, the id of the request that a message cancels; None if it cancels none."""
    match message:
        case {"method": "notifications/cancelled", "params": {"requestId": id_}} if is_id(id_):
            return orjson.dumps(id_)
    return None


def is_counted(asked: Request, visitor: Visitor) -> bool:
    """Whether a request that came by itself counts against the client's limits: a call, and a list
    of selected tools, which may have a megabyte.
    """
    return asked.method == "tools/call" or (
        asked.method == "tools/list" and visitor.offer is not None
    )


@asynccontextmanager
async def _turn(client: Client | None) -> AsyncIterator[None]:
    """Context of a list of tools, which first waits for a slot. Raises `RequestRejected`."""
    if client is None:
        yield
        return
    try:
        async with asyncio.timeout(TURN_S):
            await client.wait_for_slot()
    except TimeoutError:
        text = f"this client's limits left no room for a list of tools within {TURN_S:g} s"
        raise RequestRejected(CallError(ErrorCode.RATE_LIMITED, text, TURN_S)) from None
    try:
        yield
    finally:
        client.end()


async def progress_while(
    answering: "asyncio.Future[bytes]", token: str | float | None
) -> AsyncGenerator[bytes]:
    """Yield a notification every `PROGRESS_S` until a request is answered.

    The request has already taken `PROGRESS_S`.
    """
    waited_s = PROGRESS_S
    while not answering.done():
        said = "waiting for the tool's answer"
        params = {"progressToken": token, "progress": waited_s, "message": said}
        yield orjson.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await asyncio.wait({answering}, timeout=PROGRESS_S)
        waited_s += PROGRESS_S


def _initialized(params: Mapping[str, Any], *, announces: bool) -> bytes:
    asked = params.get("protocolVersion")
    if not isinstance(asked, str):
        raise McpError(INVALID_PARAMS, "initialize takes a protocolVersion")
    return _result(
        protocolVersion=asked if asked in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1],
        capabilities={"tools": {"listChanged": announces}},
        serverInfo=SERVER,
        instructions=INSTRUCTIONS,
    )


def _result(**fields: object) -> bytes:
    return orjson.dumps(fields)


def _completed(result: bytes) -> bytes:
    """Return a result as stateless revisions want it."""
    return result[:-1] + (_STATELESS_END if len(result) > 2 else _STATELESS_END[1:])


_DISCOVERED = _result(
    supportedVersions=REVISIONS,
    capabilities={"tools": {"listChanged": True}, "extensions": {EXTENSION: {}}},
    instructions=INSTRUCTIONS,
    ttlMs=TOOLS_STAY_MS,
    cacheScope="private",
    resultType="complete",
    _meta={SERVER_KEY: SERVER},
)

_STATELESS_END = b"," + _result(resultType="complete", _meta={SERVER_KEY: SERVER})[1:]
_TASK_END = _result(resultType="task", _meta={SERVER_KEY: SERVER})[1:]
_SERVER_META = _result(**{SERVER_KEY: SERVER})[1:-1]
