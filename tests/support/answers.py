"""Snapshots of answers that a test writes by hand."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from cache import Entry, Recorder, Row, View
from gateway import Result
from gateway.errors import CallError, ErrorCode
from tests.support.rows import REVISION

START = 1_782_810_000.0
"""2026-06-30 09:00 UTC, when an answer is recorded unless a test says otherwise."""

DAY_S = 86_400.0


def envelope(data: Any) -> dict[str, Any]:
    """The envelope of an answer that is no table, as a gateway sends it."""
    provenance = {"source": "simulated", "upstream": "simulated", "age_s": 0.0, "digest": "d"}
    return {
        "ok": True,
        "tool": "t",
        "data": data,
        "columns": None,
        "rows": None,
        "provenance": {**provenance, "attempts": 1, "call_id": "c"},
    }


def answer(data: bytes, *, call_id: str = "call", is_text: bool = False) -> Result:
    """The result of a call, with this JSON as its answer."""
    return Result("t", call_id, view=View(data, False, b"", is_text=is_text))


def document(tool: str, value: Any, **more: Any) -> Row:
    """An answer that is JSON of any form."""
    return _row(tool, orjson.dumps(value), None, None, **more)


def table(
    tool: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), **more: Any
) -> Row:
    """A table. Columns are those of the first row unless they are given."""
    data = b"[%b]" % b",\n".join(map(orjson.dumps, rows))
    names = tuple(columns or (rows[0] if rows else ()))
    return _row(tool, data, names, len(rows), **more)


def error(tool: str, code: ErrorCode, **more: Any) -> Row:
    """A call that failed."""
    data = orjson.dumps(CallError(code, "gone").to_dict())
    return _row(tool, data, None, None, status=code.value, **more)


def _row(
    tool: str,
    data: bytes,
    columns: tuple[str, ...] | None,
    rows: int | None,
    *,
    probe: Any = 0,
    at: float = START,
    ms: float = 100.0,
    status: str = "ok",
    revision: str = REVISION,
    upstream: str = "simulated",
) -> Row:
    entry = Entry(data, columns, rows, at, ms, upstream)
    return Row(tool, revision, {"probe": probe}, status, entry)


def snapshot(path: Path, rows: Iterable[Row]) -> Path:
    """A snapshot of these rows."""

    async def record() -> None:
        async with Recorder.open(path) as recorder:
            await asyncio.gather(*map(recorder.add, rows))

    asyncio.run(record())
    return path
