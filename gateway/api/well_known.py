"""The paths under `/.well-known`: only metadata on how to send a key to the gateway (RFC 9728).

A client that gets 401 looks here for an authorization server. There is none, and no key can be
obtained over HTTP. So the metadata says that a key goes into the header and names no server;
everything else is 404. MCP's SDK for Python ignores metadata without a server, and the one for
TypeScript takes the gateway for the server. Both then try to register here, and show the text of
the 401: how to send a key.
"""

from collections.abc import Callable

from aiohttp import web

from gateway.api.origin import origin_of
from gateway.api.responses import json

_METADATA = "/.well-known/oauth-protected-resource"

_PROTECTED = ("", "/mcp")
"""Paths of the described resources: the gateway as a whole, and the MCP endpoint, where clients
look for a description.
"""


class WellKnown:
    """Request handler. `needs_keys` says whether the gateway needs keys now."""

    def __init__(self, needs_keys: Callable[[], bool]) -> None:
        self._needs_keys = needs_keys

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/.well-known/{name:.*}", self.metadata)]

    async def metadata(self, request: web.Request) -> web.StreamResponse:
        """Describe how to send a key to the resource that the request names."""
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
    """Return the value of `WWW-Authenticate`: a key is needed, and where that is described."""
    bearer, origin = 'Bearer realm="finport"', origin_of(request)
    if origin is None:
        return bearer  # clients then look at the usual places
    path, _, _ = request.raw_path.partition("?")
    where = origin + _METADATA + (path if path in _PROTECTED else "")
    return f'{bearer}, resource_metadata="{where}"'
