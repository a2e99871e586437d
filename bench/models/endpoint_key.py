"""Which key a request to an OpenAI-compatible endpoint carries.

Each use of an endpoint has a variable of its own, whose key goes wherever that endpoint is.
OPENAI_API_KEY goes to its own origin and nowhere else, whatever else is set. A key that none of
them holds is not sent.
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
        """The variable, where it holds a key: what `run.json` says of it."""
        return self.variable if self.secret else None


def key_for(base_url: str, *own: str) -> EndpointKey:
    """The key of the first variable in `own` that is set, else the general one at its origin."""
    general = (GENERAL,) if _origin(base_url) == GENERAL_ORIGIN else ()
    for variable in (*own, *general):
        if secret := os.environ.get(variable, "").strip():
            return EndpointKey(variable, secret)
    return EndpointKey(own[0])


def _origin(base_url: str) -> tuple[str, str | None, int | None] | None:
    """As the library reads it that will send the request."""
    try:
        url = URL(base_url)
    except ValueError:
        return None
    return url.scheme, url.host, url.port
