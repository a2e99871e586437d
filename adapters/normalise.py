"""Whatever came back becomes an `Answer`: a table (records of like shape) or a document (any JSON).

The JSON is ready to send: compact, UTF-8, NaN and infinities as null; a table has one record a
line, so that rows can be cut without decoding. Frames are read without importing pandas, which
lives in the worker process only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import orjson

from adapters.fault import UpstreamFault

MAX_BYTES = 16 * 2**20
"""The largest answer that is taken."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Normalised answer of an upstream; `columns` and `rows` are None for a document."""

    data: bytes
    columns: tuple[str, ...] | None = None
    rows: int | None = None


def from_json(body: bytes) -> Answer:
    """Answer from a JSON body. Raises `UpstreamFault` (`empty`, `invalid`)."""
    if not body.strip():
        raise UpstreamFault("empty", "the upstream sent an empty body", retryable=True)
    try:
        value = orjson.loads(body)
        if isinstance(value, list) and value and all(map(_is_record, value)):
            columns = tuple(dict.fromkeys(name for record in value for name in record))
            return _table(columns, value)
        return Answer(orjson.dumps(value))
    except orjson.JSONDecodeError as error:
        start = body[:40].decode(errors="replace")
        raise UpstreamFault("invalid", f"the upstream sent no JSON ({error}): {start!r}") from None
    except orjson.JSONEncodeError:
        raise UpstreamFault("invalid", "the upstream's JSON is nested too deeply") from None


def from_object(value: Any) -> Answer:
    """Answer from what a Python function returned: a frame, a series, several of them, a value.

    Raises `UpstreamFault` (`empty`) for None.
    """
    if value is None:
        raise UpstreamFault("empty", "the function returned nothing")
    if hasattr(value, "to_frame") and hasattr(value, "index") and not hasattr(value, "columns"):
        value = value.to_frame()
    if hasattr(value, "columns") and hasattr(value, "index"):
        return _from_frame(value)
    return Answer(orjson.dumps(_plain(value), default=_default, option=orjson.OPT_NON_STR_KEYS))


def _from_frame(frame: Any) -> Answer:
    names, columns = _columns(frame)
    return _table(names, [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])


def _columns(frame: Any) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Names made unique, and values; an index that carries data comes first."""
    if type(frame.index).__name__ != "RangeIndex":
        frame = frame.reset_index()
    names = ["_".join(map(str, n)) if isinstance(n, tuple) else str(n) for n in frame.columns]
    unique: list[str] = []
    for name in names:
        others = (other for n in count(2) if (other := f"{name}_{n}") not in names)
        unique.append(name if name not in unique else next(o for o in others if o not in unique))
    return tuple(unique), [frame.iloc[:, i].tolist() for i in range(len(unique))]


def _table(columns: tuple[str, ...], records: Sequence[Mapping[str, Any]]) -> Answer:
    lines = [
        orjson.dumps(record, default=_default, option=orjson.OPT_NON_STR_KEYS) for record in records
    ]
    return Answer(b"[" + b",\n".join(lines) + b"]", columns, len(lines))


def _is_record(value: object) -> bool:
    return isinstance(value, dict) and not any(
        isinstance(field, dict | list) for field in value.values()
    )


def _plain(value: Any) -> Any:
    """Frames inside tuples, lists and mappings become lists of records."""
    if hasattr(value, "columns") and hasattr(value, "index"):
        return orjson.Fragment(_from_frame(value).data)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _default(value: Any) -> Any:
    """JSON for what orjson does not know: numpy scalars, pandas times and missing values."""
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
