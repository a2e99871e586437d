"""Rows whose content follows from a number, and a process that records them until it is killed."""

import asyncio
import random
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import orjson

from cache import DiskTier, Entry, Recorder, Row, Snapshot, call_key, key_prefix
from gateway.errors import CallError, ErrorCode

TOOLS = ("get_coin", "stock_zh_a_hist", "macro_china_cpi")
REVISION = "0" * 16


def entry(number: int, at: float | None = None) -> Entry:
    """A table whose one cell is made from `number`, a few hundred bytes to some kilobytes long."""
    luck = random.Random(number)
    data = b'[{"a":"%b"}]' % luck.randbytes(luck.randrange(100, 2_000)).hex().encode()
    return Entry(data, ("a",), 1, time.time() if at is None else at, 5.0, "simulated")


def row(number: int, at: float | None = None) -> Row:
    """Every tenth is an error."""
    tool = TOOLS[number % len(TOOLS)]
    if number % 10:
        return Row(tool, REVISION, {"n": number}, "ok", entry(number, at))
    return failed(Row(tool, REVISION, {"n": number}, "upstream_error", entry(number, at)))


def failed(row: Row) -> Row:
    """With an error of its status in place of an answer."""
    said = b'{"code":"%b"}' % row.status.encode()
    told = replace(row.entry, data=said, columns=None, rows=None, digest="")
    return replace(row, entry=told)


def kept(folder: Path) -> int:
    """Rows in a cache that a process is filling, as far as it has got."""
    uri = f"{(folder / 'cache.db').as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            return int(database.execute("SELECT COUNT(*) FROM Cache").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def key(number: int) -> str:
    return call_key(key_prefix("t", REVISION), {"n": number})


def rewritten(source: Path, out: Path, change: Callable[[Row], Row | None]) -> Path:
    """A snapshot of what `change` makes of each row of another one; None leaves a row out."""

    async def record() -> None:
        with Snapshot(source) as rows:
            async with Recorder.open(out) as recorder:
                changed = [change(row) for row in rows.rows()]
                await asyncio.gather(*(recorder.add(row) for row in changed if row is not None))

    asyncio.run(record())
    return out


def answering(row: Row, text: str) -> Row:
    """With another answer, a table of one cell."""
    data = orjson.dumps([{"a": text}])
    told = replace(row.entry, data=data, columns=("a",), rows=1, digest="")
    return replace(row, status="ok", entry=told)


def refusing(row: Row, code: ErrorCode = ErrorCode.UPSTREAM_ERROR) -> Row:
    """With an error that a gateway can read."""
    data = orjson.dumps(CallError(code, "gone").to_dict())
    told = replace(row.entry, data=data, columns=None, rows=None, digest="")
    return replace(row, status=code.value, entry=told)


async def _record(path: Path, start: int) -> None:
    """Says each number when it is acknowledged."""
    async with Recorder.open(path) as recorder:

        async def work(numbers: range) -> None:
            for number in numbers:
                await recorder.add(row(number))
                sys.stdout.write(f"{number}\n")
                sys.stdout.flush()

        await asyncio.gather(*(work(range(start + n, 10**9, 8)) for n in range(8)))


async def _fill(folder: Path, start: int) -> None:
    """Says each number before it is put."""
    async with DiskTier.open(folder, 2**30) as tier:
        for number in range(start, 10**9):
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
            tier.put(key(number), entry(number, at=1.0), keep_s=1e6)
            if number % 50 == 0:
                await asyncio.sleep(0.001)


if __name__ == "__main__":
    action = {"record": _record, "fill": _fill}[sys.argv[1]]
    asyncio.run(action(Path(sys.argv[2]), int(sys.argv[3])))
