"""Under which URL a client reached the gateway, as far as that can be known.

The name is what the Host header says, which the guard has checked. The gateway itself speaks plain
HTTP, so a Host with its own port was sent to it directly. With another port there is a proxy
before it, whose scheme it knows only where `X-Forwarded-Proto` says so. That header may be made up:
who does so is told something wrong, and nobody else is, since no shared cache keeps such an answer.
A scheme is never guessed: a client that follows `http` would send its key in the clear.
"""

from aiohttp import hdrs, web

from gateway.access.guard import name_and_port

_FORWARDED = "X-Forwarded-Proto"
_SCHEMES = ("http", "https")


def origin_of(request: web.BaseRequest) -> str | None:
    """As in `https://gw.example`; None where it is not known."""
    host = request.headers.get(hdrs.HOST, "")
    site = name_and_port(host)
    if site is None:
        return None  # which the guard lets pass where any name will do
    scheme = request.headers.get(_FORWARDED, "").lower()
    if scheme not in _SCHEMES:
        if scheme or int(site[1] or 80) != _own_port(request):
            return None
        scheme = "http"
    return f"{scheme}://{host}"


def _own_port(request: web.BaseRequest) -> int | None:
    name = request.get_extra_info("sockname")
    return name[1] if isinstance(name, tuple) else None
