"""Reads JSON as callers send it; an object with a repeated name is marked.

The reader does not just keep the last value: nobody knows which one is meant (RFC 8259, section 4).
For nearly every text, counting shows that no name is repeated. The rest is read once more, by a
reader that shows all names.
"""

import json
from collections import Counter
from functools import partial
from itertools import islice
from typing import Any

import orjson
from anyio import to_thread

AT_ONCE = 2**14
"""Bytes of a text that is read twice on the event loop (1 ms); longer texts may be read in a
thread.
"""

STEPS = 2**12
"""Values that are searched for names on the event loop (0.2 ms)."""

_BLANKS = b" \t\r\n"


class Repeating(dict[str, Any]):
    """An object in which the names in `repeated` occur more than once, with their last values."""

    repeated: tuple[str, ...] = ()


def read_json(text: bytes | bytearray, *, in_thread: bool = False) -> Any:
    """Read a JSON text; objects with a repeated name become `Repeating`.

    Raises `orjson.JSONDecodeError`, also for a text that has to be read twice and is too long or
    too deep for that.
    """
    value = orjson.loads(text)
    colons = text.count(b":")
    if type(value) is dict and len(value) == colons:  # the usual case
        return value
    # A colon outside all strings follows the quote that ends a name.
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
        return json.loads(text, object_pairs_hook=_object, parse_int=orjson.loads)
    except RecursionError:
        raise orjson.JSONDecodeError("nested too deeply", "", 0) from None


async def read_json_aside(text: bytes | bytearray) -> Any:
    """As `read_json`, for texts of any length: long ones are read in a thread."""
    if len(text) <= AT_ONCE:
        return read_json(text)
    return await to_thread.run_sync(partial(read_json, text, in_thread=True))


def _names_written(value: Any) -> int:
    """Count the names in a value when it is written without escapes; -1 if it can't be written."""
    try:
        return orjson.dumps(value).count(b'":')
    except orjson.JSONEncodeError:  # nested too deeply
        return -1


def _names(value: Any, most: int, steps: int) -> int:
    """Count the names in all objects, up to `most`; fewer if that takes too many `steps`."""
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
