"""A route as data: its handler, and all that its description in OpenAPI is built from."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import getdoc
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel

from gateway.access.guard import Caller
from gateway.api.models import Problem
from gateway.api.responses import Query
from gateway.errors import ErrorCode

CALLER = web.RequestKey("caller", Caller)
"""The caller of a request. It is absent if an unknown caller requests an open route."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

F = TypeVar("F", bound=Callable[..., Awaitable[web.StreamResponse]])

Shape = type[BaseModel] | dict[str, Any]
"""The shape of a body: a model, or a JSON Schema."""

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path; `summary` is the docstring of its handler.

    `query` is the model that validates its query. `body` and `answer` give the shapes of its body
    and its answer by media type. `errors` are its error codes in addition to those of every route;
    they are sent as `failure`. A request that is rejected before it reaches the route gets
    `refusal`. An `is_open` route needs no key.
    """

    method: str
    path: str
    answer: Mapping[str, Shape]
    handler: Handler
    summary: str
    query: type[Query] | None = None
    body: Mapping[str, Shape] = field(default_factory=dict)
    errors: tuple[ErrorCode, ...] = ()
    failure: type[BaseModel] = Problem
    refusal: type[BaseModel] = Problem
    is_open: bool = False


def routed(method: str, path: str, answer: Mapping[str, Shape], **fields: Any) -> Callable[[F], F]:
    """Mark a method as the handler of a `Route` with these fields."""

    def marked(handler: F) -> F:
        made = partial(Route, method, path, answer, summary=getdoc(handler) or "", **fields)
        vars(handler)["route"] = made
        return handler

    return marked


def routes_of(owner: object) -> tuple[Route, ...]:
    """The routes whose handlers are methods of an object, in the order of its class."""
    marked = [(name, f.route) for name, f in vars(type(owner)).items() if hasattr(f, "route")]
    return tuple(made(handler=getattr(owner, name)) for name, made in marked)
