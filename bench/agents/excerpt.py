"""Shortens a tool's output to a bound without a model.

Of a table it keeps whole rows: the newest ones if the table is ordered by date with the oldest
first, else the first ones. A note says which of how many rows they are. Of anything else it keeps
the start. An output may have megabytes, and a round may have sixteen. So it decodes no more of an
output than it may show, and takes at most a millisecond of the event loop for each.
"""

from contextlib import suppress
from json import JSONDecoder

import orjson

from cache.order import LONGEST, date_order

COUNTED = 2**18
"""Rows are counted within this many bytes."""

PARSED = 2**14
"""The longest array on one line that is parsed to count its elements, in bytes."""

PARSED_CHARS = 2_000
"""The longest excerpt in which an array on one line is cut between its elements, in characters."""

Part = tuple[int, int]
"""The place of a table that was shortened before: how many rows precede it, and how many there are
in all.
"""

_BETWEEN = "},\n{"
_NOTE_CHARS = 64
_DECODER = JSONDecoder()


def whole(data: bytes, most: int, part: Part | None = None) -> str | None:
    """JSON as text; None if it has over `most` characters or is only a `part` of a table."""
    if part is not None or len(data) > 4 * most:
        return None
    text = data.decode(errors="replace")
    return text if len(text) <= most else None


def excerpt(data: bytes, most: int, part: Part | None = None) -> str:
    """JSON as text of at most `most` characters, whole or cut.

    A table has one record a line (`cache.entry.Entry`) and is cut between records. A table that was
    shortened before gets a note of its `part`, even if all of it fits. An array of objects on one
    line, as documents have it, is cut between objects if the excerpt is short.
    """
    text = whole(data, most, part)
    if text is not None:
        return text
    head, room = data[: 4 * most].decode(errors="ignore"), most - _NOTE_CHARS
    if head.startswith("[{") and (_BETWEEN in head or part is not None):
        counted, is_all = data.count(b"\n", 0, COUNTED) + 1, len(data) <= COUNTED
        rises = bool(part and part[0]) or _rises(data, counted if is_all else len(data))
        rows, shown = _last_rows(data, most, room) if rises else _first_rows(head, room)
        if shown:
            return f"{rows}\n({_which(shown, counted, is_all, rises, part)})"
        if rises:  # the start of its newest row
            last = data.rfind(b"\n") + 1
            head = f"[{data[last : last + 4 * most].decode(errors='ignore')}"
    elif head.startswith("[{") and most <= PARSED_CHARS:
        shown, end = _rows_by_parsing(head, room)
        if shown:
            return f"{head[:end]}]\n(the first {shown} of {_rows_on_one_line(data)})"
    note = f"\n(cut here; the whole has {len(data)} bytes)"
    return head[: most - len(note)] + note


def _rises(table: bytes, rows: int) -> bool:
    """Whether the last rows of a table are its newest; `rows` is an upper bound of their number."""
    first = table[1:LONGEST].partition(b",\n")[0].removesuffix(b"]")
    with suppress(orjson.JSONDecodeError):
        order = date_order(table, [*orjson.loads(first)], rows)
        return order is not None and order.rises
    return False


def _first_rows(head: str, room: int) -> tuple[str, int]:
    """The first whole rows that fit into `room` characters, and their number."""
    if len(head) <= room and head.endswith("}]"):
        return head, head.count(_BETWEEN) + 1
    end = head.rfind(_BETWEEN, 0, room + 3) + 1
    return f"{head[:end]}]", head.count(_BETWEEN, 0, end + 3) if end else 0


def _last_rows(table: bytes, most: int, room: int) -> tuple[str, int]:
    """The last whole rows that fit into `room` characters, and their number."""
    tail = table[-4 * most :].decode(errors="ignore")
    if len(tail) <= room and len(table) <= 4 * most:
        return tail, tail.count(_BETWEEN) + 1
    begin = tail.find(_BETWEEN, max(len(tail) - room - 2, 0))
    return f"[{tail[begin + 3 :]}", tail.count(_BETWEEN, begin) if begin >= 0 else 0


def _which(shown: int, counted: int, is_all: bool, rises: bool, part: Part | None) -> str:
    """A note that says which rows are shown, of how many that could be counted."""
    if part is not None and is_all:
        offset = part[0] + (counted - shown if rises else 0)
        return f"rows {offset + 1}-{offset + shown} of {part[1]}"
    of = f"{counted} rows" if is_all else f"more than {counted - 1} rows"
    return f"the {'last' if rises else 'first'} {shown} of {of}"


def _rows_by_parsing(head: str, room: int) -> tuple[int, int]:
    shown = end = 0
    with suppress(ValueError, RecursionError):
        while head.startswith("{", place := end + 1):
            _, after = _DECODER.raw_decode(head, place)
            if after > room:
                break
            shown, end = shown + 1, after
    return shown, end


def _rows_on_one_line(data: bytes) -> str:
    if len(data) <= PARSED:
        with suppress(orjson.JSONDecodeError):
            return f"{len(orjson.loads(data))} rows"
    return f"the rows in {len(data)} bytes"
