"""JSON whose numbers stay as they are written: 1.10 stays 1.10, and no integer is rounded."""

import json
from typing import Any

import orjson


class Written(str):
    """A number as it is written."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_int=Written, parse_float=Written)


def read(data: bytes) -> Any:
    """A JSON value with its numbers as `Written`. Raises `ValueError` and `RecursionError`."""
    return _DECODER.decode(data.decode())


def json_text(value: object) -> str:
    """The inverse of `read`, without white space."""
    if isinstance(value, Written):
        return value
    if isinstance(value, dict):
        fields = (f"{json_text(name)}:{json_text(item)}" for name, item in value.items())
        return f"{{{','.join(fields)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    return orjson.dumps(value).decode()
