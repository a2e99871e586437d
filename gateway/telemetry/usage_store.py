"""The file of usage, in SQLite: one row for each UTC day, client and tool, of the last `DAYS` days
with calls. All processes with one cache folder add to it.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from gateway.common.database import open_database, reading_database

DAYS = 400

MOST_A_DAY = 50_000
"""Rows of a day; further clients of the day are added up as one."""

LAST_DAY = 2_932_896
"""The last day of the year 9999."""

LOCK_S = 5.0
"""How long another process that writes is waited for."""

_TABLES = (
    """CREATE TABLE IF NOT EXISTS usage (
        day INTEGER, client TEXT, tool TEXT, host TEXT,
        calls INTEGER NOT NULL, cached INTEGER NOT NULL, failed INTEGER NOT NULL,
        requests INTEGER NOT NULL, bytes INTEGER NOT NULL,
        PRIMARY KEY (day, client, tool, host)
    ) WITHOUT ROWID""",
)
_ADD = """
UPDATE usage SET calls = calls + ?, cached = cached + ?, failed = failed + ?,
    requests = requests + ?, bytes = bytes + ?
    WHERE day = ? AND client = ? AND tool = ? AND host = ?
"""
_INSERT = """
INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    calls = calls + excluded.calls, cached = cached + excluded.cached,
    failed = failed + excluded.failed, requests = requests + excluded.requests,
    bytes = bytes + excluded.bytes
"""
_COUNT = "SELECT count(*) FROM usage WHERE day = ?"
_FORGET = """
DELETE FROM usage WHERE day NOT IN (SELECT DISTINCT day FROM usage ORDER BY day DESC LIMIT ?)
"""
_READ = """
SELECT day, client, tool, host, calls, cached, failed, requests, bytes FROM usage WHERE day >= ?
    ORDER BY day, client, tool
"""

Place = tuple[str, str, str]
"""Client, tool and host; empty for a caller without a key, and for a call that was not made."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a client made of a tool in one day, in days since 1970. `cached` calls were answered by
    the cache, also by a stale answer, `requests` were sent to the host, and `bytes` were given to
    the caller.
    """

    day: int
    client: str
    tool: str
    host: str
    calls: int
    cached: int
    failed: int
    requests: int
    bytes: int


class UsageStore:
    """The open file, for one thread. Opening it raises `OSError`."""

    def __init__(self, path: Path) -> None:
        try:
            self._database = open_database(path, _TABLES, LOCK_S)
        except sqlite3.Error as error:
            raise OSError(f"the usage file {path} can't be opened: {error}") from None

    def close(self) -> None:
        self._database.close()

    def add(self, counted: Mapping[int, Mapping[Place, list[int]]], other: str) -> None:
        """Add counts by day and place, all or none of them. Clients for which a day has no more
        room are added up as the client `other`. Raises `sqlite3.Error`.
        """
        database = self._database
        with database:
            database.execute("BEGIN IMMEDIATE")
            for day, places in counted.items():
                (known,) = database.execute(_COUNT, (day,)).fetchone()
                if not known:
                    database.execute(_FORGET, (DAYS - 1,))
                for (client, tool, host), counts in places.items():
                    if database.execute(_ADD, (*counts, day, client, tool, host)).rowcount:
                        continue
                    name = client if known < MOST_A_DAY else other
                    database.execute(_INSERT, (day, name, tool, host, *counts))
                    known += 1


def read_usage(path: Path, since: int) -> list[Used]:
    """What a file that others may be writing has of that day, in days since 1970, and later ones;
    nothing if there is no file. Raises `OSError`.
    """
    try:
        with reading_database(path, LOCK_S) as database:
            rows = database.execute(_READ, (since,)) if database else ()
            used = [Used(*row) for row in rows]
    except sqlite3.Error as error:
        raise OSError(f"the usage file {path} can't be read: {error}") from None
    return [one for one in used if _is_valid(one)]


def _is_valid(used: Used) -> bool:
    """Whether a row holds what is written here; columns of SQLite may hold anything."""
    day, client, tool, host, *counts = astuple(used)
    return (
        all(isinstance(text, str) for text in (client, tool, host))
        and all(isinstance(n, int) and 0 <= n < 2**62 for n in (day, *counts))
        and day <= LAST_DAY
    )
