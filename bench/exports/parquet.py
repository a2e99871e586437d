"""Exports Parquet: `calls.parquet` and `episodes.parquet` in one folder, a row a record.

Columns have the names of the records' fields (`gateway/trace.py`, `bench/record.py`). Times are
timestamps in UTC to the millisecond, durations are milliseconds, `arguments` and `parameters` are
JSON texts. The `output` of a call is its text, of a failed call JSON with `error`. `tool_calls`,
`model_calls` and `judgement` are structs. The file's metadata `finport.run` has the run's settings
as JSON, and `finport.simulated` says what was simulated, if anything. Needs the extra
`finport[parquet]`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from bench.exports.target import new_folder
from bench.json_lines import Line
from bench.record import EpisodeRecord
from bench.runs.about import simulated
from bench.runs.reader import ExportError, Run, json_text
from gateway import CallRecord

_FILES = ("calls.parquet", "episodes.parquet")
_TIMES = ("at", "started_at")

GROUP_BYTES = 8 * 2**20
"""How many bytes of the run's lines form one row group."""


def write(run: Run, out: Path, *, force: bool = False) -> int:
    """Write the records of `run` as two files in the folder `out`, and return the number of
    episodes.

    Raises `ExportError`, also where pyarrow is missing, `RunDirectoryError` and `OSError`.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ExportError("Parquet needs pyarrow: pip install 'finport[parquet]'") from error
    about = {"finport.run": json_text(run.about.content)}
    if found := simulated(run.about):
        about["finport.simulated"] = "; ".join(found)
    calls, episodes = (
        pyarrow.schema(_fields(pyarrow, kind), about) for kind in (CallRecord, EpisodeRecord)
    )
    with new_folder(out, lambda file: file.name in _FILES, force=force) as folder:
        _write(folder / "calls.parquet", calls, run.calls())
        return _write(folder / "episodes.parquet", episodes, run.episodes())


def _write(file: Path, schema: Any, records: Iterable[tuple[Any, Line]]) -> int:
    """Write the records as rows and return their number."""
    import pyarrow
    from pyarrow import parquet

    written = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(records):
            writer.write_table(pyarrow.Table.from_pylist(group, schema))
            written += len(group)
    return written


def _groups(records: Iterable[tuple[Any, Line]]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    size = 0
    for record, line in records:
        group.append(_row(record))
        size += len(line.text)
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _type(pa: Any, hint: Any) -> Any:
    """The Arrow type of a value. What may be of several types, or has no fixed names, is text."""
    if get_origin(hint) is Annotated:
        return _type(pa, hint.__origin__)
    if isinstance(hint, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        return _type(pa, kinds[0]) if len(kinds) == 1 else pa.string()
    if get_origin(hint) is list:
        return pa.list_(_type(pa, *get_args(hint)))
    if is_dataclass(hint):
        return pa.struct(_fields(pa, hint))
    return {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}.get(hint, pa.string())


def _fields(pa: Any, kind: Any) -> list[tuple[str, Any]]:
    """The columns of a kind of record."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        (name, pa.timestamp("ms", "UTC") if name in _TIMES else _type(pa, hint))
        for name, hint in hints.items()
    ]


def _row(record: Any) -> dict[str, Any]:
    return {name: _cell(name, value) for name, value in vars(record).items()}


def _cell(name: str, value: Any) -> Any:
    """A value as its column takes it; a time that a record does not have is null."""
    if name in _TIMES:
        return round(value * 1e3) if value else None
    if name == "labelled_arguments":
        return list(map(json_text, value))
    if isinstance(value, Mapping):
        return json_text(value)
    if isinstance(value, list):
        return [_row(item) if is_dataclass(item) else item for item in value]
    return _row(value) if is_dataclass(value) else value
