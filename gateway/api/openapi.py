"""The API described in OpenAPI 3.1, built from the models that validate requests.

`GET /openapi.json` describes the routes. With `?tools=` and a selection it also describes each
selected tool that the caller may use as a path of its own, with its arguments, for clients that
turn paths into functions. That document is long, so it needs a key wherever calls need one.

Whether keys are needed may change while the gateway runs, and a client that was generated from one
gateway may call another. So the document always says how to send a key and what a request without
one gets.
"""

import asyncio
import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache, cached_property
from importlib.metadata import version
from typing import Any

import orjson
from aiohttp import web
from anyio import to_thread
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from gateway.access.clients import HOW_TO_SEND
from gateway.access.guard import ANYONE, API_KEY
from gateway.access.rejection import RequestRejected
from gateway.api.mcp_http import SEARCH
from gateway.api.models import NOTHING, TAGS, Failure, Problem
from gateway.api.origin import origin_of
from gateway.api.responses import Query, listing, parsed
from gateway.api.rest import selection
from gateway.api.route import CALLER, JSON, Route, Shape, routed, routes_of
from gateway.call import Gateway
from gateway.errors import CallError, ErrorCode
from gateway.grant import Grant
from manifests import Manifest, Selection
from manifests.export import EXPORT_FORMATS, arguments_schema, describe
from manifests.selection import MAX_TEXT

AT_ONCE = 50
"""Tools whose operations are built before yielding to the event loop: 2 ms. Each is built once."""

_REF = "#/components/schemas/{model}"

_SECURITY_SCHEMES = {
    "key": {"type": "http", "scheme": "bearer"},
    "api_key": {"type": "apiKey", "in": "header", "name": API_KEY},
}
_CHALLENGE = {"WWW-Authenticate": {"schema": {"type": "string"}}}

_TAGS = [
    {"name": "tools", "description": "List, find, describe and call tools."},
    {"name": "mcp", "description": "Tools for clients of the Model Context Protocol."},
    {"name": "gateway", "description": "The gateway itself."},
]

_SELECTED = "|".join(
    f"{tag}:V(,V)*".replace("V", f"({'|'.join(values)})") for tag, values in TAGS.items()
)
_FACET = f"({_SELECTED}|names:[A-Za-z0-9_,-]*[A-Za-z0-9_-])"

_IN_PATH: dict[str, dict[str, Any]] = {
    "format": {"enum": [format_ for format_ in EXPORT_FORMATS if format_ != "fintoolbench"]},
    "handle": {"pattern": "^[A-Za-z0-9_-]{1,64}\\.[0-9a-f]{32}-[0-9a-f]{16}$"},
}
"""Constraints that handlers check on a path parameter, by its name."""


class OpenApiQuery(Query):
    """Query of `GET /openapi.json`."""

    tools: str | None = Field(
        None, description="Tools that get a path each: `all`, or a selection such as `domain:bond`."
    )


class OpenApi:
    """Serves the description of routes. `needs_keys` says whether the gateway needs keys now."""

    def __init__(
        self, gateway: Gateway, routes: tuple[Route, ...], needs_keys: Callable[[], bool]
    ) -> None:
        self._gateway = gateway
        self._needs_keys = needs_keys
        routes = (*routes, *routes_of(self))
        self._description = cache(lambda needs_keys: _Description(routes, needs_keys))

    def document(self) -> dict[str, Any]:
        """Return the description of the routes."""
        return self._description(self._needs_keys()).document()

    @routed(
        "GET",
        "/openapi.json",
        {JSON: {"type": "object"}},
        query=OpenApiQuery,
        errors=(ErrorCode.RATE_LIMITED, ErrorCode.UNAUTHORIZED),
        is_open=True,
    )
    async def served(self, request: web.Request) -> web.StreamResponse:
        """This description."""
        query = parsed(OpenApiQuery, request)
        description = self._description(self._needs_keys())
        tools, caller = list[Manifest](), ANYONE
        if query.tools is not None:
            if CALLER not in request:
                text = f"tools are described to those who have a key: send {HOW_TO_SEND}"
                raise RequestRejected(CallError(ErrorCode.UNAUTHORIZED, text))
            caller = request[CALLER]
            chosen = selection(self._gateway.catalog, query.tools)
            tools = self._callable(chosen, caller.context.grant)
        # Some clients call the first server, even if the description came from another.
        server = origin_of(request) or "/"
        async with caller.slot:
            described = await description.text(server, tools)
        return listing(request, described)

    def _callable(self, tools: Selection, grant: Grant | None) -> list[Manifest]:
        catalog, may_use = self._gateway.catalog, self._gateway.may_use
        return [m for m in catalog if m in tools and m.unavailable is None and may_use(m, grant)]


