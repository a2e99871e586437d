"""Masks secrets in the texts of upstreams, and in their answers before they are stored.

A secret is found as it is, percent-encoded as in a URL, and escaped as in a JSON text, also in one
that is nested in another, in upper or lower case. It is not found in other forms (base64, reversed,
in parts).
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

import orjson

SHORTEST_SECRET = 4
"""Characters; a shorter text occurs in any text and does not count as a secret."""

MASKED = "***"


class Mask:
    """Replaces a set of secrets; false if there are none."""

    def __init__(self, secrets: Iterable[str]) -> None:
        secret = {text for text in secrets if len(text) >= SHORTEST_SECRET}
        forms = sorted({form for text in secret for form in _spellings(text)}, key=len)
        self.longest = len(forms[-1]) if forms else 0
        self._pattern = re.compile("|".join(map(re.escape, forms[::-1])), re.IGNORECASE)
        self._in_text = {form.lower() for form in forms}
        self._in_json = {_escaped(form).encode().lower() for form in forms}

    def __bool__(self) -> bool:
        return self.longest > 0

    def is_in(self, json: bytes) -> bool:
        """Whether a JSON text contains a secret."""
        lowered = json.lower() if self._in_json else b""
        return any(form in lowered for form in self._in_json)

    def text(self, text: str) -> str:
        lowered = text.lower() if self._in_text else ""
        if not any(form in lowered for form in self._in_text):
            return text  # this check has a tenth of the cost of the pattern
        return self._pattern.sub(MASKED, text)

    def value(self, value: Any) -> Any:
        """Mask the secrets in a JSON value, also in names. `value` itself is changed."""
        whole = [value]
        left: list[Any] = [whole]
        while left:  # no recursion: a document may be nested deeper than the stack
            part = left.pop()
            if isinstance(part, dict):
                fields = [(self.text(name), self._plain(field)) for name, field in part.items()]
                part.clear()
                part.update(fields)
                left += (field for _, field in fields if isinstance(field, dict | list))
            else:
                part[:] = map(self._plain, part)
                left += (item for item in part if isinstance(item, dict | list))
        return whole[0]

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float) and self._pattern.fullmatch(str(value)):
            return MASKED
        return value


@lru_cache(64)
def mask_of(secrets: frozenset[str]) -> Mask:
    return Mask(secrets)


def _spellings(secret: str) -> Iterator[str]:
    for form in (secret, quote(secret), quote(secret, safe=""), quote_plus(secret)):
        yield form
        escaped = form
        for _ in range(2):
            escaped = _escaped(escaped)
            yield escaped
            yield escaped.replace("/", r"\/")


def _escaped(text: str) -> str:
    return orjson.dumps(text).decode()[1:-1]
