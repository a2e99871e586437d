"""The model that requests go to, its URL and its key.

Each use of an endpoint has its own variable, whose key is sent to that endpoint wherever it is.
OPENAI_API_KEY is sent only to its own origin, whatever else is set. If none of these variables
holds a key, none is sent.
"""

import os
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from yarl import URL

from bench.environment import MODEL_KEY
from gateway.pipeline.bind import masked

GENERAL = "OPENAI_API_KEY"
GENERAL_ORIGIN = ("https", "api.openai.com", 443)


@dataclass(frozen=True, slots=True)
class EndpointKey:
    """A key and the variable that it was read from; without one, the variable to set."""

    variable: str
    secret: str | None = field(default=None, repr=False)

    @property
    def source(self) -> str | None:
        """The variable if it holds a key, for `run.json`."""
        return self.variable if self.secret else None


def key_for(base_url: str, *own: str) -> EndpointKey:
    """The key of the first variable in `own` that is set, else OPENAI_API_KEY at its origin."""
    general = (GENERAL,) if _origin(base_url) == GENERAL_ORIGIN else ()
    for variable in (*own, *general):
        if secret := os.environ.get(variable, "").strip():
            return EndpointKey(variable, secret)
    return EndpointKey(own[0])


def _origin(base_url: str) -> tuple[str, str | None, int | None] | None:
    """The origin of a URL, as read by the library that will send the request."""
    try:
        url = URL(base_url)
    except ValueError:
        return None
    return url.scheme, url.host, url.port


if TYPE_CHECKING:
    from bench.models.client import ErrorStreak, ModelClient


RESERVED = frozenset({"model", "messages", "tools", "tool_choice", "stream", "stream_options", "n"})
"""Fields of a request that Finport sets itself."""

BODY_BYTES = 2**16
"""The largest JSON of fields that are added to each request."""

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token of RFC 9110
_OWN_HEADERS = frozenset({"authorization", "content-type", "content-length", "host", "accept"})


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """A model. Each request has the fields `body` (temperature, top_p, seed, ...) beside its
    messages and tools, and nothing else that was not asked for: the model's own defaults apply.
    `headers` has by header the environment variable that holds its value. `stream` asks for answers
    in pieces. Raises `ValueError`.
    """

    model: str
    base_url: str
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False

    def __post_init__(self) -> None:
        check_url("--base-url", self.base_url, MODEL_KEY)
        check_body("--body", self.body)
        check_headers("--header", self.headers)

    @property
    def key(self) -> EndpointKey:
        return key_for(self.base_url, MODEL_KEY)

    def about(self) -> dict[str, Any]:
        """The settings that must be equal in a comparable run, for `run.json`."""
        return {
            "model": self.model,
            "base_url": self.base_url.rstrip("/"),
            "body": masked(dict(self.body)),
            "headers": dict(self.headers),
            "stream": self.stream,
            "model_key": self.key.source,
        }

    def open(
        self, key: EndpointKey | None = None, streak: "ErrorStreak | None" = None
    ) -> AbstractAsyncContextManager["ModelClient"]:
        """A client of the model, for as long as the context is open; with `key`, if it is not the
        agent's. Its requests are noted in `streak`.
        """
        from bench.models.client import ModelClient

        key = key or self.key
        return ModelClient.open(
            self.base_url,
            self.model,
            key.secret,
            key_variable=key.variable,
            body=self.body,
            headers={name: os.environ.get(of, "") for name, of in self.headers.items()},
            stream=self.stream,
            streak=streak,
        )


def check_body(option: str, body: Mapping[str, Any]) -> None:
    """Raises `ValueError` if the fields can't be added to a request."""
    if taken := sorted(RESERVED & body.keys()):
        raise ValueError(f"{option}: Finport sets the field {taken[0]!r} itself")
    try:
        size = len(orjson.dumps(dict(body)))
    except TypeError as error:
        raise ValueError(f"{option}: {error}") from None
    if size > BODY_BYTES:
        raise ValueError(f"{option} has {size} bytes as JSON, over {BODY_BYTES}")


def check_headers(option: str, headers: Mapping[str, str]) -> None:
    """Raises `ValueError` for a header that can't be sent, or whose variable is not set."""
    for name, variable in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise ValueError(f"{option}: {name[:40]!r} is no header that can be added")
        value = os.environ.get(variable)
        if value is None:
            text = f"{option} {name}=VARIABLE wants the environment variable with its value"
            raise ValueError(f"{text}; {variable[:40]!r} is not set")
        if not value.isprintable():
            raise ValueError(f"{option} {name}: the value of {variable} can't be sent")


def check_url(option: str, text: str, key_variable: str) -> None:
    """Raises `ValueError` if the text is not an HTTP URL or may contain a secret."""
    try:
        url = urlsplit(text)
        is_whole = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or {"@", "?", "#"}.intersection(text):
        raise ValueError(
            f"{option} wants http://HOST:PORT/PATH or https://..., up to before "
            f"/chat/completions, without credentials or query; the key goes into {key_variable}"
        )
