"""Paths of requests as logs and spans show them: bounded, and without parts that may be a key."""

from manifests import Catalog

MAX_PATH = 256

LONG = 16
"""A part of a path of this many characters or more may be a key."""


def shown_path(target: str, catalog: Catalog) -> str:
    """The path of a request's target as bounded plain text; `***` replaces what may be a key."""
    if not target.startswith("/") and target != "*":
        return "***"  # a whole address, which may hold a password
    parts = target.partition("?")[0].split("/")
    known = (p if len(p) < LONG or catalog.get(p) is not None else "***" for p in parts)
    text = "/".join(known)[:MAX_PATH].replace('"', "%22")
    return text.encode("ascii", "backslashreplace").decode()
