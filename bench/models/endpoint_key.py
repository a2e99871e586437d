"""Chooses the key that a request to an OpenAI-compatible endpoint carries.

Each use of an endpoint has its own variable, whose key is sent to that endpoint wherever it is.
OPENAI_API_KEY is sent only to its own origin, whatever else is set. If none of these variables
holds a key, none is sent.
"""

import os
from dataclasses import dataclass, field

from yarl import URL

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
