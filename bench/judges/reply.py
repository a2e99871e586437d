"""Reads the JSON object from the reply of a model that judges.

A reply may have its JSON object in a code fence, within prose, or after the model's thoughts.
"""

import json
from collections.abc import Iterator
from typing import Any

_READ = 20_000
_TRIES = 64
_DECODER = json.JSONDecoder()
_THOUGHTS_END = "</think>"


def object_with(key: str, text: str) -> dict[str, Any] | None:
    """The one JSON object in a text that has `key`; None if there is none or more than one."""
    said = text.rpartition(_THOUGHTS_END)[2][-_READ:]
    found = [value for value in _objects(said) if key in value]
    return found[0] if found and all(value == found[0] for value in found) else None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, one after another."""
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
