"""Writes results, errors and other values as HTTP responses.

Every body is JSON. The headers of RFC 9111 on an answer to a call state its age and for how long it
is fresh, or that nobody may store it. A transient error says when to retry. Most cached answers are
sent as ready bytes, head and body in one write, because aiohttp's own response costs a third of a
cached call.
"""

import math
import time
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TypeVar
from urllib.parse import parse_qsl

import orjson
from aiohttp import HttpVersion11, hdrs, web
from multidict import CIMultiDict
from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.access.rejection import BadRequest
from gateway.api.coding import COMPRESS_FROM, CodedResponse, coding_for
from gateway.api.sending import LONG, connection_of, send
from gateway.errors import CallError
from gateway.result import Result
from gateway.telemetry.logs import REQUEST_ID as LOGGED_ID
from manifests.common.nearest import not_among
from manifests.common.problem import first_problem

YEAR_S = 31_536_000

REQUEST_ID = "X-Request-Id"


def own_headers() -> dict[str, str]:
    """Return the headers of every answer that is not sent as ready bytes."""
    return {
        REQUEST_ID: LOGGED_ID.get(),
        hdrs.SERVER: "finport",
        "X-Content-Type-Options": "nosniff",
    }


class Query(BaseModel):
    """The query of a route; names that the model does not have are refused."""

    model_config = ConfigDict(extra="forbid")


Q = TypeVar("Q", bound=Query)


def parsed(model: type[Q], request: web.BaseRequest) -> Q:
    """Validate the query of a request. Raises `BadRequest`."""
    return parsed_text(model, request.rel_url.raw_query_string)


def parsed_text(model: type[Q], text: str) -> Q:
    """Validate a query as it was sent. Raises `BadRequest`."""
    pairs = parse_qsl(text, keep_blank_values=True)
    query = dict(pairs)
    if len(pairs) > len(query):
        raise BadRequest("query: a name may stand in it once")
    try:
        return model.model_validate(query)
    except ValidationError as error:
        unknown = next((name for name in query if name not in model.model_fields), None)
        if unknown is None:
            raise BadRequest(f"query {first_problem(error)}") from None
        raise BadRequest(f"query has no {not_among(unknown, model.model_fields)}") from None


_HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nDate: %s\r\n"
    "Server: finport\r\nX-Request-Id: %s\r\n%s\r\n"
)
_NOT_KEPT = "Cache-Control: no-store\r\n"
_KEPT = "Cache-Control: %s\r\nAge: %d\r\nETag: %s\r\nVary: Accept, Accept-Encoding\r\n"

_date = lru_cache(2)(partial(formatdate, usegmt=True))
"""The Date header of a second."""


class ReadyResponse(web.StreamResponse):
    """JSON text in `parts` as a whole answer in bytes, for requests that are plain (`is_plain`).

    What aiohttp keeps of other answers is left out: it is never read of this one.
    """

    _status = 200
    _keep_alive = True

    def __init__(self, parts: Sequence[bytes], headers: str = _NOT_KEPT) -> None:
        size = sum(map(len, parts))
        head = _HEAD % (size, _date(int(time.time())), LOGGED_ID.get(), headers)
        self._message = head.encode("latin-1")
        self._parts = parts
        self._is_long = size >= LONG

    async def prepare(self, request: web.BaseRequest) -> None:
        transport, message = request.transport, self._message
        if transport is None:
            raise ConnectionResetError("the client went away")
        if not self._keep_alive:
            message = message.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        if self._is_long:
            transport.write(message)
            self._body_length = len(message) + sum(map(len, self._parts))
            await send(request, self._parts)
        else:
            message = b"".join((message, *self._parts))
            self._body_length = len(message)
            transport.write(message)
        if transport.get_write_buffer_size():
            await request.writer.drain()
        self._eof_sent = True


def is_plain(request: web.BaseRequest, size: int) -> bool:
    """Whether a request can be answered with ready bytes if the body has that size."""
    headers = request.headers
    if not request.keep_alive or request.version != HttpVersion11 or hdrs.ORIGIN in headers:
        return False
    if hdrs.ACCEPT_ENCODING not in headers:
        return True
    accepted = ", ".join(headers.getall(hdrs.ACCEPT_ENCODING, ()))
    return coding_for(accepted, is_long=size >= COMPRESS_FROM) is None


