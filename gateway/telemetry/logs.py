"""Logs of `finport serve`: lines of text or JSON on stderr, each with its request's id.

The event loop only puts a record into a bounded queue; a thread formats and writes it. Records that
a full queue can't take are dropped, counted and reported in the log itself. A record becomes one
line of text, except for its exception, so that nothing a caller sends can pass for a line of its
own.
"""

import copy
import logging
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, Literal

import orjson

if TYPE_CHECKING:
    from manifests import Catalog

REQUEST_ID: ContextVar[str] = ContextVar("REQUEST_ID", default="")
"""The id of the request that is being served, if there is one."""

ACCESS = "finport.access"
"""Logger of the lines about requests; each also carries its content as `fields`."""

QUEUED = 10_000
"""Records that may wait to be written. Lines about requests may use half of this, so that they
leave room for records of errors.
"""

MAX_PATH = 256
"""Characters of a path that are shown."""

LONG = 16
"""A part of a path of this many characters or more may be a key."""

FLUSH_S = 2.0
"""How long records that still wait may delay the exit if nobody reads stderr."""

_CONTROLS = {n: f"\\x{n:02x}" for n in (*range(32), *range(127, 160))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


@contextmanager
def set_up(
    format_: Literal["text", "json"] = "text",
    stream: BinaryIO | None = None,
    level: int = logging.INFO,
    queued: int = QUEUED,
) -> Iterator[None]:
    """Log to `stream`, or stderr, for as long as the context is open."""
    handler = _QueueHandler(stream or sys.stderr.buffer, queued)
    handler.setFormatter(JsonLine() if format_ == "json" else TextLine())
    root = logging.getLogger()
    before = root.level
    handler.writer.start()
    root.setLevel(level)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        handler.end()


class JsonLine(logging.Formatter):
    """One JSON object; it has `request_id` and `exception` if the record has them."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": _utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields: dict[str, object] = getattr(record, "fields", None) or {
            "message": record.getMessage()
        }
        line |= {name: _valid(v) if isinstance(v, str) else v for name, v in fields.items()}
        if request_id := getattr(record, "request_id", ""):
            line["request_id"] = _valid(request_id)
        if record.exc_info:
            line["exception"] = _valid(self.formatException(record.exc_info))
        return orjson.dumps(line).decode()


class TextLine(logging.Formatter):
    """One line of text for people; the lines of an exception follow, indented."""

    def format(self, record: logging.LogRecord) -> str:
        request_id = getattr(record, "request_id", "")
        words = [_utc(record.created), record.levelname, record.name]
        words += [f"[{request_id}]"] if request_id else []
        line = " ".join([*words, record.getMessage()]).translate(_CONTROLS)
        if record.exc_info:
            lines = self.formatException(record.exc_info).split("\n")
            line = "\n    ".join([line, *(text.translate(_CONTROLS) for text in lines)])
        return _valid(line)


class _QueueHandler(logging.Handler):
    """Takes records in without waiting, and counts those for which there is no room. Its `writer`
    is a daemon: if it hangs in a write, it does not delay the exit.
    """

    def __init__(self, stream: BinaryIO, most: int) -> None:
        super().__init__()
        self._stream = stream
        self._records = queue.Queue[logging.LogRecord | None](most)
        self._counting = threading.Lock()
        self._dropped = 0
        self.writer = threading.Thread(target=self._write_all, daemon=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a copy of the record as it is now: its arguments may change, and its context is
        known here. The writer turns tracebacks into text, since that reads files.
        """
        try:
            taken = copy.copy(record)
            taken.msg, taken.args = record.getMessage(), None
            taken.request_id = REQUEST_ID.get()
            if record.name == ACCESS and self._records.qsize() >= self._records.maxsize / 2:
                raise queue.Full
            self._records.put_nowait(taken)
        except queue.Full:
            with self._counting:
                self._dropped += 1
        except Exception:  # noqa: BLE001 - as all handlers do
            self.handleError(record)

    def end(self) -> None:
        """Let the writer finish, for as long as that may take."""
        with suppress(queue.Full):
            self._records.put(None, timeout=FLUSH_S)
            self.writer.join(FLUSH_S)

    def _write_all(self) -> None:
        while (record := self._records.get()) is not None:
            self._write(record)
            self._tell_dropped()
        self._tell_dropped()

    def _tell_dropped(self) -> None:
        with self._counting:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            text = f"{dropped} log records were dropped: more came than could be written"
            where = ("finport", logging.WARNING, __file__, 0)
            self._write(logging.LogRecord(*where, text, None, None))

    def _write(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode()
        except Exception:  # noqa: BLE001 - as all handlers do: the next record is to be written
            self.handleError(record)
            return
        with suppress(OSError, ValueError):  # nobody reads it any more
            self._stream.write(line + b"\n")
            self._stream.flush()


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _valid(text: str) -> str:
    """`text` as UTF-8 can hold it."""
    return text.encode("utf-8", "replace").decode()


def shown_path(target: str, catalog: "Catalog") -> str:
    """The path of a request's target as bounded plain text; `***` replaces what may be a key."""
    if not target.startswith("/") and target != "*":
        return "***"  # a whole address, which may hold a password
    parts = target.partition("?")[0].split("/")
    known = (p if len(p) < LONG or catalog.get(p) is not None else "***" for p in parts)
    text = "/".join(known)[:MAX_PATH].replace('"', "%22")
    return text.encode("ascii", "backslashreplace").decode()
