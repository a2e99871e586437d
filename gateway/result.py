"""The result of a call: an answer with its provenance, or an error. Both have one envelope."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import orjson

from cache import View
from cache.entry import quoted
from gateway.errors import CallError, Fault
from gateway.tables import conversion

if TYPE_CHECKING:
    import pandas
    import pyarrow

ProvenanceSource = Literal[
    "live", "cached", "stale", "replayed", "simulated", "recorded", "finport"
]


HTML_ROWS, HTML_CHARS = 10, 2_000
"""How much of an answer a notebook shows."""


def _cell(cell: object) -> str:
    text = cell if isinstance(cell, str) else "" if cell is None else orjson.dumps(cell).decode()
    return text if len(text) <= 100 else f"{text[:99]}…"


@dataclass(frozen=True, slots=True)
class Stood:
    """Another tool answered (`answered_by`), because the source of the asked one failed with the
    error of that code. Columns that are `missing` are null in the answer; figures may differ from
    those of the asked tool by what `within` says, through rounding.
    """

    stood_in_for: str
    answered_by: str
    own_error: str
    missing: tuple[str, ...] = ()
    within: Mapping[str, float] = field(default_factory=dict)

    def in_provenance(self) -> str:
        """The fields of the provenance, after others."""
        return "," + orjson.dumps(self).decode()[1:-1]


@dataclass(slots=True, repr=False)
class Result:
    """Outcome of one call. Its conversions to pandas, Arrow and CSV warn with `PartialTableWarning`
    if a limit left rows of the answer out.

    `source` says where the answer (or the upstream's error) came from this time. `upstream`
    (`live`, `simulated`, `simulated_invented` for a simulated answer that was made from its columns
    alone, `recorded` for the market's tools, or `finport` for our own) says where it was made, and
    `snapshot` which snapshot held it, if any. `lied` says what a simulated upstream made wrong in
    it on purpose; no envelope has it, as readers are to notice. `digest` is a hash of the whole
    answer, `age_s` its age in seconds and `fresh_s` the age at which it ceases to be fresh.
    `attempts` is how often the upstream was asked this time, and `elapsed_ms` is how long the call
    took. `data` is the JSON of the answer, cut to the caller's rows. `offset` is the number of rows
    before them in the whole table. `shown` describes the rows in words if some are left out. The
    whole answer stays available by `handle`. `aliases` pairs names that the caller used with the
    parameters they stand
    for, and `resolved` parameters with words on the instrument that the caller named. `stood` says
    which other tool answered, if one stood in.
    """

    tool: str
    call_id: str
    elapsed_ms: float = 0.0
    attempts: int = 0
    error: CallError | None = None
    view: View | None = None
    rows: int | None = None
    columns: tuple[str, ...] | None = None
    handle: str | None = None
    source: ProvenanceSource | None = None
    upstream: str | None = None
    lied: str | None = None
    snapshot: str | None = None
    digest: str | None = None
    age_s: float = 0.0
    fresh_s: float = 0.0
    aliases: Mapping[str, str] | None = None
    resolved: Mapping[str, str] | None = None
    stood: Stood | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def data(self) -> bytes:
        return b"null" if self.view is None else self.view.data

    @property
    def truncated(self) -> bool:
        return self.view is not None and self.view.truncated

    @property
    def offset(self) -> int:
        return 0 if self.view is None else self.view.offset

    @property
    def shown(self) -> str | None:
        return None if self.view is None else self.view.shown

    @property
    def is_shortened(self) -> bool:
        """Whether `data` is a text within a budget."""
        return self.view is not None and self.view.is_text

    @property
    def value(self) -> Any:
        """The decoded answer: a list of records for a table, any JSON value for a document."""
        return orjson.loads(self.data)

    @property
    def code(self) -> str | None:
        return None if self.error is None else self.error.code.value

    @property
    def fault(self) -> Fault | None:
        return None if self.error is None else self.error.fault

    @property
    def message(self) -> str | None:
        return None if self.error is None else self.error.message

    def text(self, chars: int | None = None) -> str:
        """The answer as a model reads it, or its first `chars`: its JSON, or the text into which it
        was shortened. For an error its message.
        """
        if self.error is not None or self.view is None:
            return self.message or ""
        if self.view.is_text:
            text: str = orjson.loads(self.view.data)
            return text[:chars]
        if chars is None:
            return self.view.data.decode()
        return self.view.data[: 4 * chars].decode(errors="ignore")[:chars]

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows of `data` as a data frame. Raises `NoTableError` if the answer is no table, and
        `ImportError` without pandas.
        """
        return conversion.to_pandas(*self._told())

    def to_arrow(self) -> "pyarrow.Table":
        """The rows of `data` as an Arrow table. A column whose cells have no common type is one of
        JSON texts. Raises `NoTableError` if the answer is no table, and `ImportError` without
        pyarrow.
        """
        return conversion.to_arrow(*self._told(), reads_texts=True)

    def plot(self, **options: Any) -> Any:
        """Draw the numbers of the table by pandas, over its first column of dates if it has one.
        Raises as `to_pandas`, and `ImportError` without matplotlib.
        """
        frame = conversion.to_pandas(*self._told())
        dates = [name for name in frame.columns if frame[name].dtype.kind == "M"]
        frame = frame.set_index(dates[0]) if dates else frame
        return frame.select_dtypes("number").plot(**options)

    def __repr__(self) -> str:
        if self.error is not None:
            return f"<Result {self.tool}: {self.error.code}: {self.error.message[:200]}>"
        what = "a text" if self.is_shortened else "a document"
        if self.rows is not None:
            what = f"{self.shown or f'{self.rows} rows'}, {len(self.columns or ())} columns"
        return f"<Result {self.tool}: {what}, {self.source}, {self.age_s:.0f} s old>"

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        head = f"<p><code>{escape(repr(self)[1:-1])}</code></p>"
        if self.error is not None:
            return head
        if self.rows is None or not isinstance(self.value, list):
            return f"{head}<pre>{escape(self.text(HTML_CHARS))}</pre>"
        columns = [*(self.columns or ())]
        names = "".join(f"<th>{escape(name)}</th>" for name in columns)
        rows = (
            "".join(f"<td>{escape(_cell(row.get(name)))}</td>" for name in columns)
            for row in self.value[:HTML_ROWS]
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        left = self.rows - HTML_ROWS
        more = f"<p>and {left} more rows: .to_pandas()</p>" if left > 0 else ""
        return f"{head}<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{more}"

    def to_csv(self) -> str:
        """The rows of `data` with a header. Raises `NoTableError` if the answer is no table."""
        return conversion.to_csv(*self._told())

    def table(self) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """The rows of `data` and their columns. Raises `NoTableError` if the answer is no table."""
        if self.error is not None:
            raise conversion.NoTableError(f"the call failed: {self.error.message}")
        rows = self.value
        if self.columns is None or not isinstance(rows, list):
            what = "a shortened text" if isinstance(rows, str) else "a document"
            raise conversion.NoTableError(f"the answer is {what} and has no rows")
        return rows, self.columns

    def _told(self) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """`table`, with a warning to the caller of the conversion if it lacks rows."""
        table = self.table()
        if self.truncated:
            text = f"{self.tool}: only {self.shown}; CallContext(max_rows={self.rows}) gives all"
            warnings.warn(conversion.PartialTableWarning(text), stacklevel=3)
        return table

    def to_line(self) -> bytes:
        """The envelope on one line. Tabs stand for the line breaks between the records of a table;
        no text within JSON holds a bare one of either.
        """
        return self.to_json().replace(b"\n", b"\t")

    def to_json(self) -> bytes:
        """The envelope. Cached answers are joined from bytes, never decoded and encoded again."""
        return b"".join(self.parts())

    def parts(self) -> tuple[bytes, bytes, bytes]:
        """The envelope in three parts. The middle one, the data of an answer, is the same object
        whenever the same answer is given again.
        """
        if self.error is not None or self.view is None:
            error = self.error.to_dict() if self.error else None
            provenance = {
                "source": self.source,
                "snapshot": self.snapshot,
                "attempts": self.attempts,
                "elapsed_ms": self.elapsed_ms,
                "call_id": self.call_id,
            }
            fields = {"ok": False, "tool": self.tool, "error": error, "call_id": self.call_id}
            return b"", orjson.dumps({**fields, "provenance": provenance}), b""
        head = b'{"ok":true,"tool":"%b","data":' % self.tool.encode()
        return head, self.view.data, b",%b,%b}" % (self.view.about, self._rest())

    def to_texts(self) -> tuple[bytes, bytes]:
        """The envelope on one line, both as JSON and as the JSON string that models are given."""
        if self.error is not None or self.view is None:
            line = self.to_json()
            return line, b'"%b"' % quoted(line)
        head, rest = b'{"ok":true,"tool":"%b",' % self.tool.encode(), self._rest()
        line = b'%b"data":%b,%b,%b}' % (head, self.view.data, self.view.about, rest)
        text = b'"%b%b,%b}"' % (quoted(head), self.view.quoted, quoted(rest))
        return line.replace(b"\n", b""), text

    def _rest(self) -> bytes:
        """The part of the envelope after the answer."""
        snapshot = "null" if self.snapshot is None else f'"{self.snapshot}"'
        aliases = b',"aliases":' + orjson.dumps(self.aliases) if self.aliases else b""
        stood = "" if self.stood is None else self.stood.in_provenance()
        if self.resolved:
            aliases += b',"resolved":' + orjson.dumps(self.resolved)
        return b'"handle":%b%b,"provenance":%b' % (
            b"null" if self.handle is None else b'"%b"' % self.handle.encode(),
            aliases,
            (
                f'{{"source":"{self.source}","upstream":"{self.upstream}","age_s":{self.age_s},'
                f'"snapshot":{snapshot},"digest":"{self.digest}","attempts":{self.attempts},"elapsed_ms":{self.elapsed_ms},'
                f'"call_id":"{self.call_id}"{stood}}}'
            ).encode(),
        )