def coding_of(request: web.BaseRequest, size: int) -> str | None:
    """The coding of a body of that size, None if it is sent as it is."""
    if hdrs.ACCEPT_ENCODING not in request.headers:
        return None
    accepted = ", ".join(request.headers.getall(hdrs.ACCEPT_ENCODING))
    return coding_for(accepted, is_long=size >= COMPRESS_FROM)


def answer(request: web.BaseRequest, result: Result) -> web.StreamResponse:
    """Return the envelope of a result, with the status of its error if it has one."""
    view = result.view
    if result.error is None and view is not None and is_plain(request, len(view.data)):
        headers = _KEPT % _freshness(result) if result.fresh_s > 0 else _NOT_KEPT
        return ReadyResponse(result.parts(), headers)
    status = 200 if result.error is None else result.error.code.http_status
    head = answer_headers(result)
    head[hdrs.VARY] = hdrs.ACCEPT
    return whole_body(request, result.parts(), status, head)


def answer_headers(result: Result) -> CIMultiDict[str]:
    """How long an answer is fresh, or when to ask again."""
    head: CIMultiDict[str] = CIMultiDict()
    if result.error is not None:
        _say_when(head, result.error)
    if result.error is not None or result.fresh_s <= 0:
        head[hdrs.CACHE_CONTROL] = "no-store"
    else:
        head[hdrs.CACHE_CONTROL], age_s, head[hdrs.ETAG] = _freshness(result)
        head[hdrs.AGE] = str(age_s)
    return head


def problem(
    request: web.BaseRequest,
    error: CallError,
    headers: Mapping[str, str] | None = None,
    *,
    said: bytes | None = None,
) -> web.StreamResponse:
    """Return an error that belongs to no call. `said` is the body of an interface that has its own
    form of errors.
    """
    head = CIMultiDict(headers or {})
    _say_when(head, error)
    head[hdrs.CACHE_CONTROL] = "no-store"
    if said is None:
        said = orjson.dumps({"ok": False, "error": error.to_dict()})
    return whole_body(request, (said,), error.code.http_status, head)


def listing(
    request: web.BaseRequest,
    value: object,
    version: bytes | None = None,
    *,
    has_forms: bool = False,
) -> web.StreamResponse:
    """Return a value that changes only with its version: a conditional GET is answered with 304.
    The text itself is the version unless `version` is given. `has_forms` says that the Accept
    header may ask for another form.
    """
    text = value if isinstance(value, bytes) else orjson.dumps(value)
    tag = f'"{blake2b(text if version is None else version, digest_size=8).hexdigest()}"'
    headers = CIMultiDict({hdrs.ETAG: tag, hdrs.CACHE_CONTROL: "private, no-cache"})
    if has_forms:
        headers[hdrs.VARY] = hdrs.ACCEPT
    asked = request.headers.get(hdrs.IF_NONE_MATCH, "")
    if request.method in ("GET", "HEAD") and tag in (t.strip() for t in asked.split(",")):
        headers.add(hdrs.VARY, hdrs.ACCEPT_ENCODING)
        return web.Response(status=304, headers=headers)
    return whole_body(request, (text,), 200, headers)


def json(request: web.BaseRequest, value: object, status: int = 200) -> web.StreamResponse:
    """Return a value that may not be stored."""
    return whole_body(request, (orjson.dumps(value),), status, {"Cache-Control": "no-store"})


def whole_body(
    request: web.BaseRequest,
    parts: Sequence[bytes],
    status: int,
    headers: Mapping[str, str],
    content_type: str = "application/json",
) -> web.StreamResponse:
    """Return a body, compressed if it is long and the client accepts that."""
    size = sum(map(len, parts))
    if size >= LONG:
        connection_of(request).hold()
    response = CodedResponse(
        parts,
        status=status,
        headers=headers,
        content_type=content_type,
        coding=coding_of(request, size),
    )
    response.headers.add(hdrs.VARY, hdrs.ACCEPT_ENCODING)
    return response


def _say_when(headers: CIMultiDict[str], error: CallError) -> None:
    if error.retry_after_s is not None:
        headers[hdrs.RETRY_AFTER] = str(math.ceil(error.retry_after_s))


def _freshness(result: Result) -> tuple[str, int, str]:
    """What Cache-Control, Age and ETag say of an answer that is fresh for some time."""
    view, digest = result.view, (result.digest or "")[:16]
    shown = f"-{view.offset}-{len(view.data)}" if view is not None and view.truncated else ""
    fresh = f"private, max-age={int(min(result.fresh_s, YEAR_S))}"
    return fresh, int(result.age_s), f'W/"{digest}{shown}"'
