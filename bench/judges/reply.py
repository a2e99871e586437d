"""Asks a model that judges, and reads the JSON object from its reply.

A reply may have its JSON object in a code fence, within prose, or after the model's thoughts.
"""

import json
from collections.abc import Iterator
from typing import Any

import orjson

from bench.models.client import ModelClient, ModelError
from bench.record import REPLY_CHARS, ModelCallRecord, storable

_READ = 20_000
_TRIES = 64
_DECODER = json.JSONDecoder()
_THOUGHTS_END = "</think>"


async def ask(
    model: ModelClient, prompt: str, about: dict[str, Any], asked: list[ModelCallRecord]
) -> str | None:
    """The model's reply to `prompt` about a JSON object; None if there is none. The request is
    added to `asked`.
    """
    messages = [
        {"role": "system", "content": prompt},
        {"role": "user", "content": _json(about)},
    ]
    request = ModelCallRecord(0, "judge", model.model, at=0.0, elapsed_ms=0.0)
    asked.append(request)
    try:
        content = (await model.complete(messages, record=request)).content
    except ModelError:
        return None
    request.reply = storable(content[:REPLY_CHARS])
    return content


def _json(value: object) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # a lone surrogate, which UTF-8 can't hold
        return storable(json.dumps(value, ensure_ascii=False))


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
