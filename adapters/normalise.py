"""Whatever came back becomes an `Answer`: a table (records of like shape) or a document (any JSON).

The JSON is ready to send: compact, UTF-8, NaN and infinities as null; a table has one record a
line, so that rows can be cut without decoding. Frames are read without importing pandas, which
lives in the worker process only.
"""

import codecs
import json
from codecs import BOM_UTF8
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from itertools import count
from typing import Any

import orjson

from adapters.fault import UpstreamFault, told

MAX_BYTES = 16 * 2**20
"""The largest answer that is taken."""

READ_OF_PAGE = 2**16

_AS_NOUGHTS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19  # the digits of 2**63
_NO_CHARSETS = {"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf-7"}


@dataclass(frozen=True, slots=True)
class Answer:
    """Normalised answer of an upstream; `columns` and `rows` are None for a document."""

    data: bytes
    columns: tuple[str, ...] | None = None
    rows: int | None = None


def from_json(
    body: bytes | bytearray, charset: str | None = None, secrets: Collection[str] = ()
) -> Answer:
    """Answer from a JSON body. Raises what `read_json` and `from_value` raise."""
    return from_value(read_json(body, charset, secrets))


def from_value(value: Any) -> Answer:
    """Answer from a JSON value. Raises `UpstreamFault` (`invalid`) for a nesting too deep."""
    if isinstance(value, list) and value and all(map(_is_record, value)):
        columns = tuple(dict.fromkeys(name for record in value for name in record))
        return _table(columns, value)
    return _document(_dumps(value))


def read_json(
    body: bytes | bytearray, charset: str | None = None, secrets: Collection[str] = ()
) -> Any:
    """The JSON value of a body in UTF-8 or, if it isn't, in the `charset` that its header names.

    NaN and infinities become null, integers of any length stay exact. Raises `UpstreamFault`
    (`empty`, `invalid`), in whose message none of `secrets` stands.
    """
    if body.startswith(BOM_UTF8):
        body = body[len(BOM_UTF8) :]
    if not body or body.isspace():
        raise UpstreamFault("empty", "the upstream sent an empty body", retryable=True)
    # orjson would read an integer of more than 64 bits as a float, without a word.
    if _LONG_NUMBER not in body.translate(_AS_NOUGHTS):
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(body)
    text = _decoded(body, charset)
    if body[:READ_OF_PAGE].lstrip().startswith(b"<"):
        title = told(_title(text or body.decode(errors="replace")), secrets, most=80)
        named = f" with the title {title!r}" if title else ""
        raise UpstreamFault("invalid", f"an HTML or XML page{named} came instead of JSON")
    if text is None:
        raise UpstreamFault("invalid", "the upstream sent text that is not UTF-8")
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except RecursionError:
        raise UpstreamFault("invalid", "the upstream's JSON is nested too deeply") from None
    except ValueError as error:
        start = told(text, secrets, most=40)
        raise UpstreamFault("invalid", f"the upstream sent no JSON ({error}): {start!r}") from None


def _decoded(body: bytes | bytearray, charset: str | None) -> str | None:
    with suppress(UnicodeDecodeError):
        text = body.decode()
        if "\0" not in text:  # UTF-16 can pass for UTF-8, but no JSON text holds this character
            return text
    with suppress(LookupError, ValueError):  # no such charset; not in that charset
        if charset and codecs.lookup(charset).name not in _NO_CHARSETS:
            return body.decode(charset)
    return None


def _title(page: str) -> str:
    """The title of an HTML page, if its start has one."""
    start = page[:READ_OF_PAGE]
    at = start.lower().find("<title")
    opened, closed = start.find(">", at), start.lower().find("</title", at)
    return unescape(start[opened + 1 : closed]) if 0 <= at < opened < closed else ""


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
    data = orjson.dumps(_plain(value), default=_default, option=orjson.OPT_NON_STR_KEYS)
    return _document(data)


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
    lines = [_dumps(record, orjson.OPT_NON_STR_KEYS) for record in records]
    return Answer(b"[" + b",\n".join(lines) + b"]", columns, len(lines))


def _document(data: bytes) -> Answer:
    """A copy: what orjson gives back holds on to the 4 KiB or more that it was written into."""
    return Answer(bytes(memoryview(data)))


def _dumps(value: Any, option: int = 0) -> bytes:
    """Raises `UpstreamFault` (`invalid`)."""
    try:
        return orjson.dumps(value, default=_default, option=option)
    except orjson.JSONEncodeError as error:
        if "64-bit" in str(error):  # the standard library knows longer integers
            with suppress(TypeError, ValueError, RecursionError):
                text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
                return text.encode()
        text = f"the upstream's answer can't be written as JSON: {error}"
        raise UpstreamFault("invalid", text) from None


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