class _Description:
    """The description of routes and tools. The parts of it are built once."""

    def __init__(self, routes: tuple[Route, ...], needs_keys: bool) -> None:
        self._routes = routes
        self._needs_keys = needs_keys
        self._operations: dict[str, tuple[Manifest, bytes]] = {}

    def document(self) -> dict[str, Any]:
        """The description of the routes."""
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "Finport",
                "version": version("finport"),
                "description": "The gateway through which LLM agents reach finance tools.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "tags": _TAGS,
            "paths": self._paths,
            "components": {"schemas": self._schemas, "securitySchemes": _SECURITY_SCHEMES},
        }

    async def text(self, server: str, tools: list[Manifest]) -> bytes:
        """Return, as JSON, the description with a path for each of `tools`."""
        kept = self._operations
        missing = [m for m in tools if m.name not in kept or kept[m.name][0] is not m]
        for number, manifest in enumerate(missing, 1):
            kept[manifest.name] = manifest, orjson.dumps(self._tool(manifest))
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        own = (b'"/v1/tools/%b":{"post":%b}' % (m.name.encode(), kept[m.name][1]) for m in tools)
        # In a thread: it takes 10 ms, once.
        start, paths = await to_thread.run_sync(lambda: self._start_and_paths)
        joined = b",".join((paths[1:-1], *own))
        return b'{"servers":[{"url":"%b"}],%b,"paths":{%b}}' % (
            server.encode(),
            start[1:-1],
            joined,
        )

    @cached_property
    def _start_and_paths(self) -> tuple[bytes, bytes]:
        document = self.document()
        paths = document.pop("paths")
        return orjson.dumps(document), orjson.dumps(paths)

    @cached_property
    def _paths(self) -> dict[str, Any]:
        paths: dict[str, Any] = {}
        for one in self._routes:
            paths.setdefault(one.path, {})[one.method.lower()] = self._operation(one)
        return paths

    @cached_property
    def _schemas(self) -> dict[str, Any]:
        shapes = [s for r in self._routes for s in (*r.body.values(), *r.answer.values())]
        failures = [route.failure for route in self._routes]
        models = {s for s in (*shapes, *failures, Failure, Problem) if isinstance(s, type)}
        ordered = sorted(models, key=lambda model: model.__name__)
        _, made = models_json_schema(
            [(model, "serialization") for model in ordered], ref_template=_REF
        )
        schemas: dict[str, Any] = made["$defs"]
        return schemas

    def _operation(self, route: Route) -> dict[str, Any]:
        operation: dict[str, Any] = {
            "operationId": _operation_id(route),
            "tags": [_tag(route.path)],
            "summary": route.summary,
            "parameters": [*_in_path(route.path), *_in_query(route.query)],
            "responses": self._responses(route),
        }
        if route.body:
            # A body that may be any object or array, or lines of text, may also be omitted.
            needed = any(isinstance(shape, type) for shape in route.body.values())
            operation["requestBody"] = {"required": needed, "content": _content(route.body)}
        return operation | self._security(route)

    def _responses(self, route: Route) -> dict[str, Any]:
        answers = {media: shape for media, shape in route.answer.items() if media != NOTHING}
        responses: dict[str, Any] = {"200": {"description": "Done.", "content": _content(answers)}}
        if NOTHING in route.answer:
            responses["202"] = {"description": "Accepted; the answer has no body."}
        before = {ErrorCode.FORBIDDEN}  # errors raised before the route is reached
        if not route.is_open:
            before.add(ErrorCode.UNAUTHORIZED)
        if route.query is not None:
            before.add(ErrorCode.INVALID_REQUEST)  # a query that makes the head too long
        codes = {*route.errors}
        if route.query is not None or route.body:
            codes.add(ErrorCode.INVALID_REQUEST)
        for code in sorted(before | codes):
            status = str(code.http_status)
            known = responses.get(status)
            if known is None:
                own = {route.failure} if code in codes else set()
                shapes = own | {route.refusal} if code in before else own
                content = _content({JSON: _any_of(shapes)})
                responses[status] = {"description": f"`{code}`", "content": content}
            else:
                known["description"] += f", `{code}`"
            if code is ErrorCode.UNAUTHORIZED:
                responses[status]["headers"] = _CHALLENGE
        return responses

    def _tool(self, manifest: Manifest) -> dict[str, Any]:
        """Return the operation that calls one tool."""
        schema = arguments_schema(manifest)
        content: dict[str, Any] = {JSON: {"schema": schema}}
        if sample := manifest.sample():
            content[JSON]["example"] = sample
        return {
            "operationId": manifest.name,
            "tags": [_tag("/v1/tools")],
            "summary": manifest.description,
            "description": describe(manifest, tags=True),
            "requestBody": {"required": bool(schema["required"]), "content": content},
            **self._of_all_tools,
            **self._observed(manifest),
        }

    def _observed(self, manifest: Manifest) -> dict[str, Any]:
        """The responses of a tool whose answers were observed, else nothing."""
        if manifest.observed is None:
            return {}
        data = {"properties": {"data": manifest.observed.schema_of_data}}
        responses = deepcopy(self._of_all_tools["responses"])
        answer = responses["200"]["content"][JSON]
        answer["schema"] = {"allOf": [answer["schema"], data]}
        return {"responses": responses}

    @cached_property
    def _of_all_tools(self) -> dict[str, Any]:
        """The fields that the operations of all tools have in common."""
        (route,) = [r for r in self._routes if (r.method, r.path) == ("POST", "/v1/tools/{name}")]
        return {
            "parameters": _in_query(route.query),
            "responses": self._responses(route),
            **self._security(route),
        }

    def _security(self, route: Route) -> dict[str, Any]:
        if route.is_open or not self._needs_keys:
            return {}
        return {"security": [{name: []} for name in _SECURITY_SCHEMES]}


