"""Turns upstream data into an `Answer`: a table (records of like shape) or a document (any JSON).
An empty list is a table without rows and columns.

The JSON is ready to send: compact, UTF-8, NaN and infinities as null. A number that neither 64 bits
nor a double can hold becomes a text of its digits, so every reader of the answer, such as orjson,
has its value. A table has one record per line, so that rows can be cut without decoding. A cell
that JSON can't express does not affect other cells: a lone surrogate becomes U+FFFD, anything else
null. Frames are read without importing pandas, which only the worker process imports.
"""

import codecs
import json
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from html import unescape
from itertools import chain, count, repeat
from math import isfinite
from typing import Any

import orjson

from adapters.fault import UpstreamFault, fit_for_message
from adapters.mask import Mask

MAX_BYTES = 16 * 2**20
"""The largest answer that is accepted."""

MAX_VALUES = 2**22
"""The most values in a document: each may cost a later reader of the stored answer 100 bytes. Also
the most cells of a table, with those that its records lack.
"""

BLOCK = 1_000
"""Records written at once: each call of orjson takes at least 4 KiB, even for a short text."""

READ_OF_PAGE = 2**16

_AS_NOUGHTS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19  # the digits of 2**63
_LONGEST_INTEGER = len(str(-(2**63)))
_LINE_END = orjson.Fragment(b"\n")  # occurs nowhere else: in a string it is escaped
_NESTED = frozenset({dict, list})
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_CHARSETS = {"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf-7"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The normalised answer of an upstream; `columns` and `rows` are None for a document.

    `invented` says that a simulated upstream made it from its columns alone, and `lied` that it
    made something in it wrong on purpose, and what.
    """

    data: bytes
    columns: tuple[str, ...] | None = None
    rows: int | None = None
    invented: bool = False
    lied: str | None = None

    @property
    def head(self) -> dict[str, Any]:
        """Its fields without the data, for sending it to another process."""
        return {"columns": self.columns, "rows": self.rows}

    @classmethod
    def of(cls, head: Mapping[str, Any], data: bytes) -> "Answer":
        """The inverse of `head` and `data`."""
        columns = head["columns"]
        return cls(data, None if columns is None else tuple(columns), head["rows"])


def from_json(
    body: bytes | bytearray, charset: str | None = None, secrets: Collection[str] = ()
) -> Answer:
    """Make an answer from a JSON body. Raises what `read_json` and `from_value` raise."""
    return from_value(read_json(body, charset, secrets))


def from_value(value: Any) -> Answer:
    """Make an answer from a JSON value. Records that have hardly a name in common are a document:
    as CSV they would be nothing but commas. Raises `UpstreamFault`: `invalid` if it is nested too
    deeply, `too_large` if the table is over `MAX_BYTES`.
    """
    if isinstance(value, list) and all(map(_is_record, value)):
        names = dict.fromkeys(chain.from_iterable(value))
        columns = tuple(dict.fromkeys(map(_text, names)))
        if len(value) * len(columns) <= MAX_VALUES:
            return _table(columns, _blocks(value))
    return _document(_dumps(value))


def masked(answer: Answer, mask: Mask) -> Answer:
    """Return the answer with all secrets masked that the upstream has repeated in it."""
    names = answer.columns or ()
    if not mask.is_in(answer.data) and not (answer.rows == 0 and mask.is_in(orjson.dumps(names))):
        return answer
    value = mask.value(read_json(answer.data))
    if answer.rows is None:
        return _document(_dumps(value))
    return _table(tuple(dict.fromkeys(map(mask.text, names))), _blocks(value))


def _blocks(records: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    return (records[at : at + BLOCK] for at in range(0, len(records), BLOCK))


def read_json(
    body: bytes | bytearray, charset: str | None = None, secrets: Collection[str] = ()
) -> Any:
    """Read the JSON value of a body in UTF-8 or, if it isn't, in the `charset` of its header.

    NaN becomes null; an integer of more than 64 bits, and a number that is too great for a double,
    its digits. Raises `UpstreamFault` (`empty`, `invalid`), whose message holds none of `secrets`.
    """
    if body.startswith(BOM_UTF8):
        body = body[len(BOM_UTF8) :]
    if not body or body.isspace():
        raise UpstreamFault("empty", "the upstream sent an empty body", retryable=True)
    # orjson would read an integer of more than 64 bits as a float, and none of 400 digits.
    if _LONG_NUMBER not in body.translate(_AS_NOUGHTS):
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(body)
    text = _decoded(body, charset)
    if body[:READ_OF_PAGE].lstrip().startswith(b"<"):
        title = fit_for_message(_title(text or body.decode(errors="replace")), secrets, most=80)
        named = f" with the title {title!r}" if title else ""
        raise UpstreamFault("invalid", f"an HTML or XML page{named} came instead of JSON")
    if text is None:
        raise UpstreamFault("invalid", "the upstream sent text that is not UTF-8")
    try:
        return json.loads(
            text, parse_constant=lambda _: None, parse_int=_integer, parse_float=_real
        )
    except RecursionError:
        raise UpstreamFault("invalid", "the upstream's JSON is nested too deeply") from None
    except ValueError as error:
        start = fit_for_message(text, secrets, most=40)
        raise UpstreamFault("invalid", f"the upstream sent no JSON ({error}): {start!r}") from None


def read_text(body: bytes | bytearray, charset: str | None = None) -> str:
    """Read the text of a body in UTF-8 or, if it isn't, in the `charset` of its header. Raises
    `UpstreamFault` (`empty`, `invalid`).
    """
    if not body:
        raise UpstreamFault("empty", "the upstream sent an empty body", retryable=True)
    text = _decoded(body, charset)
    if text is None:
        raise UpstreamFault("invalid", "the upstream sent text that is not UTF-8")
    return text.removeprefix("\ufeff")


def _integer(digits: str) -> int | str:
    short = int(digits) if len(digits) <= _LONGEST_INTEGER else None
    return short if short is not None and _has_64_bits(short) else digits


def _real(digits: str) -> float | str:
    value = float(digits)
    return value if isfinite(value) else digits


def _has_64_bits(value: int) -> bool:
    return -(2**63) <= value < 2**64


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
    """Return the title of an HTML page, if its start has one."""
    start = page[:READ_OF_PAGE]
    at = start.lower().find("<title")
    opened, closed = start.find(">", at), start.lower().find("</title", at)
    return unescape(start[opened + 1 : closed]) if 0 <= at < opened < closed else ""


def from_object(value: Any) -> Answer:
    """Make an answer from the result of a Python function: one or several frames or series, or any
    other value.

    Raises `UpstreamFault` (`empty`) for None.
    """
    if value is None:
        raise UpstreamFault("empty", "the function returned nothing")
    if hasattr(value, "to_frame") and hasattr(value, "index") and not hasattr(value, "columns"):
        value = value.to_frame()
    if hasattr(value, "columns") and hasattr(value, "index"):
        return _from_frame(value)
    if isinstance(value, list) and not value:
        return _table((), ())
    return _document(_dumps(_plain(value), orjson.OPT_NON_STR_KEYS))


def from_own(value: Any) -> Answer:
    """The same of a function of the user's: here a list of records is a table, too."""
    answer = from_object(value)
    is_records = isinstance(value, list) and all(isinstance(one, dict) for one in value)
    return from_value(orjson.loads(answer.data)) if is_records and value else answer


def _from_frame(frame: Any) -> Answer:
    """Make a table from a frame; an index that carries data comes first."""
    if type(frame.index).__name__ != "RangeIndex":
        frame = frame.reset_index()
    names = _unique_names(frame)
    blocks = (frame.iloc[at : at + BLOCK] for at in range(0, len(frame), BLOCK))
    return _table(names, (_records(names, block) for block in blocks))


def _unique_names(frame: Any) -> tuple[str, ...]:
    names = ["_".join(map(str, n)) if isinstance(n, tuple) else str(n) for n in frame.columns]
    names = [_text(name) for name in names]
    unique: list[str] = []
    for name in names:
        others = (other for n in count(2) if (other := f"{name}_{n}") not in names)
        unique.append(name if name not in unique else next(o for o in others if o not in unique))
    return tuple(unique)


def _records(names: Sequence[str], frame: Any) -> list[dict[str, Any]]:
    columns = [frame.iloc[:, i].tolist() for i in range(len(names))]
    return [*map(dict, map(zip, repeat(names), zip(*columns, strict=True)))]


def _table(columns: tuple[str, ...], blocks: Iterable[Sequence[Mapping[str, Any]]]) -> Answer:
    """Make a table from blocks of records. Raises `UpstreamFault` (`too_large`)."""
    data, rows = bytearray(b"["), 0
    for block in filter(None, blocks):
        with_ends: list[Any] = [_LINE_END] * (2 * len(block) - 1)
        with_ends[::2] = block
        data += b"\n".join(_dumps(with_ends)[1:-1].split(b"\n,"))
        data += b",\n"
        rows += len(block)
        if len(data) > MAX_BYTES:
            raise UpstreamFault("too_large", f"the answer is over {MAX_BYTES} bytes")
    if rows:
        del data[-2:]
    data += b"]"
    return Answer(bytes(data), columns, rows)


def _document(data: bytes) -> Answer:
    """Make a document from a copy of `data`: orjson's result holds the buffer of 4 KiB or more into
    which it was written. Raises `UpstreamFault` (`too_large`).
    """
    if len(data) > MAX_BYTES:
        raise UpstreamFault("too_large", f"the answer is over {MAX_BYTES} bytes")
    if len(data) > MAX_VALUES and sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise UpstreamFault("too_large", f"the answer holds over {MAX_VALUES} values")
    return Answer(bytes(memoryview(data)))


def _dumps(value: Any, option: int = 0) -> bytes:
    """Write a value as JSON. Raises `UpstreamFault` (`invalid`)."""
    try:
        try:
            return orjson.dumps(value, default=_default, option=option)
        except orjson.JSONEncodeError:
            return orjson.dumps(_writable(value), default=_default, option=option)
    except RecursionError:
        raise UpstreamFault("invalid", "the upstream's JSON is nested too deeply") from None
    except orjson.JSONEncodeError as error:
        text = f"the upstream's answer can't be written as JSON: {error}"
        raise UpstreamFault("invalid", text) from None


def _writable(value: Any) -> Any:
    """Replace what JSON can't express in `value`: a lone surrogate by U+FFFD, the rest by null."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {
            _text(name) if isinstance(name, str) else name: _writable(field)
            for name, field in value.items()
        }
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    if isinstance(value, int):
        return value if _has_64_bits(value) else str(Decimal(value))  # `str(value)` has a limit
    if value is None or isinstance(value, float | orjson.Fragment):
        return value
    try:
        return orjson.Fragment(orjson.dumps(value, default=_default))
    except orjson.JSONEncodeError:
        return _writable(_default(value))


def _text(text: str) -> str:
    return _LONE_SURROGATE.sub("\ufffd", text)


def _is_record(value: object) -> bool:
    return isinstance(value, dict) and _NESTED.isdisjoint(map(type, value.values()))


def _plain(value: Any) -> Any:
    """Turn frames inside tuples, lists and mappings into lists of records."""
    if hasattr(value, "columns") and hasattr(value, "index"):
        return orjson.Fragment(_from_frame(value).data)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _default(value: Any) -> Any:
    """Convert values that orjson does not know: numpy scalars, pandas times and missing values."""
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
