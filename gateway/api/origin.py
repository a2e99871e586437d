"""The URL at which a client reached the gateway, as far as it can be known.

The name comes from the Host header, which the guard has checked. The gateway speaks plain HTTP, so
a request whose Host has the gateway's own port came directly. Another port means a proxy, whose
scheme is known only from `X-Forwarded-Proto`. A client may forge that header, but only it gets the
wrong URL, because no shared cache stores such an answer. The scheme is never guessed: a client that
follows `http` would send its key in the clear.
"""

from aiohttp import hdrs, web

from gateway.access.guard import name_and_port

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
        if scheme or int(site[1] or 80) != _own_port(request):
            return None
        scheme = "http"
    return f"{scheme}://{host}"


def _own_port(request: web.BaseRequest) -> int | None:
    name = request.get_extra_info("sockname")
    return name[1] if isinstance(name, tuple) else None
