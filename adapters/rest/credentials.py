"""Credentials of HTTP APIs: from environment variables into requests.

A provider names the variable of each security scheme. It is read for each call, so a reload of the
provider counts at once. Its value is held only beside the token that it bought.
"""

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus

from yarl import URL

from adapters.conventions import words_in
from adapters.fault import UpstreamFault, fault_of_status, fit_for_message
from adapters.http import Reply, Session, send
from adapters.normalise import read_json
from adapters.rest.request import FORM, Request
from manifests import HttpBinding, Manifest
from manifests.manifest import Credential

TOKEN_S: Final = 15.0
"""Time for fetching a token."""

DEFAULT_LIFE_S: Final = 300.0
"""How long a token is used that does not say when it expires."""

EARLY_S: Final = 60.0
"""How long before it expires a token is replaced, at most a tenth of its life."""

MAX_TOKENS: Final = 256
_TOKEN_BYTES: Final = 2**16

_TokenKey = tuple[str, tuple[str, ...], str, bool]


@dataclass(frozen=True, slots=True)
class Granted:
    """What a request was given: texts that must not come back, and tokens that may be refused."""

    secrets: frozenset[str] = frozenset()
    variables: tuple[str, ...] = ()
    tokens: Mapping[_TokenKey, str] = field(default_factory=dict)


class Credentials:
    """The credentials of all providers. `close` ends what fetches tokens."""

    def __init__(self, session_of: Callable[[bool], Awaitable[Session]]) -> None:
        self._session_of = session_of
        self._tokens: dict[_TokenKey, tuple[str, float]] = {}
        self._fetching: dict[_TokenKey, asyncio.Task[str]] = {}

    async def close(self) -> None:
        for task in self._fetching.values():
            task.cancel()
        await asyncio.gather(*self._fetching.values(), return_exceptions=True)

    async def grant(
        self,
        request: Request,
        manifest: Manifest,
        binding: HttpBinding,
        variables: Mapping[str, str],
        *,
        allow_private: bool,
    ) -> Granted:
        """Put the credentials of one alternative into a request. `variables` maps the schemes that
        the operator configured. Raises `UpstreamFault` (`not_configured`), and what fetching a
        token raises.
        """
        chosen = _chosen(manifest, binding, variables)
        if not chosen:
            return Granted()
        secrets, tokens = set[str](), dict[_TokenKey, str]()
        for credential in chosen:
            variable = variables[credential.scheme]
            value = _value(variable)
            secrets |= set(_forms(credential, value))
            if credential.kind == "oauth2":
                key = (credential.token_url, credential.scopes, value, allow_private)
                token = tokens[key] = await self._token(key, variable)
                secrets.add(token)
                request.headers["Authorization"] = f"Bearer {token}"
                continue
            _put(request, credential, value, variable)
        named = tuple(variables[credential.scheme] for credential in chosen)
        return Granted(frozenset(secrets), named, tokens)

    def refused(self, granted: Granted) -> bool:
        """Forget the tokens of a request that the upstream refused; whether there are any."""
        for key, token in granted.tokens.items():
            if self._tokens.get(key, ("", 0.0))[0] == token:
                del self._tokens[key]
        return bool(granted.tokens)

    async def _token(self, key: _TokenKey, variable: str) -> str:
        """A token that has not expired. Identical requests for one share its fetching."""
        kept = self._tokens.get(key)
        if kept is not None and asyncio.get_running_loop().time() < kept[1]:
            return kept[0]
        task = self._fetching.get(key)
        if task is None:
            task = self._fetching[key] = asyncio.ensure_future(self._fetch(key, variable))
            task.add_done_callback(lambda done: self._fetched(key, done))
        return await asyncio.shield(task)

    def _fetched(self, key: _TokenKey, task: "asyncio.Task[str]") -> None:
        self._fetching.pop(key, None)
        if not task.cancelled():
            task.exception()  # its caller may have left: nobody else reads it

    async def _fetch(self, key: _TokenKey, variable: str) -> str:
        token_url, scopes, value, allow_private = key
        client, _, secret = value.partition(":")
        body = "grant_type=client_credentials"
        if scopes:
            body += f"&scope={quote_plus(' '.join(scopes))}"
        headers = {
            "Authorization": _basic(f"{quote_plus(client)}:{quote_plus(secret)}"),
            "Content-Type": FORM,
            "Accept": "application/json",
        }
        url = URL(token_url)
        session = await self._session_of(allow_private)
        began = asyncio.get_running_loop().time()
        reply = await send(
            session, url, headers, TOKEN_S,
            fresh=True, method="POST", body=body.encode(), most=_TOKEN_BYTES,
        )  # fmt: skip
        said = _document(reply)
        if not reply.ok:
            more = said.get("error_description") if isinstance(said, dict) else None
            words = ": ".join(filter(None, (words_in(said), more if isinstance(more, str) else "")))
            words = fit_for_message(words, (value, secret, headers["Authorization"][6:]))
            if reply.status in (400, 401, 403):
                text = f"{url.host} gives no token for the client in {variable}"
                raise UpstreamFault("not_configured", f"{text}{words and f': {words}'}")
            raise fault_of_status(reply.status, reply.headers.get("Retry-After"), words)
        token = said.get("access_token") if isinstance(said, dict) else None
        if not isinstance(token, str) or not token or not _is_sendable(token):
            raise UpstreamFault("invalid", f"{url.host} answered without an access_token")
        life = said.get("expires_in")
        is_given = isinstance(life, int | float) and not isinstance(life, bool) and life > 0
        life_s = float(life) if is_given else DEFAULT_LIFE_S
        if len(self._tokens) >= MAX_TOKENS:
            self._tokens.pop(next(iter(self._tokens)))
        self._tokens[key] = token, began + life_s - min(EARLY_S, life_s / 10)
        return token


