"""Files of records, one JSON object a line, as a run appends to them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson


def records(file: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Records and their lines; a torn last line is left out.

    Raises `OSError`, and `ValueError` (or its `orjson.JSONDecodeError`) for a line that is none.
    """
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            record = orjson.loads(line)
            if not isinstance(record, dict):
                raise ValueError(f"{file}:{number}: not a record")
            yield record, line
