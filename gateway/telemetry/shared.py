"""Records that the worker processes of a run share through files.

Each process writes its own records into files of the run's folder, and reads those of all. A record
stays when its process has ended. It is replaced as a whole, so none is read half-written.
"""

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import orjson
from pydantic import TypeAdapter

from manifests.common.files import replaced_file

log = logging.getLogger("finport")

STALE_S = 15.0
"""A worker that has written nothing for this long is gone, even if a process has its id."""


@dataclass(frozen=True, slots=True)
class Record:
    """What process `pid`, worker `index` of its run, reports about itself at Unix time `at`."""

    pid: int
    index: int
    at: float

    @property
    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # the process is another user's
        return abs(time.time() - self.at) < STALE_S


R = TypeVar("R", bound=Record)


class Shared(Generic[R]):
    """The records of one kind. Without a folder there are no others. Its methods block."""

    def __init__(self, folder: Path | None, kind: str, index: int, adapter: TypeAdapter[R]) -> None:
        self._kind = kind
        self._adapter = adapter
        self._file = folder and folder / f"{kind}-{index}-{os.getpid()}.json"
        self._is_written = True

    @property
    def has_folder(self) -> bool:
        return self._file is not None

    def make_room(self) -> None:
        """Rename the record of an earlier process of this index and id, to keep it. Raises
        `OSError`.
        """
        if self._file is not None:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._file.exists():
                self._file.rename(self._file.with_stem(f"{self._file.stem}-{time.time_ns()}"))

    def write(self, record: R) -> bool:
        """Replace this process's record; returns whether that worked. A failure is logged once."""
        if self._file is None:
            return False
        try:
            with replaced_file(self._file, synced=False) as file:  # the record ends with its run
                file.write(orjson.dumps(record))
        except OSError as error:
            if self._is_written:
                log.warning("metrics can't be shared: %s", error)
            self._is_written = False
        else:
            self._is_written = True
        return self._is_written

    def others(self) -> Iterator[R]:
        """What the other processes of this run have last written, also those that have ended."""
        for file in self._file.parent.glob(f"{self._kind}-*.json") if self._file else ():
            if file != self._file:
                try:
                    yield self._adapter.validate_json(file.read_bytes())
                except (OSError, ValueError) as error:
                    log.warning("metrics in %s can't be read: %s", file, error)
