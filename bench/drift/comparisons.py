"""The comparisons of a series of snapshots as JSON Lines, one line for each.

Only the process that holds the folder's lock writes. A kill or a full disk may leave an incomplete
last line. The next line replaces it, and the comparison is made again from its snapshots.
"""

import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from bench.json_lines import ended_lines
from manifests.common.files import own_file, sync_folder

FILE: Final = "drift.jsonl"

_BLOCK: Final = 2**16


def append(folder: Path, content: Mapping[str, Any]) -> None:
    """Append a line; on return it is on disk. Raises `OSError`."""
    line = orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)
    with open(folder / FILE, "ab", buffering=0, opener=_own) as file:
        end = _end_of_last_line(file.fileno())
        os.ftruncate(file.fileno(), end)
        try:
            while line:
                line = line[file.write(line) :]
        except OSError:
            os.ftruncate(file.fileno(), end)
            raise
        os.fsync(file.fileno())
    sync_folder(folder)


def last_compared(folder: Path) -> str | None:
    """The file name of the newer snapshot in the last whole line; None if there is no line.

    Raises `JsonLinesError` if the file can't be read, or the line is no comparison.
    """
    if not (folder / FILE).exists():
        return None
    newest = deque(ended_lines(folder / FILE), maxlen=1)
    if not newest:
        return None
    (last,) = newest
    try:
        return str(orjson.loads(last.text)["after"]["file"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise last.error("it is no comparison of snapshots") from None


def _own(path: str, _: int) -> int:
    return own_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)


def _end_of_last_line(descriptor: int) -> int:
    """Where the last line feed ends, or 0."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(end - _BLOCK, 0)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
