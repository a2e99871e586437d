"""Exports Parquet: `calls.parquet` and `episodes.parquet` in one folder, a row a record.

Columns have the names of the records' fields (`gateway/trace.py`, `bench/record.py`). Times are
timestamps in UTC to the millisecond, durations are milliseconds, `arguments` and `parameters` are
JSON texts. The `output` of a call is its text, of a failed call JSON with `error`. `tool_calls`,
`model_calls` and `judgement` are structs. The file's metadata `finport.run` has the run's settings
as JSON, and `finport.simulated` says what was simulated, if anything. Needs the extra
`finport[parquet]`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.exports.target import new_folder
from bench.record import EpisodeRecord, Judgement, ModelCallRecord, ToolCallRecord
from bench.runs.about import simulated
from bench.runs.reader import ExportError, Run, json_text, text_of
from gateway import CallRecord

_FILES = ("calls.parquet", "episodes.parquet")

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
    calls = pyarrow.schema(_calls(pyarrow), about)
    episodes = pyarrow.schema(_episodes(pyarrow), about)
    with new_folder(out, lambda file: file.name in _FILES, force=force) as folder:
        _write(folder / "calls.parquet", calls, ((_call(c), size) for c, size in run.calls()))
        rows = ((_episode(e), size) for e, size in run.episodes())
        return _write(folder / "episodes.parquet", episodes, rows)


def _write(file: Path, schema: Any, rows: Iterable[tuple[dict[str, Any], int]]) -> int:
    """Write the rows and return their number."""
    import pyarrow
    from pyarrow import parquet

    written = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(rows):
            writer.write_table(pyarrow.Table.from_pylist(group, schema))
            written += len(group)
    return written


def _groups(rows: Iterable[tuple[dict[str, Any], int]]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    size = 0
    for row, length in rows:
        group.append(row)
        size += length
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _calls(pa: Any) -> dict[str, Any]:
    text, number, whole = pa.string(), pa.float64(), pa.int64()
    return {
        "call_id": text,
        "at": pa.timestamp("ms", "UTC"),
        **dict.fromkeys(("tool", "host", "arguments"), text),
        "ok": pa.bool_(),
        **dict.fromkeys(("code", "fault", "message", "source", "upstream"), text),
        "age_s": number,
        "attempts": whole,
        "elapsed_ms": number,
        "rows": whole,
        "digest": text,
        "bytes": whole,
        "episode": text,
        "step": whole,
    }


def _episodes(pa: Any) -> dict[str, Any]:
    text, number, whole, flag = pa.string(), pa.float64(), pa.int64(), pa.bool_()
    texts, time = pa.list_(text), pa.timestamp("ms", "UTC")
    tool_call = {
        "step": whole,
        **dict.fromkeys(("tool_name", "parameters", "output"), text),
        "ok": flag,
        **dict.fromkeys(("code", "fault", "source", "call_id"), text),
        "elapsed_ms": number,
        "at": time,
        "observed": text,
    }
    model_call = {
        "step": whole,
        **dict.fromkeys(("purpose", "model"), text),
        "at": time,
        "elapsed_ms": number,
        **dict.fromkeys(("attempts", "input_tokens", "cached_tokens", "output_tokens"), whole),
        **dict.fromkeys(("finish", "error"), text),
    }
    verdict = {"tool": text, **dict.fromkeys(("timeliness", "intent", "domain"), flag)}
    judgement = {
        **dict.fromkeys(("judge", "kind"), text),
        "scores": pa.list_(number),
        "invalid": whole,
        "tools": _list_of(pa, verdict),
        "model_calls": _list_of(pa, model_call),
        "by_metric": text,
        "extracted": text,
        **dict.fromkeys(("invalid_tools", "rounded"), whole),
    }
    return {
        **dict.fromkeys(("episode", "id"), text),
        "repeat": whole,
        **dict.fromkeys(("source_dataset", "category", "question", "setting"), text),
        "ground_truth": text,
        "candidate_tools": texts,
        "started_at": time,
        "elapsed_ms": number,
        "tool_calls": _list_of(pa, tool_call),
        "response": texts,
        **dict.fromkeys(("execution_result", "error", "ending"), text),
        "labelled_tools": texts,
        "model_calls": _list_of(pa, model_call),
        "judgement": pa.struct(list(judgement.items())),
        "labelled_arguments": texts,
        "difficulty": text,
    }


def _list_of(pa: Any, fields: Mapping[str, Any]) -> Any:
    return pa.list_(pa.struct(list(fields.items())))


def _call(record: CallRecord) -> dict[str, Any]:
    return vars(record) | {"at": _ms(record.at), "arguments": json_text(record.arguments)}


def _episode(record: EpisodeRecord) -> dict[str, Any]:
    judgement = record.judgement
    return vars(record) | {
        "started_at": _ms(record.started_at),
        "tool_calls": [_tool_call(call) for call in record.tool_calls],
        "model_calls": [_model_call(call) for call in record.model_calls],
        "judgement": None if judgement is None else _judgement(judgement),
        "labelled_arguments": list(map(json_text, record.labelled_arguments)),
    }


def _tool_call(call: ToolCallRecord) -> dict[str, Any]:
    texts = {"parameters": json_text(call.parameters), "output": text_of(call.output)}
    return vars(call) | texts | {"at": _ms(call.at)}


def _judgement(judgement: Judgement) -> dict[str, Any]:
    return asdict(judgement) | {
        "model_calls": list(map(_model_call, judgement.model_calls)),
        "by_metric": json_text(judgement.by_metric),
    }


def _model_call(call: ModelCallRecord) -> dict[str, Any]:
    return vars(call) | {"at": _ms(call.at)}


def _ms(at: float) -> int | None:
    """Unix time in milliseconds; None where a record has no time."""
    return round(at * 1e3) if at else None
