"""Writes a JSON value as TOON, which takes fewer tokens where objects repeat their fields.

Source: TOON specification 3.0, https://github.com/toon-format/spec. Numbers are written as they
were given: `1.10` stays `1.10`, where the specification's canonical form is `1.1`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from gateway.compress.budget import check_time
from gateway.compress.written import Written

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_PLAIN_TEXT = re.compile(r"(?![\s\-#])[^\x00-\x1f\x7f\u2028\u2029:\"\\\[\]{},]+(?<!\s)")
_LIKE_A_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_LITERALS = ("true", "false", "null")
_ESCAPES = str.maketrans(
    {code: f"\\u{code:04x}" for code in range(0x20)}
    | {
        ord(c): escape
        for c, escape in zip('\\"\n\r\t', (r"\\", r"\"", r"\n", r"\r", r"\t"), strict=True)
    }
)


def toon(value: object) -> str:
    """The text without a line's end behind it; an empty object is an empty text."""
    if isinstance(value, dict):
        return "\n".join(_object(value, 0))
    if isinstance(value, list):
        return "\n".join(_array("", value, 0))
    return scalar(value)


def scalar(value: object) -> str:
    """A text, a number, a boolean or null."""
    if isinstance(value, Written):
        return value
    check_time()
    if not isinstance(value, str):
        return orjson.dumps(value).decode()
    is_plain = (
        _PLAIN_TEXT.fullmatch(value)
        and value not in _LITERALS
        and _LIKE_A_NUMBER.fullmatch(value) is None
    )
    return value if is_plain else _in_quotes(value)


def table_header(columns: Sequence[str], count: int, key: str = "") -> str:
    """The line above the rows of a table. `key` is the name of its field, as it is written."""
    return f"{key}[{count}]{{{','.join(map(_key, columns))}}}:"


def _in_quotes(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else _in_quotes(name)


def _object(value: Mapping[str, Any], depth: int) -> Iterator[str]:
    for name, item in value.items():
        yield from _field(name, item, depth)


def _field(name: str, value: object, depth: int) -> Iterator[str]:
    check_time()
    margin = "  " * depth
    if isinstance(value, dict):
        yield f"{margin}{_key(name)}:"
        yield from _object(value, depth + 1)
    elif isinstance(value, list):
        yield from _array(_key(name), value, depth)
    else:
        yield f"{margin}{_key(name)}: {scalar(value)}"


def _array(key: str, items: Sequence[Any], depth: int, *, is_item: bool = False) -> Iterator[str]:
    """An array that is itself an item of a list is never written as a table."""
    margin, inner = "  " * depth, "  " * (depth + 1)
    if not is_item and (columns := _table_columns(items)) is not None:
        yield margin + table_header(columns, len(items), key)
        for item in items:
            yield inner + ",".join([scalar(item[name]) for name in columns])
    elif not any(isinstance(item, dict | list) for item in items):
        cells = ",".join(map(scalar, items))
        yield f"{margin}{key}[{len(items)}]:{' ' if cells else ''}{cells}"
    else:
        yield f"{margin}{key}[{len(items)}]:"
        for item in items:
            yield from _item(item, depth + 1)


def _item(value: object, depth: int) -> Iterator[str]:
    """An item of a list that is no table: its first line begins with a hyphen."""
    margin = "  " * depth
    if isinstance(value, dict):
        lines = [*_object(value, depth + 1)]
        yield f"{margin}- {lines[0].lstrip(' ')}" if lines else f"{margin}-"
        yield from lines[1:]
    elif isinstance(value, list):
        lines = [*_array("", value, depth, is_item=True)]
        yield f"{margin}- {lines[0].lstrip(' ')}"
        yield from lines[1:]
    else:
        yield f"{margin}- {scalar(value)}"


def _table_columns(items: Sequence[Any]) -> list[str] | None:
    """The columns of objects that have the same fields and nothing nested, else None."""
    if not items or not isinstance(items[0], dict) or not items[0]:
        return None
    columns = items[0].keys()
    for item in items:
        if not isinstance(item, dict) or item.keys() != columns:
            return None
        if any(isinstance(cell, dict | list) for cell in item.values()):
            return None
    return [*columns]
