"""Decides by its head alone (Host, Origin and key) whether an HTTP request may call.

A web page of another site can make a browser call a gateway on the same machine, under a name that
its owner points there (DNS rebinding). So a request is refused unless it names the gateway by
localhost, an IP address (which can't be rebound) or an allowed name. A page's request is refused
unless the page's origin is the gateway's own or allowed. If the gateway knows keys, requests that
may call tools need one.
"""

import hmac
import re
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from aiohttp import hdrs
from multidict import CIMultiDictProxy, istr

from gateway.access.clients import HOW_TO_SEND, Client, Clients
from gateway.access.keys import digest_of
from gateway.access.rejection import RequestRejected
from gateway.context import CLIENT, DEFAULT_CONTEXT, CallContext
from gateway.errors import CallError, ErrorCode
from gateway.settings import GatewaySettings, SettingsError

MAX_CLIENT = 64

ANY_NAME = "*"
"""As an allowed host: any name of the gateway is accepted."""

NO_LIMITS: AbstractAsyncContextManager[None] = nullcontext()

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": "80", "https": "443"}

API_KEY = istr("X-Api-Key")

Headers = CIMultiDictProxy[str]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request: a client with a key, or anyone. Its calls begin with `context`.

    A call counts against the limits of the client, if any, within `slot`. Entering it raises
    `RequestRejected` if a limit is used up.
    """

    client: Client | None = None
    context: CallContext = DEFAULT_CONTEXT
    slot: AbstractAsyncContextManager[None] = NO_LIMITS


ANYONE = Caller()


class Guard:
    """Checks the heads of requests. Raises `SettingsError` for an invalid host or origin, and for a
    `/metrics` key that is also a client's.
    """

    def __init__(self, settings: GatewaySettings, clients: Clients) -> None:
        self._clients = clients
        self._names = {_allowed_name(host) for host in settings.allowed_hosts}
        self._origins = {_allowed_origin(origin) for origin in settings.allowed_origins}
        self._metrics_key = _metrics_key(settings, clients)
        self._is_own = lru_cache(1_024)(self._names_this_gateway)

    @property
    def needs_keys(self) -> bool:
        return self._clients.required

    def caller(self, headers: Headers) -> Caller:
        """The caller. Raises `RequestRejected` for a foreign Host or Origin, and if a key is needed
        and no known one is given.
        """
        host = headers.get(hdrs.HOST, "")
        if not self._is_own(host):
            text = f"the gateway is not called {_shown(host)}; allow it by FINPORT_ALLOWED_HOSTS"
            raise RequestRejected(CallError(ErrorCode.FORBIDDEN, text))
        if hdrs.ORIGIN in headers:
            self._check_origin(headers, host)
        if self._clients.required:
            return self._client(headers)
        name = headers.get(CLIENT)
        if name is None:
            return ANYONE
        return Caller(context=CallContext(client=name[:MAX_CLIENT]))

    def _check_origin(self, headers: Headers, host: str) -> None:
        origin = ", ".join(headers.getall(hdrs.ORIGIN))
        if not is_same_site(origin, host) and not self.is_allowed_page(headers):
            text = f"pages of {_shown(origin)} may not call; allow it by FINPORT_ALLOWED_ORIGINS"
            raise RequestRejected(CallError(ErrorCode.FORBIDDEN, text))

    def is_allowed_page(self, headers: Headers) -> bool:
        """Whether a page of another origin calls, and the settings allow it."""
        return ", ".join(headers.getall(hdrs.ORIGIN, ())) in self._origins

    def _client(self, headers: Headers) -> Caller:
        try:
            client = self._clients.authenticate(_key(headers))
        except RequestRejected:
            if self.may_read_figures(headers):
                text = "this key opens /metrics and nothing else"
                raise RequestRejected(CallError(ErrorCode.UNAUTHORIZED, text)) from None
            raise
        context = CallContext(
            client=client.id,
            grant=client.grant,
            max_tokens=client.max_tokens,
            stand_in=client.stand_in,
        )
        return Caller(client, context, client)

    def admits(self, headers: Headers) -> bool:
        """Whether a request may call."""
        try:
            self.caller(headers)
        except RequestRejected:
            return False
        return True

    def may_read_figures(self, headers: Headers) -> bool:
        """Whether a request gives the key that opens `/metrics` and nothing else."""
        try:
            given = _key(headers)
        except RequestRejected:
            return False
        if self._metrics_key is None or given is None:
            return False
        return hmac.compare_digest(digest_of(given), self._metrics_key)

    def _names_this_gateway(self, host: str) -> bool:
        if ANY_NAME in self._names:
            return True
        site = name_and_port(host)
        return site is not None and (
            site[0] == "localhost" or site[0] in self._names or _is_address(site[0])
        )


def is_same_site(origin: str, host: str) -> bool:
    """Whether a page of `origin` came from the site that a request with Host `host` goes to.

    Behind a proxy the gateway can't know its own scheme, so both schemes will do.
    """
    scheme, _, rest = origin.partition("://")
    page, called, usual = name_and_port(rest), name_and_port(host), _PORTS.get(scheme)
    if page is None or called is None or usual is None:
        return False
    return page[0] == called[0] and (page[1] or usual) == (called[1] or usual)


def name_and_port(authority: str) -> tuple[str, str] | None:
    """Name and port of a Host header; the port is empty if none is given. None for no host."""
    match = _AUTHORITY.fullmatch(authority)
    return match and (match[1].lower().removesuffix("."), match[2] or "")


def _is_address(name: str) -> bool:
    try:
        IPv6Address(name[1:-1]) if name.startswith("[") else IPv4Address(name)
    except AddressValueError:
        return False
    return True


def _allowed_name(host: str) -> str:
    """Raises `SettingsError`."""
    site = (ANY_NAME, "") if host == ANY_NAME else name_and_port(host)
    if site is None:
        raise SettingsError(f"setting allowed_hosts: {_shown(host)} is no name of a host")
    return site[0]


def _allowed_origin(origin: str) -> str:
    """The origin as browsers write it. Raises `SettingsError`."""
    scheme, _, rest = origin.lower().removesuffix("/").partition("://")
    site = name_and_port(rest)
    if site is None or not scheme:
        text = f"setting allowed_origins: {_shown(origin)} is not as in https://app.example"
        raise SettingsError(text)
    name, port = site
    return f"{scheme}://{name}" + (f":{port}" if port not in ("", _PORTS.get(scheme)) else "")


def _metrics_key(settings: GatewaySettings, clients: Clients) -> str | None:
    """The hash of the key that opens `/metrics`. Raises `SettingsError`."""
    if settings.metrics_key is None:
        return None
    key = settings.metrics_key.get_secret_value()
    try:
        client = clients.authenticate(key)
    except RequestRejected:
        return digest_of(key)
    text = f"setting metrics_key: it is the key of client {client.name}, which calls tools"
    raise SettingsError(f"{text}; make another")


def _key(headers: Headers) -> str | None:
    """The key that a request gives. Raises `RequestRejected` for two different ones."""
    keys = [*map(str.strip, headers.getall(API_KEY, ()))]
    for given in headers.getall(hdrs.AUTHORIZATION, ()):
        scheme, _, key = given.partition(" ")
        if scheme.lower() == "bearer":
            keys.append(key.strip())
    if not keys and hdrs.AUTHORIZATION in headers:
        text = f"Authorization is given in a form that is not known: send {HOW_TO_SEND}"
        raise RequestRejected(CallError(ErrorCode.UNAUTHORIZED, text))
    if len(keys) > 1:
        keys = [*({*keys} - {""})]
    if len(keys) > 1:
        text = f"two different keys were given: send one, as {HOW_TO_SEND}"
        raise RequestRejected(CallError(ErrorCode.UNAUTHORIZED, text))
    return keys[0] if keys else None


def _shown(text: str) -> str:
    return ascii(text[:80])
