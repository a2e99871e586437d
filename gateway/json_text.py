"""JSON as callers send it, where an object that has a name twice is marked, not cut to the last.

Which of two values is meant nobody knows (RFC 8259, section 4). Counting finds out for nearly every
text that no name stands twice; the rest is read once more, by a reader that shows all names.
"""

import json
from collections import Counter
from functools import partial
from itertools import islice
from typing import Any

import orjson
from anyio import to_thread

AT_ONCE = 2**14
"""Bytes of a text that is read twice on the event loop (1 ms); longer ones may be in a thread."""

STEPS = 2**12
"""Values that are looked at for names on the event loop (0.2 ms)."""

_BLANKS = b" \t\r\n"


class Repeating(dict[str, Any]):
    """An object in which the names `repeated` stand more than once; their last values are kept."""

    repeated: tuple[str, ...] = ()


def read_json(text: bytes | bytearray, *, in_thread: bool = False) -> Any:
    """The value; objects that have a name twice are `Repeating`. Raises `orjson.JSONDecodeError`,
    also for a text that is too long or too deep to be read twice, and has to be.
    """
    value = orjson.loads(text)
    colons = text.count(b":")
    if type(value) is dict and len(value) == colons:  # as it mostly is
        return value
    # Before a colon that is in no string stands the quote that ends a name.
    most = text.translate(None, _BLANKS).count(b'":')
    if type(value) is dict and len(value) == most:
        return value
    if b"\\" not in text and _names_written(value) == most:  # so no string holds a quote
        return value
    if _names(value, most, len(text) if in_thread else STEPS) == most:
        return value
    if len(text) > AT_ONCE and not in_thread:
        raise orjson.JSONDecodeError("too long to be searched for names that stand twice", "", 0)
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except RecursionError:
        raise orjson.JSONDecodeError("nested too deeply", "", 0) from None


async def read_json_aside(text: bytes | bytearray) -> Any:
    """The same for texts of any length: long ones are read in a thread."""
    if len(text) <= AT_ONCE:
        return read_json(text)
    return await to_thread.run_sync(partial(read_json, text, in_thread=True))


def _names_written(value: Any) -> int:
    """How many names a value has that is written without escapes; -1 where it can't be written."""
    try:
        return orjson.dumps(value).count(b'":')
    except orjson.JSONEncodeError:  # nested too deeply
        return -1


def _names(value: Any, most: int, steps: int) -> int:
    """How many names stand in all objects, up to `most`; fewer where that takes too many steps."""
    found = 0
    objects: list[Any] = [value]
    arrays: list[Any] = []
    while found < most and steps > 0 and (objects or arrays):
        part = (objects or arrays).pop()
        if type(part) is dict:
            found += len(part)
            part = part.values()
        elif type(part) is not list:
            continue
        steps -= len(part) + 1
        for inner in islice(part, max(steps, 0)):
            if type(inner) is dict:
                objects.append(inner)
            elif type(inner) is list:
                arrays.append(inner)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    marked = Repeating(value)
    marked.repeated = tuple(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
    return marked


def _integer(digits: str) -> int | float:
    """As orjson reads it."""
    return int(digits) if len(digits) < 20 else float(digits)
