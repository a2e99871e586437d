"""Files of records, one JSON object a line, as a run appends to them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

LINE_BYTES = 64 * 2**20
"""Longest line that is read; a run writes none of a quarter of it."""


def whole_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Lines and their numbers from 1; a torn last line is left out.

    Raises `OSError`, and `ValueError` for a line that is too long.
    """
    number = 0
    with file.open("rb") as lines:
        while (line := lines.readline(LINE_BYTES)).endswith(b"\n"):
            number += 1
            yield number, line
    if len(line) == LINE_BYTES:
        raise ValueError(f"{file}:{number + 1}: a line is over {LINE_BYTES} bytes")


def records(file: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Records and their lines; a torn last line is left out.

    Raises `OSError`, and `ValueError` for a line that is none.
    """
    for number, line in whole_lines(file):
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"{file}:{number}: not JSON: {error}") from error
        if not isinstance(record, dict):
            raise ValueError(f"{file}:{number}: not a record")
        yield record, line
