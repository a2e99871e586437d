"""The Model Context Protocol, independent of its transports: one message in, one message out.

Two groups of revisions are supported. Up to revision 2025-11-25 a client starts with a handshake;
no state of it is stored here, so any process can answer any message. From 2026-07-28 on each
request names its revision in `_meta`. A failed tool gives a result marked `isError`, which the
model can read. An invalid request of the protocol gets a JSON-RPC error.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from gateway.access.clients import Client
from gateway.access.guard import Caller
from gateway.access.rejection import RequestRejected
from gateway.api.budget import with_budget_in_meta
from gateway.api.mcp_tools import (
    DEFAULT_LISTING,
    CursorError,
    Listing,
    McpTools,
    UnknownToolError,
    text_only,
)
from gateway.api.requests import is_id
from gateway.call import Gateway
from gateway.errors import CallError, ErrorCode
from gateway.search.finder import ToolFinder
from manifests import Selection
from manifests.common.json_text import Repeating

HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_REVISIONS = ("2026-07-28",)
REVISIONS = (*HANDSHAKE_REVISIONS, *STATELESS_REVISIONS)

REVISION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
REFUSED = -32010
"""Code of requests that the gateway refuses before the protocol applies; `data` has the details.

A server may choose codes up to -32019. Clients use -32000 and -32001 for a lost connection and a
missing answer. Earlier texts of the protocol gave a meaning to -32002 to -32004.
"""

HEADER_MISMATCH = -32020
UNSUPPORTED_REVISION = -32022

SERVER = {"name": "finport", "title": "Finport", "version": version("finport")}
"""The server's name, title and version, short enough to go into each answer."""

_ICON = base64.b64encode((Path(__file__).parent / "static" / "favicon.svg").read_bytes()).decode()
_ICONS = [
    {"src": f"data:image/svg+xml;base64,{_ICON}", "mimeType": "image/svg+xml", "sizes": ["any"]}
]

CAPABILITIES = {"tools": {"listChanged": False}}
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

_WAITING = "waiting for the tool's answer"

TOOLS_STAY_MS = 300_000
"""Milliseconds for which a client may cache a list of tools."""


class McpError(Exception):
    """A JSON-RPC error: `code`, a message, and `data` where the code requires it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


@dataclass(frozen=True, slots=True)
class Visitor:
    """A client that sends messages, and its `offer`: a selection of tools, or None for the three.

    `website` is the address at which the client reaches the gateway's page.
    """

    caller: Caller
    offer: Selection | None = None
    listing: Listing = DEFAULT_LISTING
    website: str | None = None


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

    def __init__(self, gateway: Gateway, finder: ToolFinder) -> None:
        self._tools = McpTools(gateway, finder)

    async def answer(self, request: Request, visitor: Visitor) -> bytes:
        """Return the response to a request. Raises `McpError`, and `RequestRejected` for a list of
        tools for which the client's limits leave no room.
        """
        if request.method == "tools/call":
            result = await self._call(request, visitor)
        else:
            result = await self._result(request, visitor)
        if request.stateless and request.method != "server/discover":
            result = result[:-1] + (_STATELESS_END if len(result) > 2 else _STATELESS_END[1:])
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
            with visitor.caller.slot:
                result = await self._tools.call(visitor.offer, name, arguments, context)
        except UnknownToolError as unknown:
            near = {"nearest": unknown.nearest} if unknown.nearest else None
            raise McpError(INVALID_PARAMS, str(unknown), near) from None
        except RequestRejected as refusal:
            result = await self._tools.refuse(
                visitor.offer, name, arguments, refusal.error, context
            )
        return text_only(result) if visitor.listing.output_schema == "none" else result

    async def _result(self, request: Request, visitor: Visitor) -> bytes:
        """Return the result of a request that calls no tool."""
        match request.method:
            case "tools/list" if is_counted(request, visitor):
                async with _turn(visitor.caller.client):
                    return await self._list(request, visitor)
            case "tools/list":
                return await self._list(request, visitor)
            case "server/discover" if request.stateless:
                return _discovered(visitor.website)
            case "initialize" if not request.stateless:
                return _initialized(request.params, visitor.website)
            case "ping" if not request.stateless:
                return b"{}"
        raise McpError(METHOD_NOT_FOUND, f"no method is named {request.method[:64]!r}")

    async def _list(self, request: Request, visitor: Visitor) -> bytes:
        cursor = request.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise McpError(INVALID_PARAMS, "cursor is a text")
        try:
            tools, next_ = await self._tools.page(
                visitor.offer, visitor.listing, visitor.caller.context.grant, cursor
            )
        except CursorError:
            raise McpError(INVALID_PARAMS, "no page begins at this cursor") from None
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


def error(id_: bytes, fault: McpError) -> bytes:
    """Return an error as a response."""
    said: dict[str, object] = {"code": fault.code, "message": str(fault)}
    if fault.data is not None:
        said["data"] = fault.data
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_, orjson.dumps(said))


def refused(id_: bytes, why: CallError) -> bytes:
    """Return the response to a message that was refused before it was read as a request."""
    return error(id_, McpError(REFUSED, why.message, why.to_dict()))


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
        params = {"progressToken": token, "progress": waited_s, "message": _WAITING}
        yield orjson.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await asyncio.wait({answering}, timeout=PROGRESS_S)
        waited_s += PROGRESS_S


def _initialized(params: Mapping[str, Any], website: str | None) -> bytes:
    asked = params.get("protocolVersion")
    if not isinstance(asked, str):
        raise McpError(INVALID_PARAMS, "initialize takes a protocolVersion")
    return _result(
        protocolVersion=asked if asked in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1],
        capabilities=CAPABILITIES,
        serverInfo=_server(website),
        instructions=INSTRUCTIONS,
    )


def _discovered(website: str | None) -> bytes:
    return _result(
        supportedVersions=REVISIONS,
        capabilities=CAPABILITIES,
        instructions=INSTRUCTIONS,
        ttlMs=TOOLS_STAY_MS,
        cacheScope="private",
        resultType="complete",
        _meta={SERVER_KEY: _server(website)},
    )


def _server(website: str | None) -> dict[str, object]:
    """Return all that a client can show of the server."""
    known = {"websiteUrl": website} if website else {}
    return {**SERVER, **known, "icons": _ICONS}


def _result(**fields: object) -> bytes:
    return orjson.dumps(fields)


_STATELESS_END = b"," + _result(resultType="complete", _meta={SERVER_KEY: SERVER})[1:]
