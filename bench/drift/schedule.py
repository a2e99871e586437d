"""The folder of a watched series: when the next snapshot is recorded and under which name, and the
comparisons.

A snapshot is named by the time (UTC) at which its recording started, and the next one is due a
period later. So the times stay the same when the watch is started again. Files with other names are
not looked at. The comparisons are JSON Lines, which only the process that holds the folder's lock
writes. A kill or a full disk may leave an incomplete last line. The next line replaces it, and the
comparison is made again from its snapshots.
"""

import os
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from bench.json_lines import ended_lines
from cache import Clock
from gateway.trace import end_of_lines
from manifests.common.files import own_file, sync_folder

SUFFIX: Final = ".snapshot"
COMPARISONS: Final = "drift.jsonl"
_JOURNAL: Final = f"{SUFFIX}.journal"
_STAMP: Final = "%Y-%m-%dT%H%M%SZ"


class Schedule:
    """The series of a folder, one snapshot in `every_s` seconds."""

    def __init__(self, folder: Path, every_s: float, clock: Clock | None = None) -> None:
        self._folder = folder
        self._every_s = every_s
        self._clock = clock or Clock()
        self._failed: set[Path] = set()
        self._last = max((started(path) for path in self.snapshots()), default=None)
        self._since = self._clock.passed()
        """When the last recording started, by `passed`, or at the latest when this was made."""
        if self._last is not None:
            self._since -= max(self._clock.wall() - self._last, 0.0)

    def snapshots(self) -> list[Path]:
        """The snapshots of the series, the oldest first."""
        return self._named(SUFFIX)

    def unfinished(self) -> Path | None:
        """The snapshot whose recording was interrupted, if nothing was recorded after it. One that
        has failed since this watch began is not tried again by it.
        """
        journals = [path.with_name(path.stem) for path in self._named(_JOURNAL)]
        there = self.snapshots()
        if not journals or (there and there[-1].name >= journals[-1].name):
            return None
        return journals[-1] if journals[-1] not in self._failed else None

    def wait_s(self) -> float:
        """Seconds until the next recording is due, by the time of day or by the time that has
        passed, whichever is sooner. So it is never more than the period, also if the clock was set
        back and the newest snapshot is of the future.
        """
        if self._last is None:
            return 0.0
        age_s = max(self._clock.wall() - self._last, self._clock.passed() - self._since)
        return max(self._every_s - age_s, 1.0 if self._is_taken(self._next()) else 0.0)

    def start(self) -> Path:
        """The snapshot to record now: the unfinished one, else a new one."""
        path = self.unfinished() or self._next()
        self._last, self._since = started(path), self._clock.passed()
        return path

    def failed(self, path: Path) -> None:
        """The recording of that snapshot can't go on; leave its journal alone."""
        self._failed.add(path)

    def _next(self) -> Path:
        now = datetime.fromtimestamp(self._clock.wall(), UTC)
        return self._folder / f"{now:{_STAMP}}{SUFFIX}"

    def _is_taken(self, path: Path) -> bool:
        return path.exists() or path.with_name(f"{path.name}.journal").exists()

    def _named(self, suffix: str) -> list[Path]:
        return sorted(path for path in self._folder.glob(f"*{suffix}") if _is_ours(path, suffix))


def started(path: Path) -> float:
    """The Unix time at which the recording of a snapshot started, by its name. Raises
    `ValueError`.
    """
    stamp = path.name.removesuffix(".journal").removesuffix(SUFFIX)
    return datetime.strptime(f"{stamp} +0000", f"{_STAMP} %z").timestamp()


def _is_ours(path: Path, suffix: str) -> bool:
    try:
        return f"{datetime.fromtimestamp(started(path), UTC):{_STAMP}}{suffix}" == path.name
    except ValueError:
        return False


def append(folder: Path, content: Mapping[str, Any]) -> None:
    """Append a comparison; on return it is on disk. Raises `OSError`."""
    with open(folder / COMPARISONS, "a+b", opener=own_file) as file:
        file.truncate(end_of_lines(file, file.seek(0, os.SEEK_END)))
        file.write(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def last_compared(folder: Path) -> str | None:
    """The file name of the newer snapshot in the last whole line; None if there is no line.

    Raises `JsonLinesError` if the file can't be read, or the line is no comparison.
    """
    if not (folder / COMPARISONS).exists():
        return None
    newest = deque(ended_lines(folder / COMPARISONS), maxlen=1)
    if not newest:
        return None
    (last,) = newest
    try:
        return str(orjson.loads(last.text)["after"]["file"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise last.error("it is no comparison of snapshots") from None
