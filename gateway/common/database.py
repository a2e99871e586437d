"""Opens a file of SQLite that several processes write."""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from manifests.common.files import private_folder

AGAIN_S = 0.01


def open_database(path: Path, tables: Iterable[str], lock_s: float) -> sqlite3.Connection:
    """Open or create the file with these tables. Another process that writes is waited for
    `lock_s`. Raises `OSError` and `sqlite3.Error`.
    """
    private_folder(path.parent)
    with suppress(FileExistsError):
        path.touch(0o600, exist_ok=False)  # SQLite's other files take this mode, too
    until = time.monotonic() + lock_s
    while True:
        try:
            return _opened(path, tables, lock_s)
        except sqlite3.Error as error:
            # If several processes switch a new file to WAL, SQLite fails some without a wait.
            is_locked = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_locked or time.monotonic() > until:
                raise
        time.sleep(AGAIN_S)


@contextmanager
def reading_database(path: Path, lock_s: float) -> Iterator[sqlite3.Connection | None]:
    """A file that others may be writing, to be read only; None if there is none. Raises
    `sqlite3.Error`.
    """
    if not path.exists():
        yield None
        return
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=lock_s)) as database:
        yield database


def _opened(path: Path, tables: Iterable[str], lock_s: float) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=lock_s, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA wal_autocheckpoint = 64")  # pages: keeps the WAL small
        with database:
            database.execute("BEGIN IMMEDIATE")
            for table in tables:
                database.execute(table)
    except BaseException:
        database.close()
        raise
    return database
