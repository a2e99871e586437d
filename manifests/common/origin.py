"""Origins of tools, URLs and commands, as people may see them: without the secrets in them."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

MASKED: Final = "***"

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*)([^?#]*)(.*)", re.DOTALL)

LAUNCHER: Final = re.compile(
    r"(python[\d.]*|node|npx|bunx?|deno|uvx?|pipx|ruby|java|sh|bash)(\.exe)?"
)
"""Programs that run what an argument names."""

_BEFORE: Final = {"-m", "-P", "-I", "-S", "-B", "-u", "-y", "--yes", "-q", "run", "tool", "-jar"}


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


def told_server(words: Sequence[str]) -> str:
    """What a command runs: the script or package that an interpreter or a launcher is given, where
    that is certain, or else the program.
    """
    if not words:
        return ""
    for word in words[1:]:
        if word.endswith(".py") and not word.startswith("-"):
            return told_url(word)
    if LAUNCHER.fullmatch(PurePath(words[0]).name):
        named = next((word for word in words[1:] if word not in _BEFORE), "-")
        if not named.startswith("-") and "=" not in named:
            return told_url(named)
    return " ".join(told_command([*words]))
