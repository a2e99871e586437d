"""JSON whose numbers stay as they are written: 1.10 stays 1.10, and no integer is rounded."""

import json
from typing import Any

import orjson

from gateway.compress.budget import check_time

LONG = 2**16
"""The length in bytes from which on reading lets other threads run, which costs some of its speed,
and is ended by `check_time`.
"""


class Written(str):
    """A number as it is written."""

    __slots__ = ()


def _number(text: str) -> Written:
    check_time()
    return Written(text)


def _object(value: dict[str, Any]) -> dict[str, Any]:
    check_time()
    return value


_DECODER = json.JSONDecoder(parse_int=Written, parse_float=Written)
_LONG_DECODER = json.JSONDecoder(parse_int=_number, parse_float=_number, object_hook=_object)


def read(data: bytes) -> Any:
    """A JSON value with its numbers as `Written`. Raises `ValueError`, `RecursionError`, and
    `TimeoutError` as `check_time` does.
    """
    return (_DECODER if len(data) < LONG else _LONG_DECODER).decode(data.decode())


def json_text(value: object) -> str:
    """The inverse of `read`, without white space."""
    if isinstance(value, Written):
        return value
    check_time()
    if isinstance(value, dict):
        fields = (f"{json_text(name)}:{json_text(item)}" for name, item in value.items())
        return f"{{{','.join(fields)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    return orjson.dumps(value).decode()
