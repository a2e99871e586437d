"""What the paths inside an answer are made of, for all that follow an answer by its paths.

A path leads through the names of objects. The elements of an array share one path, and so do keys
that are data, such as dates, times, numbers and codes: these are no names of fields.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from cache.dates import date_of

ELEMENTS: Final = "[]"
"""Stands in a path for all elements of an array."""

DATA: Final = "*"
"""Stands in a path for all keys that are data."""

JSON_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    dict: "object",
    list: "array",
}

_LONGEST_DATE: Final = 40
_DIGIT = re.compile(r"\d")
_DIGITS = re.compile(r"\d+(?:[-/.:T ]\d+)*Z?")
_CODE = re.compile(r"[A-Z0-9][A-Z0-9.=^-]{1,11}")
_LEAST_CODES: Final = 5


@lru_cache(4_096)
def is_data_key(key: str) -> bool:
    """Whether a key by itself is data: digits, also with the marks of dates and times between them,
    a date, or a time of day.
    """
    if not _DIGIT.search(key):
        return False
    if _DIGITS.fullmatch(key):
        return True
    return len(key) <= _LONGEST_DATE and date_of(key, named=True) is not None


def holds_data(value: Mapping[str, Any]) -> bool:
    """Whether all keys of an object are data; so are five codes or more, such as `EUR`, with values
    of one type.
    """
    if not value:
        return False
    if all(map(is_data_key, value)):
        return True
    codes = len(value) >= _LEAST_CODES and all(map(_CODE.fullmatch, value))
    return codes and len({*map(type, value.values())}) == 1
