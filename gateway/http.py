"""The REST door, on aiohttp: thin over `Gateway.call`, with no logic of its own.

Every answer to a request that HTTP can read is JSON, errors too; a call that fails before it can be
made is recorded all the same.
Bodies are bounded, and a client that goes away cancels what only it wanted.
"""

import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import orjson
from aiohttp import web
from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cache import CacheControl, CacheControlError
from gateway.call import Gateway
from gateway.context import CLIENT, DEFAULT_CONTEXT, CallContext
from gateway.describe import describe, summarise
from gateway.errors import CallError, ErrorCode
from gateway.finder import ToolFinder
from gateway.result import Result
from gateway.vitals import Vitals
from manifests import Domain, Intent, Source, Timeliness

MAX_BODY = 2**20

MAX_CLIENT = 64

PAGED_AT_ONCE = 5_000
"""Rows that are counted off on the event loop (0.1 ms a thousand); more are in a thread."""


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


Q = TypeVar("Q", bound=_Query)


class ToolsQuery(_Query):
    """Query of `GET /v1/tools`. `cursor` continues a listing where its `next_cursor` said."""

    q: str = ""
    source: Source | None = None
    domain: Domain | None = None
    timeliness: Timeliness | None = None
    intent: Intent | None = None
    limit: int = Field(100, ge=1, le=1000)
    cursor: int = Field(0, ge=0)


class ResultsQuery(_Query):
    """Query of `GET /v1/results/{handle}`: which rows."""

    offset: int = Field(0, ge=0)
    limit: int = Field(100, ge=1, le=10_000)


class CallQuery(_Query):
    """Query of `POST /v1/tools/{name}`: what the caller asks for beside the answer."""

    max_rows: int | None = Field(None, ge=1)
    timeout_s: float | None = Field(None, gt=0)


