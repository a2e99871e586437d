"""One kept answer: the ready JSON of `data` and what is known about where it came from.

On disk an entry is one line of JSON, a newline, and the data as it goes out. A row that does not
read as that is refused with `ValueError`, never guessed at.
"""

from dataclasses import dataclass, field

import orjson

FORMAT = 1


@dataclass(slots=True, frozen=True)
class View:
    """What of an entry is given back: its data, whether that left rows out, and `columns`, `rows`
    and `truncated` as the inside of a JSON object.
    """

    data: bytes
    truncated: bool
    about: bytes


@dataclass(slots=True, frozen=True)
class Entry:
    """A kept answer.

    `data` of a table is an array with one record a line (`[{..},\\n{..}]`), so that rows can be cut
    without decoding. `stored_at` is Unix time; `upstream` is `live` or `simulated`.
    """

    data: bytes
    columns: tuple[str, ...] | None
    rows: int | None
    stored_at: float
    latency_ms: float
    upstream: str
    views: dict[int, "View"] = field(default_factory=dict, compare=False, repr=False)

    @property
    def size(self) -> int:
        """Bytes that this entry may hold with one view, for the bounds of the tiers."""
        return 2 * len(self.data) + 600

    def view(self, rows: int) -> "View":
        """The entry cut to at most `rows` records. The last view asked for is kept."""
        view = self.views.get(rows)
        if view is None:
            self.views.clear()
            whole = self.rows is None or self.rows <= rows
            data = self.data if whole else self.page(0, rows)
            about = {"columns": self.columns, "rows": self.rows, "truncated": not whole}
            view = self.views[rows] = View(data, not whole, orjson.dumps(about)[1:-1])
        return view

    def page(self, offset: int, limit: int) -> bytes:
        """Records `offset` to `offset + limit` of a table, as a JSON array."""
        if self.rows is None:
            raise ValueError("only a table has pages")
        end = min(offset + limit, self.rows)
        records = self.data[1:-1].split(b",\n", end)  # what stands behind the page is left whole
        return b"[" + b",\n".join(records[offset:end]) + b"]"

    def encode(self) -> bytes:
        head = {
            "v": FORMAT,
            "columns": self.columns,
            "rows": self.rows,
            "stored_at": self.stored_at,
            "latency_ms": self.latency_ms,
            "upstream": self.upstream,
        }
        return orjson.dumps(head) + b"\n" + self.data

    @classmethod
    def decode(cls, row: bytes) -> "Entry":
        """Inverse of `encode`. Raises `ValueError`."""
        head, newline, data = row.partition(b"\n")
        fields = orjson.loads(head)
        if not newline or not isinstance(fields, dict) or fields.pop("v", None) != FORMAT:
            raise ValueError(f"not an entry of format {FORMAT}")
        try:
            columns = fields.pop("columns")
            return cls(data=data, columns=None if columns is None else tuple(columns), **fields)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an entry: {error}") from None
