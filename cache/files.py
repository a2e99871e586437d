"""Files and folders are written aside, and put in place whole or not at all.

Until then what stands under the name stays whole, also where the process is killed or the disk is
full. A kill may leave a hidden `.part` file beside it, which nothing reads.
"""

import ctypes
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE


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
        with _on_disk(descriptor, mode) as file:
            yield file
        os.link(part, out)  # fails where another process was faster
        sync_folder(out.parent)
    finally:
        os.unlink(part)


@contextmanager
def replaced_file(out: Path) -> Iterator[BinaryIO]:
    """What is written stands in the place of the file `out`, if there is one, when the context ends
    without an exception. A link to a file stays one, and a file's mode stays as it is.

    Raises `OSError`, for what is no regular file too.
    """
    out = Path(os.path.realpath(out))
    mode = _mode_of(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(".part", f".{out.name}.", out.parent)
    try:
        with _on_disk(descriptor, mode) as file:
            yield file
        os.replace(part, out)
    except BaseException:
        os.unlink(part)
        raise
    sync_folder(out.parent)


@contextmanager
def _on_disk(descriptor: int, mode: int) -> Iterator[BinaryIO]:
    """An open file that is whole on disk when the context ends without an exception."""
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def exchange_folders(one: Path, other: Path) -> None:
    """Each takes the other's name, at once. Raises `OSError` where the system can't."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, "folders can't be exchanged here") from None
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))


def _mode_of(out: Path) -> int:
    """That of the file, or of one that is newly made. Raises `OSError`."""
    try:
        found = out.stat().st_mode
    except FileNotFoundError:
        umask = os.umask(0o077)
        os.umask(umask)
        return 0o666 & ~umask
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(out))
    if not stat.S_ISREG(found):
        raise OSError(errno.EINVAL, "it is no regular file", str(out))
    return stat.S_IMODE(found)


def sync_folder(folder: Path) -> None:
    """So that the names of new files outlive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
