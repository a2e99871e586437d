"""Tells credentials by their names."""

import re
from typing import Final

_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_CREDENTIALS: Final = {
    *("key", "keys", "apikey", "token", "accesstoken", "cookie", "secret", "bearer"),
    *("password", "passwd", "pwd", "auth", "authorization", "credential", "credentials"),
    "session",
}


def names_credential(name: str) -> bool:
    """Whether a word of a name of an argument, a header or a variable says that it is a secret."""
    return any(word.lower() in _CREDENTIALS for word in (name, *_WORDS.findall(name)))
