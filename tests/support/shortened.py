"""Tables to shorten, and the rows that a shortened one shows."""

import csv
import io
from typing import Any

import orjson

from cache import Entry
from finport import Compressed


def table(rows: list[dict[str, Any]]) -> Entry:
    data = b"[" + b",\n".join(map(orjson.dumps, rows)) + b"]"
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    return Entry(data, columns, len(rows), 0.0, 0.0, "live")


def cells(made: Compressed) -> list[dict[str, str]]:
    """The rows of a shortened table."""
    lines = [line for line in made.text.split("\n") if not line.startswith("#")]
    return [*csv.DictReader(io.StringIO("\n".join(lines)))]
