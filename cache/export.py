"""Exports snapshots to JSON Lines and Parquet, one row per recorded call.

Both have the fields `key`, `row` (the row's digest), `tool`, `revision`, `arguments`, `status`,
`body`, `columns`, `rows`, `recorded_at` (Unix seconds), `latency_ms`, `upstream` and `digest` (the
answer's). In Parquet `arguments` and `body` are JSON texts. Rows keep the order of the file. They
are read a few at a time, whatever the snapshot's size.
"""

from collections.abc import Collection
from typing import Any, BinaryIO

import orjson

from cache.snapshot import Snapshot

GROUP_BYTES = 16 * 2**20
"""Bytes of bodies in one row group of a Parquet file."""


def write_jsonl(snapshot: Snapshot, out: BinaryIO, without: Collection[str] = ()) -> None:
    """Write each row as one line, except rows of the tools `without`. Raises `SnapshotError`."""
    for row in snapshot.rows():
        if row.tool not in without:
            body = orjson.Fragment(row.entry.data.replace(b"\n", b""))
            fields = {**row.head, "body": body, **row.entry.head}
            out.write(orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE))


def write_parquet(snapshot: Snapshot, out: BinaryIO, without: Collection[str] = ()) -> None:
    """Write each row as one record, except rows of the tools `without`.

    Raises `SnapshotError`, and `ImportError` without pyarrow.
    """
    import pyarrow
    from pyarrow import parquet

    text, names = pyarrow.string(), pyarrow.list_(pyarrow.string())
    schema = pyarrow.schema(
        {
            **dict.fromkeys(("key", "row", "tool", "revision", "arguments", "status"), text),
            "body": pyarrow.large_string(),
            "columns": names,
            "rows": pyarrow.int64(),
            "recorded_at": pyarrow.float64(),
            "latency_ms": pyarrow.float64(),
            "upstream": text,
            "digest": text,
        }
    )
    group: list[dict[str, Any]] = []
    size = 0
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        for row in snapshot.rows():
            if row.tool in without:
                continue
            texts = {"arguments": orjson.dumps(row.arguments), "body": row.entry.data}
            said = {name: text.decode() for name, text in texts.items()}
            group.append({**row.head, **row.entry.head, **said})
            size += len(row.entry.data)
            if size >= GROUP_BYTES:
                writer.write_table(pyarrow.Table.from_pylist(group, schema))
                group, size = [], 0
        writer.write_table(pyarrow.Table.from_pylist(group, schema))
