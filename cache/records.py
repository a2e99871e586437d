"""Selects columns of cached records.

Values are copied verbatim. Parsing and encoding them again would round integers of more than 64
bits.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

import orjson

_TEXT = rb'"(?:[^"\\]|\\.)*+"'
_FIELD = re.compile(rb"(%b):(%b|[^\s\",{}\[\]]++)" % (_TEXT, _TEXT))
NESTS = (b'":{', b'":[')
"""Bytes that occur in a record if one of its values is an object or an array."""


def picked(table: bytes, columns: Sequence[str]) -> bytes:
    """The same table, one record a line, with only `columns`, in that order."""
    places = {orjson.dumps(column): place for place, column in enumerate(columns)}
    lines = table[1:-1].split(b",\n") if len(table) > 2 else []
    return b"[%b]" % b",\n".join(_picked(line, places) for line in lines)


def _picked(record: bytes, places: Mapping[bytes, int]) -> bytes:
    fields = _fields(record, places)
    names: Iterable[bytes] = places
    if len(fields) < len(places):  # a record of few names takes no longer than these
        names = sorted(fields.keys() & places.keys(), key=places.__getitem__)
    return b"{%b}" % b",".join(b"%b:%b" % (n, fields[n]) for n in names if n in fields)


def _fields(record: bytes, names: Mapping[bytes, int]) -> Mapping[bytes, bytes]:
    """The values of a record by name; names and values are as they are written."""
    if not any(nests in record for nests in NESTS):
        fields = dict(_FIELD.findall(record))
        if len(fields) >= len(names) and all(name in fields for name in names):
            return fields
    read = json.loads(record, parse_int=_written, parse_float=_written)
    return {orjson.dumps(name): orjson.dumps(value) for name, value in read.items()}


def _written(number: str) -> orjson.Fragment:
    return orjson.Fragment(number)
