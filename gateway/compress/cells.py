"""Reads the cells of a table as numbers and days, and compares them."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from math import isfinite
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from cache.dates import date_of
from gateway.compress.budget import check_time

COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "=": eq,
    "!=": ne,
}

_EARLIEST, _LATEST = 1e8, 1e11
"""Numbers between these are Unix times in seconds."""

_EIGHT_DIGITS = re.compile(r"(?:1[6-9]|2[01])\d{6}")


def number(cell: object) -> float | None:
    """The number that a cell is, also as a text with a percent sign or separators."""
    if isinstance(cell, bool):
        return None
    if isinstance(cell, int | float):
        return float(cell)
    if not isinstance(cell, str) or not cell or len(cell) > 32:
        return None
    try:
        value = float(cell.strip().rstrip("%").replace(",", ""))
    except ValueError:
        return None
    return value if isfinite(value) else None


def day(cell: object) -> str:
    """The day of a cell in a column of dates, as ISO 8601 writes it, or an empty text."""
    if isinstance(cell, str) and cell[4:5] == cell[7:8] == "-":
        return cell[:10]  # nearly all are written so
    check_time()
    if not isinstance(cell, str | int | float) or isinstance(cell, bool):
        return ""
    text = dashed(str(cell).strip())
    if text[4:5] == text[7:8] == "-":
        return text[:10]
    found = date_of(text, named=True)
    if found is None or (found.kind != "day" and found.at < _EARLIEST):
        return ""
    seconds = found.at
    while seconds > _LATEST:  # milliseconds and less
        seconds /= 1e3
    return day_of(seconds).isoformat()


def day_of(seconds: float) -> date:
    """The day of a Unix time, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).date()


def dashed(text: str) -> str:
    """Eight digits that are a day, as ISO 8601 writes it; any other text as it is."""
    if _EIGHT_DIGITS.fullmatch(text) is None:
        return text
    return f"{text[:4]}-{text[4:6]}-{text[6:]}"
