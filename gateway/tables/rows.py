"""Reads rows of the whole table behind a result's handle, the same for every part of the API."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from anyio import to_thread

from cache import Entry
from cache.records import picked
from gateway.errors import CallError, ErrorCode
from gateway.pipeline.bind import printable
from manifests.common.nearest import hint, nearest

MOST = 10_000
"""Maximum rows of a page."""

AT_ONCE = 5_000
"""Rows that are counted off on the event loop (0.1 ms a thousand). More rows are counted off in a
thread, and so are all rows if columns are picked (10 ms a thousand).
"""

BYTES_AT_ONCE = 2**20
"""Bytes of a table, or of a page, that are scanned on the event loop."""

NAMED = 200
"""The number of columns that the details of an error list, and that are searched for the nearest
name.
"""

NEAREST = 3
"""The most names that an error proposes in place of an unknown one."""

LISTED, LISTED_CHARS = 20, 40
"""How many columns the text of an error lists, and how much of each name."""


@dataclass(slots=True, frozen=True)
class Page:
    """Rows of a cached table. `rows` is the number of rows in the whole table and `offset` the
    number before these. `columns` are the columns of these rows and `data` is their JSON. If the
    rows were filtered, `matched` is the number of rows that passed, and `offset` counts these only.
    """

    handle: str
    columns: tuple[str, ...]
    rows: int
    offset: int
    data: bytes
    matched: int | None = None

    @property
    def value(self) -> list[dict[str, Any]]:
        """The decoded rows."""
        decoded: list[dict[str, Any]] = orjson.loads(self.data)
        return decoded

    def to_json(self) -> bytes:
        about = {"handle": self.handle, "columns": self.columns, "rows": self.rows}
        if self.matched is not None:
            about["matched"] = self.matched
        head = orjson.dumps({**about, "offset": self.offset})[:-1]
        return b'%b,"data":%b}' % (head, self.data)


async def read(
    handle: str,
    entry: Entry,
    offset: int,
    limit: int,
    columns: Sequence[str] | None,
    where: str | None = None,
) -> Page | CallError:
    """Read `limit` rows of an entry from `offset` on; a negative offset counts from the end.

    `columns` are names, or names in one text (`column_names`); without any, all columns are read.
    Of the rows only those that pass `where` (`gateway.tables.filter`) are read and counted.
    """
    if type(offset) is not int or type(limit) is not int or not 1 <= limit <= MOST:
        text = f"offset and limit are whole numbers, and the limit is from 1 to {MOST}"
        return CallError(ErrorCode.INVALID_ARGUMENTS, text)
    if isinstance(columns, str):
        columns = column_names(columns)
    if not isinstance(where, str | None):
        return CallError(ErrorCode.INVALID_ARGUMENTS, "where is a text")
    if columns and not all(isinstance(name, str) for name in columns):
        return CallError(ErrorCode.INVALID_ARGUMENTS, "columns are names")
    if entry.rows is None:
        return CallError(ErrorCode.NOT_FOUND, "this answer is no table and has no rows")
    if where is not None and where.strip():
        return await to_thread.run_sync(_filtered, handle, entry, offset, limit, columns, where)
    start = max(entry.rows + offset, 0) if offset < 0 else min(offset, entry.rows)
    is_long = len(entry.data) > BYTES_AT_ONCE or min(start, entry.rows - start) + limit > AT_ONCE
    if columns or is_long:
        return await to_thread.run_sync(_page, handle, entry, start, limit, columns)
    return _page(handle, entry, start, limit, None)


def column_names(text: str) -> list[str]:
    """Names separated by commas; as a JSON array if one contains a comma."""
    if text.lstrip().startswith("["):
        try:
            names = orjson.loads(text)
        except orjson.JSONDecodeError:
            names = None
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
    return [name for part in text.split(",") if (name := part.strip())]


def _page(
    handle: str, entry: Entry, offset: int, limit: int, columns: Sequence[str] | None
) -> Page | CallError:
    there = entry.columns or ()
    names = tuple(dict.fromkeys(columns or there))
    if (unknown := _first_unknown(names, there)) is not None:
        return unknown
    data = entry.page(offset, limit, names if columns else None)
    return Page(handle, names, entry.rows or 0, offset, data)


def _filtered(
    handle: str,
    entry: Entry,
    offset: int,
    limit: int,
    columns: Sequence[str] | None,
    where: str,
) -> Page | CallError:
    """Read every row, a piece of the table at a time, and keep the lines of the page."""
    from gateway.tables.filter import FilterError, RowFilter

    there, matched = entry.columns or (), 0
    names = tuple(dict.fromkeys(columns or there))
    lines = deque[bytes](maxlen=min(-offset, entry.rows or 0) if offset < 0 else limit)
    try:
        row_filter = RowFilter.of(where)
        if (unknown := _first_unknown((*names, *row_filter.columns), there)) is not None:
            return unknown
        for piece in entry.pieces():
            rows = orjson.loads(piece)
            row_filter.see(rows)
            for row, line in zip(rows, piece[1:-1].split(b",\n"), strict=False):
                if row_filter.passes(row):
                    matched += 1
                    if offset < 0 or offset < matched <= offset + limit:
                        lines.append(line)
        row_filter.end()
    except FilterError as error:
        return CallError(ErrorCode.INVALID_ARGUMENTS, str(error))
    start = min(offset, matched) if offset >= 0 else matched - len(lines)
    data = b"[%b]" % b",\n".join([*lines][:limit])
    if columns:
        data = picked(data, names)
    return Page(handle, names, entry.rows or 0, start, data, matched)


def _first_unknown(names: Sequence[str], there: Sequence[str]) -> CallError | None:
    """The error for the first name of no column, with the nearest names of columns."""
    known = {*there}
    unknown = next((name for name in names if name not in known), None)
    if unknown is None:
        return None
    said, named = printable(unknown), [*there[:NAMED]]
    near = [*dict.fromkeys((*_meant(said, named), *nearest(said, named, NEAREST)))][:NEAREST]
    end = hint(near) if near else f"; its columns are {_listed(there)}"
    text = f"the table has no column {said!r}{end}"
    details = {"nearest": near, "allowed": named}
    return CallError(ErrorCode.INVALID_ARGUMENTS, text, details=details)


def _meant(name: str, columns: Sequence[str]) -> list[str]:
    """The columns that a name certainly means in other words or in the other language."""
    from gateway.compress.columns import SURE, named_columns
    from gateway.compress.question import Question

    found = named_columns(Question.of(name.replace("_", " ")), columns, {})
    return [one.column for one in found if one.sureness >= SURE]


def _listed(columns: Sequence[str]) -> str:
    """The first columns by name, and how many more there are."""
    shown = ", ".join(printable(name, LISTED_CHARS) for name in columns[:LISTED])
    return shown if len(columns) <= LISTED else f"{shown} and {len(columns) - LISTED} more"
