"""Origins of tools, URLs and commands, as people may see them: without the secrets in them."""

import re
from typing import Final

MASKED: Final = "***"

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*)([^?#]*)(.*)", re.DOTALL)


def is_url(text: str) -> bool:
    return _URL.match(text) is not None


def told_url(url: str) -> str:
    """Scheme, host and path of a URL. Any other text is told as it is."""
    found = _URL.match(url)
    if found is None:
        return url
    scheme, host, path, _ = found.groups()
    return f"{scheme}{host.rpartition('@')[2]}{path}"


def told_command(words: tuple[str, ...] | list[str]) -> list[str]:
    """The program of a command, and that it has arguments."""
    return [*map(told_url, words[:1]), *([MASKED] if len(words) > 1 else [])]
