"""The model that requests go to, its URL and its key.

Each use of an endpoint has its own variable, whose key is sent to that endpoint wherever it is.
OPENAI_API_KEY is sent only to its own origin, whatever else is set. If none of these variables
holds a key, none is sent.
"""

import os
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from yarl import URL

from bench.environment import MODEL_KEY

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
    from bench.models.client import ModelClient


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """An agent's model. If `temperature` or `max_tokens` (of one answer) is None, the model's own
    default applies. `stream` asks for answers in pieces.
    """

    model: str
    base_url: str
    temperature: float | None = None
    max_tokens: int | None = None
    stream: bool = False

    def __post_init__(self) -> None:
        check_url("--base-url", self.base_url, MODEL_KEY)

    @property
    def key(self) -> EndpointKey:
        return key_for(self.base_url, MODEL_KEY)

    def about(self) -> dict[str, Any]:
        """The settings that must be equal in a comparable run, for `run.json`."""
        names = ("model", "base_url", "temperature", "max_tokens", "stream")
        settings = {name: getattr(self, name) for name in names}
        return {**settings, "base_url": self.base_url.rstrip("/"), "model_key": self.key.source}

    def open(
        self, seed: int | None = None, key: EndpointKey | None = None
    ) -> AbstractAsyncContextManager["ModelClient"]:
        """A client of the model, for as long as the context is open; with `key`, if it is not the
        agent's.
        """
        from bench.models.client import ModelClient

        key = key or self.key
        return ModelClient.open(
            self.base_url,
            self.model,
            key.secret,
            key_variable=key.variable,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=seed,
            stream=self.stream,
        )


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
