"""New files: written aside, and put in place whole or not at all."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def new_file(out: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """What is written stands under the name `out` when the context ends without an exception.

    Raises `OSError`; `FileExistsError` rather than touch a file that is there.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.exists():
        raise FileExistsError(errno.EEXIST, "it exists already; name a new file", str(out))
    descriptor, part = tempfile.mkstemp(".part", f".{out.name}.", out.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.link(part, out)  # fails where another process was faster
        sync_folder(out.parent)
    finally:
        os.unlink(part)


def sync_folder(folder: Path) -> None:
    """So that the names of new files outlive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
