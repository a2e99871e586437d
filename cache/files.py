"""Writes files atomically: a file is written under another name, then renamed.

After a kill or on a full disk, the name belongs to the complete old file or to the complete new
one. The same holds after a power cut: the file is on disk before it takes the name, and the name is
on disk before the caller goes on. A kill may leave a hidden `.part` file in the folder, which
nothing reads.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE


@contextmanager
def new_file(out: Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """A new file, which takes the name `out` when the context ends without an exception. Until then
    the file has the name `.name`. Without a `mode` the process's umask decides who may read it.

    Raises `OSError`. If `out` exists, raises `FileExistsError` and does not touch it.
    """
    if out.exists():
        raise FileExistsError(errno.EEXIST, "it exists already; name a new file", str(out))
    with _aside(out, mode) as file:
        yield file
        _finish(file, mode)
        os.link(file.name, out)  # fails where another process was faster
        sync_folder(out.parent)


@contextmanager
def replaced_file(out: Path, mode: int | None = None, *, synced: bool = True) -> Iterator[BinaryIO]:
    """A file that replaces `out`, if it exists, when the context ends without an exception. A link
    to a file stays a link. The file keeps its owner if this process may give files away, and its
    mode if no `mode` is given.

    Without `synced` nothing waits for the disk, and a power cut may leave an empty file.

    Raises `OSError`, also if `out` is not a regular file.
    """
    out = Path(os.path.realpath(out))
    before = _regular(out)
    if mode is None and before is not None:
        mode = stat.S_IMODE(before.st_mode)
    with _aside(out, mode) as file:
        yield file
        if before is not None:
            with suppress(OSError):
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
        _finish(file, mode, synced=synced)
        os.replace(file.name, out)
        if synced:
            sync_folder(out.parent)


@contextmanager
def _aside(out: Path, mode: int | None) -> Iterator[BinaryIO]:
    """An open file beside `out`; its temporary name is removed when the context ends."""
    part = out.with_name(f".{out.name}.{token_hex(4)}.part")

    def made(path: str, flags: int) -> int:
        try:
            return os.open(path, flags, 0o666 if mode is None else 0o600)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(out)) from None

    with open(part, "xb", opener=made) as file:
        try:
            yield file
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part)


def _finish(file: BinaryIO, mode: int | None, *, synced: bool = True) -> None:
    file.flush()
    if mode is not None:
        os.fchmod(file.fileno(), mode)
    if synced:
        os.fsync(file.fileno())


def _regular(out: Path) -> os.stat_result | None:
    """The status of a regular file, or None if there is no file. Else raises `OSError`."""
    try:
        found = out.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(out))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(out))
    return found


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names of new files outlive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exchange_folders(one: Path, other: Path) -> None:
    """Exchange the names of two folders atomically. Raises `OSError` where the system can't."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, "folders can't be exchanged here") from None
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))