def _chosen(
    manifest: Manifest, binding: HttpBinding, variables: Mapping[str, str]
) -> tuple[Credential, ...]:
    """The first alternative whose schemes all have variables, else none if none is needed."""
    for alternative in binding.security:
        if alternative and all(one.scheme in variables for one in alternative):
            return alternative
    if not binding.security or () in binding.security:
        return ()
    schemes = " + ".join(one.scheme for one in binding.security[0])
    example = binding.security[0][0].scheme
    raise UpstreamFault(
        "not_configured",
        f"{manifest.upstream} wants a credential ({schemes}); name the environment variable that "
        f'holds it: credentials = {{"{example}" = "VARIABLE"}} in the provider '
        f"{manifest.provider or 'of this tool'}",
    )


def _value(variable: str) -> str:
    value = os.environ.get(variable, "").strip()
    if not value:
        text = f"the environment variable {variable} is not set; it holds the upstream's credential"
        raise UpstreamFault("not_configured", text)
    return value


def _put(request: Request, credential: Credential, value: str, variable: str) -> None:
    if credential.kind in ("header", "bearer") and not _is_sendable(value):
        text = f"the environment variable {variable} holds a character that no header can carry"
        raise UpstreamFault("not_configured", text)
    match credential.kind:
        case "header":
            request.headers[credential.name] = value
        case "query":
            request.add_query(credential.name, value)
        case "cookie":
            request.add_cookie(credential.name, value)
        case "bearer":
            request.headers["Authorization"] = f"Bearer {value}"
        case "basic":
            request.headers["Authorization"] = _basic(value)


def _forms(credential: Credential, value: str) -> Iterator[str]:
    """The texts by which a secret may come back."""
    yield value
    if credential.kind in ("basic", "oauth2"):
        yield value.partition(":")[2]
        yield _basic(value).removeprefix("Basic ")


def _basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _is_sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _document(reply: Reply) -> Any:
    try:
        return read_json(reply.body, reply.charset)
    except UpstreamFault:
        return {}