class Door:
    """Request handlers over one gateway."""

    def __init__(self, gateway: Gateway, vitals: Vitals) -> None:
        self._gateway = gateway
        self._finder = ToolFinder.of(gateway.catalog, gateway.settings)
        self._vitals = vitals
        self._started = time.monotonic()

    def application(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/v1/tools/{name}", self.tool)
        app.router.add_get("/v1/tools", self.tools)
        app.router.add_get("/v1/results/{handle}", self.results)
        app.router.add_get("/healthz", self.health)
        app.router.add_route("*", "/{path:.*}", self.nowhere)
        return app

    async def tool(self, request: web.Request) -> web.Response:
        """POST calls the tool, GET shows its manifest."""
        name = request.match_info["name"]
        if request.method == "POST":
            return await self._call(request, name)
        if request.method in ("GET", "HEAD"):
            manifest = self._gateway.catalog.get(name)
            if manifest is not None:
                return _json(describe(manifest))
            return _answer(await self._gateway.call(name, {}))
        text = f"{request.method} is not served here; POST calls the tool, GET shows its manifest"
        result = await self._gateway.refuse(name, CallError(ErrorCode.METHOD_NOT_ALLOWED, text))
        return _answer(result, {"Allow": "GET, HEAD, POST"})

    async def _call(self, request: web.Request, name: str) -> web.Response:
        try:
            body = await request.read()
            context = DEFAULT_CONTEXT
            asked = request.headers.getall("Cache-Control", None)
            client = request.headers.get(CLIENT, "")
            if request.query_string or asked is not None or client:
                query = _parsed(CallQuery, request.query)
                cache = _cache_control(asked)
                context = CallContext(query.timeout_s, query.max_rows, cache, client[:MAX_CLIENT])
        except web.HTTPRequestEntityTooLarge:
            text = f"the body is over {MAX_BODY} bytes"
            refused = CallError(ErrorCode.TOO_LARGE, text)
            return _answer(await self._gateway.refuse(name, refused), {"Connection": "close"})
        except web.RequestPayloadError:
            refused = CallError(ErrorCode.INVALID_REQUEST, "the body can't be decoded")
            return _answer(await self._gateway.refuse(name, refused))
        except _Refused as refusal:
            return _answer(await self._gateway.refuse(name, refusal.error))
        return _answer(await self._gateway.call(name, body, context))

    async def tools(self, request: web.Request) -> web.Response:
        """The catalogue by tags, in pages; with `q` the best matches first."""
        try:
            query = _parsed(ToolsQuery, request.query)
        except _Refused as refusal:
            return _problem(refusal.error)
        catalog = self._gateway.catalog
        tags = query.model_dump(include={"source", "domain", "timeliness", "intent"})
        if query.q:
            found = await self._finder.find(query.q, len(catalog), **tags)
        else:
            found = catalog.select(**tags)
        end = query.cursor + query.limit
        return _json(
            {
                "total": len(found),
                "tools": [summarise(manifest) for manifest in found[query.cursor : end]],
                "next_cursor": str(end) if end < len(found) else None,
            }
        )

    async def results(self, request: web.Request) -> web.Response:
        """Rows of the whole table behind a shortened result."""
        handle = request.match_info["handle"]
        try:
            query = _parsed(ResultsQuery, request.query)
        except _Refused as refusal:
            return _problem(refusal.error)
        entry = await self._gateway.recall(handle)
        if entry is None or entry.rows is None:
            return _problem(CallError(ErrorCode.NOT_FOUND, "no kept table has this handle"))
        head = orjson.dumps({"handle": handle, "columns": entry.columns, "rows": entry.rows})
        if query.offset + query.limit > PAGED_AT_ONCE:
            page = await to_thread.run_sync(entry.page, query.offset, query.limit)
        else:
            page = entry.page(query.offset, query.limit)
        body = b'%b,"offset":%d,"data":%b}' % (head[:-1], query.offset, page)
        return web.Response(body=body, content_type="application/json")

    async def health(self, _: web.Request) -> web.Response:
        """That the gateway serves, what calls ended as, and how the process is doing."""
        answers = self._gateway.answers
        return _json(
            {
                "status": "failed" if answers.failed else "ok",
                "upstream": answers.upstream,
                "mode": self._gateway.settings.mode,
                "snapshot": self._gateway.snapshot_id,
                "tools": len(self._gateway.catalog),
                "uptime_s": round(time.monotonic() - self._started, 3),
                "calls": dict(self._gateway.outcomes),
                "cache": answers.state(),
                "pending": answers.pending,
                "hosts": answers.hosts.state(),
                **self._vitals.result(),
            },
            503 if answers.failed else 200,
        )

    async def nowhere(self, request: web.Request) -> web.Response:
        if request.path in ("/v1/tools", "/healthz") or request.path.startswith("/v1/results/"):
            text = f"{request.method} is not served here; GET is"
            return _problem(CallError(ErrorCode.METHOD_NOT_ALLOWED, text), {"Allow": "GET, HEAD"})
        text = f"{request.method} {request.path[:200]} is not served; see GET /v1/tools"
        return _problem(CallError(ErrorCode.NOT_FOUND, text))


@asynccontextmanager
async def serve(gateway: Gateway, host: str, port: int) -> AsyncIterator[str]:
    """Serve the REST door; gives its base URL. Port 0 takes a free one. Raises `OSError`."""
    async with Vitals.watch() as vitals:
        runner = web.AppRunner(
            Door(gateway, vitals).application(),
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=5.0,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            bound = runner.addresses[0]
            yield f"http://{bound[0]}:{bound[1]}"
        finally:
            await runner.cleanup()


class _Refused(Exception):
    def __init__(self, message: str) -> None:
        self.error = CallError(ErrorCode.INVALID_REQUEST, message)


def _parsed(model: type[Q], query: Mapping[str, str]) -> Q:
    try:
        return model.model_validate(dict(query))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        allowed = ", ".join(model.model_fields)
        text = f"query {'.'.join(map(str, first['loc']))}: {first['msg']}; allowed: {allowed}"
        raise _Refused(text) from None


def _cache_control(lines: list[str] | None) -> CacheControl | None:
    try:
        return None if lines is None else CacheControl.parse(", ".join(lines))
    except CacheControlError as error:
        raise _Refused(str(error)) from None


def _answer(result: Result, headers: dict[str, str] | None = None) -> web.Response:
    status = 200
    if result.error is not None:
        status = result.error.code.http_status
        if result.error.retry_after_s is not None:
            headers = {**(headers or {}), "Retry-After": str(math.ceil(result.error.retry_after_s))}
    return web.Response(
        body=result.to_json(), status=status, headers=headers, content_type="application/json"
    )


def _problem(error: CallError, headers: dict[str, str] | None = None) -> web.Response:
    return _json({"ok": False, "error": error.to_dict()}, error.code.http_status, headers)


def _json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=orjson.dumps(value), status=status, headers=headers, content_type="application/json"
    )
