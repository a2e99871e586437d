"""The URL at which a client reached the gateway, as far as it can be known, and what is said there
on how to send a key.

The name comes from the Host header, which the guard has checked. The gateway speaks plain HTTP, so
a request whose Host has the gateway's own port came directly. Another port means a proxy, whose
scheme is known only from `X-Forwarded-Proto`. A client may forge that header, but only it gets the
wrong URL, because no shared cache stores such an answer. The scheme is never guessed: a client that
follows `http` would send its key in the clear.

The paths under `/.well-known` hold metadata on how to send a key (RFC 9728) and nothing else. A
client that gets 401 looks here for an authorization server. There is none, and no key can be
obtained over HTTP. So the metadata says that a key goes into the header and names no server;
everything else is 404. MCP's SDK for Python ignores metadata without a server, and the one for
TypeScript takes the gateway for the server. Both then try to register here, and show the text of
the 401: how to send a key.
"""

from collections.abc import Callable

from aiohttp import hdrs, web

from gateway.access.guard import name_and_port
from gateway.api.responses import json

_METADATA = "/.well-known/oauth-protected-resource"

_PROTECTED = ("", "/mcp")
"""Paths of the described resources: the gateway as a whole, and the MCP endpoint, where clients
look for a description.
"""

_FORWARDED = "X-Forwarded-Proto"
_SCHEMES = ("http", "https")


def origin_of(request: web.BaseRequest) -> str | None:
    """Return the origin, as in `https://gw.example`; None if it is not known."""
    host = request.headers.get(hdrs.HOST, "")
    site = name_and_port(host)
    if site is None:
        return None  # the guard accepts such a Host where every name is allowed
    scheme = request.headers.get(_FORWARDED, "").lower()
    if scheme not in _SCHEMES:
        own = request.get_extra_info("sockname")
        if scheme or not isinstance(own, tuple) or int(site[1] or 80) != own[1]:
            return None
        scheme = "http"
    return f"{scheme}://{host}"


def well_known(needs_keys: Callable[[], bool]) -> web.RouteDef:
    """The route of the metadata; `needs_keys` says whether the gateway needs keys now."""

    async def metadata(request: web.Request) -> web.StreamResponse:
        """Describe how to send a key to the resource that the request names."""
        origin, path = origin_of(request), request.path.removeprefix(_METADATA)
        if not needs_keys() or path not in _PROTECTED or origin is None:
            raise web.HTTPNotFound
        said = {
            "resource": origin + path,
            "resource_name": "Finport",
            "resource_documentation": f"{origin}/docs",
            "bearer_methods_supported": ["header"],
        }
        return json(request, said)

    return web.get("/.well-known/{name:.*}", metadata)


def challenge(request: web.BaseRequest) -> str:
    """Return the value of `WWW-Authenticate`: a key is needed, and where that is described."""
    bearer, origin = 'Bearer realm="finport"', origin_of(request)
    if origin is None:
        return bearer  # clients then look at the usual places
    path, _, _ = request.raw_path.partition("?")
    where = origin + _METADATA + (path if path in _PROTECTED else "")
    return f'{bearer}, resource_metadata="{where}"'
