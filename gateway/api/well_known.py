"""What stands under `/.well-known`: how the gateway wants its keys (RFC 9728), and nothing else.

A client that meets 401 looks here for a server to log in at. There is none, and a key can't be had
over HTTP: the metadata says that a key goes into the header and names no authorization server, and
everything else is 404. MCP's SDK for Python takes metadata without a server for none, the one for
TypeScript takes the gateway for the server. Both then try to register here, and show what 401 says:
how a key is sent.
"""

from collections.abc import Callable

from aiohttp import web

from gateway.api.origin import origin_of
from gateway.api.responses import json

_METADATA = "/.well-known/oauth-protected-resource"

_PROTECTED = ("", "/mcp")
"""Paths of what is described: the gateway as a whole, and where clients look for such a thing."""


class WellKnown:
    """Request handler; `needs_keys` says whether the gateway does now."""

    def __init__(self, needs_keys: Callable[[], bool]) -> None:
        self._needs_keys = needs_keys

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/.well-known/{name:.*}", self.metadata)]

    async def metadata(self, request: web.Request) -> web.StreamResponse:
        """How the resource is protected whose path the request names."""
        origin, path = origin_of(request), request.path.removeprefix(_METADATA)
        if not self._needs_keys() or path not in _PROTECTED or origin is None:
            raise web.HTTPNotFound
        said = {
            "resource": origin + path,
            "resource_name": "Finport",
            "resource_documentation": f"{origin}/docs",
            "bearer_methods_supported": ["header"],
        }
        return json(request, said)


def challenge(request: web.BaseRequest) -> str:
    """The value of `WWW-Authenticate`: that a key is needed, and where it is said how."""
    bearer, origin = 'Bearer realm="finport"', origin_of(request)
    if origin is None:
        return bearer  # clients that want to know look at the usual places
    path, _, _ = request.raw_path.partition("?")
    where = origin + _METADATA + (path if path in _PROTECTED else "")
    return f'{bearer}, resource_metadata="{where}"'