def _tag(path: str) -> str:
    """Return the tag under which generators group an operation."""
    first = path.split("/")[1]
    return {"v1": "tools", "mcp": "mcp"}.get(first, "gateway")


def _operation_id(route: Route) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", route.path.lower()).strip("_")
    return f"{route.method.lower()}_{words}"


def _in_path(path: str) -> list[dict[str, Any]]:
    return [
        _parameter(name, "path", True, {"type": "string", **_IN_PATH.get(name, {})})
        for name in re.findall(r"\{(\w+)", path)
    ]


def _in_query(query: type[Query] | None) -> list[dict[str, Any]]:
    schema = {"properties": {}} if query is None else query.model_json_schema()
    required = schema.get("required", ())
    return [
        _parameter(
            name,
            "query",
            name in required,
            _not_null(property_) | (_selecting(property_) if name == "tools" else {}),
        )
        for name, property_ in schema["properties"].items()
    ]


def _parameter(name: str, place: str, required: bool, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _selecting(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a selection of tools written as text."""
    words = f"all|{SEARCH}" if schema.get("default") == SEARCH else "all"
    return {"pattern": f"^({words}|{_FACET}(;{_FACET})*)$", "maxLength": MAX_TEXT}


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from a schema: a query omits a parameter instead."""
    kept = {key: value for key, value in schema.items() if key not in ("anyOf", "default", "title")}
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            kept |= choice
    if schema.get("default") is not None:
        kept["default"] = schema["default"]
    return kept


def _content(shapes: Any) -> dict[str, Any]:
    return {media: {"schema": _schema(shape)} for media, shape in shapes.items()}


def _any_of(models: set[type[BaseModel]]) -> Shape:
    ordered = sorted(models, key=lambda model: model.__name__)
    return ordered[0] if len(ordered) == 1 else {"anyOf": [_schema(model) for model in ordered]}


def _schema(shape: Shape) -> dict[str, Any]:
    return {"$ref": _REF.format(model=shape.__name__)} if isinstance(shape, type) else shape
