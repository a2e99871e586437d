"""Tables for people and their programs over HTTP: CSV or an Arrow stream instead of JSON.

The body holds rows only. The header `X-Finport-Envelope` holds the rest of the envelope as JSON in
ASCII. A page of a longer table names the next one in its `Link` header (RFC 8288).
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
from aiohttp import hdrs, web
from anyio import to_thread

from gateway import tables
from gateway.access.rejection import RequestRejected
from gateway.api.negotiation import quality
from gateway.api.responses import answer_headers, whole_body
from gateway.errors import CallError, ErrorCode
from gateway.result import Result
from gateway.rows import Page

CSV, ARROW = "text/csv", "application/vnd.apache.arrow.stream"

ENVELOPE = "X-Finport-Envelope"

ROWS_AT_ONCE = 100
"""More rows are written in a thread."""


@lru_cache(256)
def table_form(accept: str) -> str | None:
    """The form of a table that an Accept header prefers to JSON, or None."""
    json = quality(accept, "application/json") or 0
    weights = {form: quality(accept, form) or 0 for form in (ARROW, CSV)}
    best = max(weights, key=lambda form: weights[form])
    return best if weights[best] > 0 and weights[best] >= json else None


async def table_answer(request: web.BaseRequest, result: Result, form: str) -> web.Response:
    """A result's rows. Raises `RequestRejected` if it is no table, or if pyarrow is missing."""
    if result.columns is None:
        raise _not_acceptable("this answer is a document and has no rows: accept application/json")
    if result.is_shortened:
        raise _not_acceptable(
            "a shortened answer is a text: ask without max_tokens and max_chars, or accept "
            "application/json"
        )
    envelope = await to_thread.run_sync(orjson.loads, result.to_json())
    rows, columns = envelope.pop("data"), envelope.pop("columns")
    return await _written(request, rows, columns, form, envelope, answer_headers(result))


async def table_page(request: web.Request, page: Page, form: str, limit: int) -> web.Response:
    """The rows of a page. Raises `RequestRejected` if pyarrow is missing."""
    rows = await to_thread.run_sync(orjson.loads, page.data)
    said = {"handle": page.handle, "rows": page.rows, "matched": page.matched}
    headers: dict[str, str] = {hdrs.CACHE_CONTROL: "private, no-cache"}
    following = page.offset + len(rows)
    if following < (page.rows if page.matched is None else page.matched):
        query = {"offset": following, "limit": limit}
        headers[hdrs.LINK] = f'<{request.rel_url.update_query(query)}>; rel="next"'
    return await _written(
        request, rows, page.columns, form, {**said, "offset": page.offset}, headers
    )


async def _written(
    request: web.BaseRequest,
    rows: list[dict[str, Any]],
    columns: tuple[str, ...],
    form: str,
    envelope: Mapping[str, Any],
    headers: Mapping[str, str],
) -> web.Response:
    try:
        if len(rows) > ROWS_AT_ONCE or form == ARROW:
            body = await to_thread.run_sync(_body, rows, columns, form)
        else:
            body = _body(rows, columns, form)
    except ImportError as error:
        raise _not_acceptable(f"{ARROW}: {error}") from None
    said = json.dumps(envelope, separators=(",", ":"))
    vary: dict[str, str] = {hdrs.VARY: hdrs.ACCEPT}
    return whole_body(request, (body,), 200, {**headers, **vary, ENVELOPE: said}, form)


def _body(rows: list[dict[str, Any]], columns: tuple[str, ...], form: str) -> bytes:
    if form == ARROW:
        return tables.to_arrow_stream(rows, columns)
    return tables.to_csv(rows, columns).encode("utf-8", "replace")


def _not_acceptable(text: str) -> RequestRejected:
    return RequestRejected(CallError(ErrorCode.NOT_ACCEPTABLE, text))
