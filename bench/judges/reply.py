"""What a model that judges replied: the JSON object in a text.

A reply may wrap its JSON object in a code fence, in prose, or put it behind its thoughts.
"""

import json
from collections.abc import Iterator
from typing import Any

_READ = 20_000
_TRIES = 64
_DECODER = json.JSONDecoder()
_THOUGHTS_END = "</think>"


def object_with(key: str, text: str) -> dict[str, Any] | None:
    """The one JSON object in a text that has `key`; None where there is none, or another too."""
    said = text.rpartition(_THOUGHTS_END)[2][-_READ:]
    found = [value for value in _objects(said) if key in value]
    return found[0] if found and all(value == found[0] for value in found) else None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that stand in a text, one after the other."""
    place = text.find("{")
    for _ in range(_TRIES):
        if place < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            yield value
        place = text.find("{", end)
