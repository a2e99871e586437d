"""A route as data: what serves it, and all that its description in OpenAPI is made of."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from pydantic import BaseModel

from gateway.access.guard import Caller
from gateway.api.models import Problem
from gateway.api.responses import Query
from gateway.errors import ErrorCode

CALLER = web.RequestKey("caller", Caller)
"""Who makes a request. Routes that are open are also asked by those of whom it is not known."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

Shape = type[BaseModel] | dict[str, Any]
"""What a body looks like: a model, or a JSON Schema."""

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path.

    `query` is the model that validates its query. `body` and `answer` say by media type what it
    takes and gives. `errors` are the codes that it may end with beside those of any route, as
    `failure`; `refusal` is what a request gets that does not come as far as the route. One that
    `is_open` needs no key.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: Mapping[str, Shape]
    query: type[Query] | None = None
    body: Mapping[str, Shape] = field(default_factory=dict)
    errors: tuple[ErrorCode, ...] = ()
    failure: type[BaseModel] = Problem
    refusal: type[BaseModel] = Problem
    is_open: bool = False
