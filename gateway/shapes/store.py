"""The file of known shapes, in SQLite, which all worker processes of a gateway share.

One row has what is known of one tool's answers to calls of one variant; a bounded number of
variants is kept, and of changes. The file holds paths and types, and no values of answers.
"""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from cache.entry import is_time
from gateway.common.database import open_database, reading_database
from gateway.shapes.known import Change, Difference, Known
from gateway.shapes.shape import Shape, TooLarge
from manifests.common.regular_file import WHY_NOT

LOCK_S = 1.0
"""How long another process is waited for."""

VARIANTS = 64
"""Variants of one tool that are kept: those seen last."""

CHANGES = 20
"""Changes of one tool that are kept: the newest. Of one answer no more are kept."""

MAX_KNOWN = 2**16
"""Bytes of what is known of the tables, or of the documents, of one variant."""

SEEN_S = 3_600.0
"""How far behind the time may be at which a variant was last seen."""

ANEW = "to start anew, remove it while the gateway does not run"
"""What the user can do about a file that can't be used."""

_TABLES = (
    """CREATE TABLE IF NOT EXISTS known (
        tool TEXT, variant TEXT, seen_at REAL NOT NULL, shapes BLOB NOT NULL,
        PRIMARY KEY (tool, variant)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS found (
        number INTEGER PRIMARY KEY, tool TEXT NOT NULL, time REAL NOT NULL, change BLOB NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS found_tool ON found (tool, number)",
)
_READ = "SELECT seen_at, shapes FROM known WHERE tool = ? AND variant = ?"
_WRITE = """
INSERT INTO known VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET seen_at = excluded.seen_at, shapes = excluded.shapes
"""
_FORGET = """
DELETE FROM known WHERE tool = ? AND variant NOT IN (
    SELECT variant FROM known WHERE tool = ? ORDER BY seen_at DESC LIMIT ?
)
"""
_NOTE = "INSERT INTO found (tool, time, change) VALUES (?, ?, ?)"
_FORGET_CHANGES = """
DELETE FROM found WHERE tool = ? AND number NOT IN (
    SELECT number FROM found WHERE tool = ? ORDER BY number DESC LIMIT ?
)
"""
_CHANGES = "SELECT change FROM found WHERE tool = ? ORDER BY time DESC, number DESC"


class ShapeStore:
    """The open file, for one thread. Made by `ShapeStore.open`."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    @classmethod
    def open(cls, path: Path) -> "ShapeStore":
        """Open or create the file. Raises `OSError` and `sqlite3.Error`."""
        if path.exists() and not path.is_file():
            raise OSError(f"{path}: {WHY_NOT}; {ANEW}")
        return cls(open_database(path, _TABLES, LOCK_S))

    def close(self) -> None:
        self._database.close()

    def learn(
        self, tool: str, variant: str, shape: Shape, upstream: str, at: float
    ) -> list[Change] | None:
        """Compare an answer with earlier ones and remember its shape; None if it is the first.

        Of processes that find the same change, one gets it. Raises `TooLarge`, and `sqlite3.Error`
        if the file can't be read or written.
        """
        if (same := self._same(tool, variant, shape, at)) is not None:
            return same
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            if (same := self._same(tool, variant, shape, at)) is not None:
                return same
            row = self._database.execute(_READ, (tool, variant)).fetchone()
            shapes, found = _learned(row[1] if row else None, shape)
            self._database.execute(_WRITE, (tool, variant, at, shapes))
            self._database.execute(_FORGET, (tool, tool, VARIANTS))
            changes = [
                Change(d.kind, d.path, d.before, d.after, tool, variant, upstream, at)
                for d in found or ()
            ]
            self._note(tool, changes)
        return None if found is None else changes

    def _same(self, tool: str, variant: str, shape: Shape, at: float) -> list[Change] | None:
        """An empty list if the answer tells nothing new, as most do, which needs no transaction."""
        row = self._database.execute(_READ, (tool, variant)).fetchone()
        if row is None or abs(at - row[0]) > SEEN_S:
            return None
        shapes, found = _learned(row[1], shape)
        return [] if shapes == row[1] and found == [] else None

    def _note(self, tool: str, changes: list[Change]) -> None:
        for change in changes[:CHANGES]:
            self._database.execute(_NOTE, (tool, change.time, orjson.dumps(change)))
        if changes:
            self._database.execute(_FORGET_CHANGES, (tool, tool, CHANGES))


def read_changes(path: Path, tool: str) -> list[Change]:
    """The changes of a tool in a file that others may be writing, the newest first; none if there
    is no file. Raises `OSError`, `sqlite3.Error`, and `ValueError` for a row that is damaged.
    """
    if path.exists() and not path.is_file():  # SQLite would wait for the other end of a pipe
        raise OSError(f"{path}: {WHY_NOT}; {ANEW}")
    with reading_database(path, LOCK_S) as database:
        return [_change(*row) for row in database.execute(_CHANGES, [tool])] if database else []


def _change(text: Any) -> Change:
    """Raises `ValueError` for what `_note` does not write."""
    try:
        said = orjson.loads(text)
        types = {side: (*map(str, said[side]),) for side in ("before", "after")}
        change = Change(**said | types)
    except (KeyError, TypeError):
        raise ValueError("a change is damaged") from None
    if not is_time(change.time) or not isinstance(orjson.loads(change.variant), dict):
        raise ValueError("a change is damaged")
    return change


def _learned(before: object, shape: Shape) -> tuple[bytes, list[Difference] | None]:
    """What is known then, as the file holds it, and what differs: None for a first answer, and for
    one whose row in the file is damaged.

    Tables and documents are known apart. The first answer of the other form is a change of type.
    Raises `TooLarge` for an answer that is too large by itself.
    """
    forms: dict[str, Known] = {}
    with suppress(ValueError, AttributeError):
        if isinstance(before, bytes):
            said = orjson.loads(before)
            forms = {str(form): Known.of_json(known) for form, known in said.items()}
    form = "table" if shape.is_table else "document"
    if shape.is_empty and form not in forms:
        form = next(iter(forms), form)  # an empty array may be either
    found: list[Difference] | None = None
    if form in forms:
        found = forms[form].learn(shape)
    else:
        if forms:
            found = [Difference("type_changed", "", (*forms,), (form,))]
        forms[form] = Known.of(shape)
    text = orjson.dumps(forms[form].to_json())
    if len(text) > MAX_KNOWN:
        forms[form].forget(shape, 0, len(text) - MAX_KNOWN)
        text = orjson.dumps(forms[form].to_json())
    if len(text) > MAX_KNOWN:
        raise TooLarge
    said = {form: known.to_json() for form, known in forms.items()}
    return orjson.dumps({**said, form: orjson.Fragment(text)}), found
