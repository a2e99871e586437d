"""The secrets that an MCP server is given, in all forms in which it may send them back."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Final

from manifests.common.credentials import names_credential
from manifests.providers import ProviderSettings

_LENGTH: Final = 12
"""Characters from which on a text of a variable counts as a secret, whatever the variable's name.
"""


def secrets_of(provider: ProviderSettings, variables: Mapping[str, str]) -> list[str]:
    """The texts to mask. Each header is a secret. A program also gets plain words such as `info`,
    which would be masked in any answer: of its variables those count that are named like a
    credential, and long texts.
    """
    found = dict[str, None]()
    for name, value in variables.items():
        is_secret = provider.mcp is not None or names_credential(name)
        least = 1 if is_secret else _LENGTH
        found |= dict.fromkeys(form for form in _forms(value) if len(form) >= least)
    return [*found]


def _forms(value: str) -> Iterator[str]:
    """The whole value, what follows a scheme as in `Bearer TOKEN`, and what Basic encodes."""
    scheme, _, credential = value.strip().partition(" ")
    credential = credential.strip()
    yield from (value, value.strip(), credential)
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(credential, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield from (pair, pair.partition(":")[2])
