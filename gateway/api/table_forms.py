"""Tables for people and their programs over HTTP: CSV or an Arrow stream instead of JSON.

The body holds rows only. The header `X-Finport-Envelope` holds the rest of the envelope as JSON in
ASCII. A page of a longer table names the next one in its `Link` header (RFC 8288).
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import orjson
from aiohttp import hdrs, web

from cache.entry import pieces_of
from gateway.access.rejection import RequestRejected
from gateway.api.coding import compressor
from gateway.api.negotiation import quality
from gateway.api.responses import answer_headers, coding_of, own_headers, whole_body
from gateway.api.sending import connection_of
from gateway.errors import CallError, ErrorCode
from gateway.result import Result
from gateway.tables import conversion
from gateway.tables.rows import Page

CSV, ARROW = "text/csv", "application/vnd.apache.arrow.stream"

ENVELOPE = "X-Finport-Envelope"

CELLS_OF_PIECE = 2**15
"""Cells, rows times columns, that are written as CSV at a time: 20 ms of a thread."""


@lru_cache(256)
def table_form(accept: str) -> str | None:
    """The form of a table that an Accept header prefers to JSON, or None."""
    json = quality(accept, "application/json") or 0
    weights = {form: quality(accept, form) or 0 for form in (ARROW, CSV)}
    best = max(weights, key=lambda form: weights[form])
    return best if weights[best] > 0 and weights[best] >= json else None


async def table_answer(request: web.BaseRequest, result: Result, form: str) -> web.StreamResponse:
    """A result's rows. Raises `RequestRejected` if it is no table, or if pyarrow is missing."""
    if result.columns is None:
        raise _not_acceptable("this answer is a document and has no rows: accept application/json")
    if result.is_shortened:
        raise _not_acceptable(
            "a shortened answer is a text: ask without max_tokens and max_chars, or accept "
            "application/json"
        )
    head, data, rest = result.parts()
    envelope = orjson.loads(head + b"null" + rest)
    del envelope["data"], envelope["columns"]
    return await _written(request, data, result.columns, form, envelope, answer_headers(result))


async def table_page(request: web.Request, page: Page, form: str, limit: int) -> web.StreamResponse:
    """The rows of a page. Raises `RequestRejected` if pyarrow is missing."""
    said = {"handle": page.handle, "rows": page.rows, "matched": page.matched}
    headers: dict[str, str] = {hdrs.CACHE_CONTROL: "private, no-cache"}
    following = page.offset + limit
    if following < (page.rows if page.matched is None else page.matched):
        query = {"offset": following, "limit": limit}
        headers[hdrs.LINK] = f'<{request.rel_url.update_query(query)}>; rel="next"'
    said["offset"] = page.offset
    return await _written(request, page.data, page.columns, form, said, headers)


async def _written(
    request: web.BaseRequest,
    data: bytes,
    columns: tuple[str, ...],
    form: str,
    envelope: Mapping[str, Any],
    headers: Mapping[str, str],
) -> web.StreamResponse:
    said = json.dumps(envelope, separators=(",", ":"))
    headers = {**headers, hdrs.VARY: hdrs.ACCEPT, ENVELOPE: said}
    if form == CSV:
        return await _csv_in_pieces(request, data, columns, headers)
    try:
        connection = connection_of(request)
        body = await connection.outbox.made(connection, partial(_arrow, data, columns))
    except ImportError as error:
        raise _not_acceptable(f"{ARROW}: {error}") from None
    return whole_body(request, (body,), 200, headers, form)


async def _csv_in_pieces(
    request: web.BaseRequest, data: bytes, columns: tuple[str, ...], headers: Mapping[str, str]
) -> web.StreamResponse:
    """Write each piece of a table once the client has read the one before."""
    connection = connection_of(request)
    response = web.StreamResponse(headers={**headers, **own_headers()})
    response.content_type = CSV
    response.headers.add(hdrs.VARY, hdrs.ACCEPT_ENCODING)
    compress: Callable[[bytes], bytes] = bytes
    end: Callable[[], bytes] = bytes
    if (coding := coding_of(request, len(data))) is not None:
        response.headers[hdrs.CONTENT_ENCODING] = coding
        compress, end = compressor(coding)
    connection.hold()
    await response.prepare(request)
    if request.method == hdrs.METH_HEAD:
        return response
    cells = (data.count(b"\n") + 1) * len(columns)
    size = len(data) * CELLS_OF_PIECE // max(cells, CELLS_OF_PIECE)
    with connection.outbox.waiting(connection, (data,)):
        for n, piece in enumerate(pieces_of(data, size)):
            make = partial(_csv, piece, columns, compress, with_head=n == 0)
            await response.write(await connection.outbox.made(connection, make))
        await response.write_eof(end())
    return response


def _csv(
    data: bytes, columns: tuple[str, ...], compress: Callable[[bytes], bytes], *, with_head: bool
) -> bytes:
    text = conversion.to_csv(orjson.loads(data), columns, with_head=with_head)
    return compress(text.encode("utf-8", "replace"))


def _arrow(data: bytes, columns: tuple[str, ...]) -> bytes:
    return conversion.to_arrow_stream(orjson.loads(data), columns)


def _not_acceptable(text: str) -> RequestRejected:
    return RequestRejected(CallError(ErrorCode.NOT_ACCEPTABLE, text))
