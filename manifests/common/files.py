"""Writes files atomically: a file is written under another name, then renamed.

After a kill or on a full disk, the name belongs to the complete old file or to the complete new
one. The same holds after a power cut: the file is on disk before it takes the name, and the name is
on disk before the caller goes on. A kill may leave a hidden `.part` file in the folder, which
nothing reads.

A folder may come from someone else, with a link in it to a file of the user's. Such a link is never
followed; only one that the user named may be.
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

from manifests.common.regular_file import WHY_NOT, regular

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)  # a file system without hard links

FORCE = "--force replaces it"


@contextmanager
def new_file(
    out: Path, mode: int | None = None, *, remedy: str = "name a new file"
) -> Iterator[BinaryIO]:
    """A new file, which takes the name `out` when the context ends without an exception. Until then
    the file has the name `.name`. Without a `mode` the process's umask decides who may read it.

    Raises `OSError`. If `out` exists, raises `FileExistsError`, which names the `remedy`, and does
    not touch it.
    """
    if os.path.lexists(out):
        raise taken(out, remedy)
    with _aside(out, mode) as file:
        yield file
        _finish(file, mode)
        try:
            os.link(file.name, out)
        except FileExistsError:  # another process was faster
            raise taken(out, remedy) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(out):
                raise taken(out, remedy) from None
            os.replace(file.name, out)
        sync_folder(out.parent)


@contextmanager
def replaced_file(
    out: Path, mode: int | None = None, *, synced: bool = True, follow_links: bool = False
) -> Iterator[BinaryIO]:
    """A file that replaces `out`, if it exists, when the context ends without an exception. The
    file keeps its owner if this process may give files away, and its mode if no `mode` is given.

    With `follow_links`, which is for names from the user, a link stays a link and its target is
    replaced. Without `synced` nothing waits for the disk, and a power cut may leave an empty file.

    Raises `OSError`, also if `out` is not a regular file, or is a link that is not followed.
    """
    if follow_links:
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
def output_file(out: Path, mode: int | None = None, *, force: bool) -> Iterator[BinaryIO]:
    """A file that a command writes for its user under a name from them: `new_file`, or with `force`
    `replaced_file`. Its folder is made if it is missing. Raises `OSError`.
    """
    _regular(Path(os.path.realpath(out)))
    out.parent.mkdir(parents=True, exist_ok=True)
    if force:
        opened = replaced_file(out, mode, follow_links=True)
    else:
        opened = new_file(out, mode, remedy=FORCE)
    with opened as file:
        yield file


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone (0700). One that
    exists stays as it is. Raises `OSError`.
    """
    if not folder.is_dir():
        private_folder(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def taken(out: Path, remedy: str) -> FileExistsError:
    """The error for a name that is in use, with what the user can do."""
    return FileExistsError(errno.EEXIST, f"it exists already; {remedy}", str(out))


def own_file(path: str, flags: int, mode: int = 0o666) -> int:
    """The `opener` of `open` for a file that is changed in place, in a folder that may come from
    someone else. Raises `OSError`, also for a link, a file with several names, or what is not a
    regular file.

    A file with several names may be one of the user's, or a copy of the folder that was made with
    hard links, and would be changed as well.
    """
    try:
        descriptor = regular(path, flags | os.O_NOFOLLOW, mode)
    except OSError as error:
        raise (_is_link(path) if error.errno == errno.ELOOP else error) from None
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        text = "it has another name too (a hard link), where it would change as well; copy it"
        raise OSError(errno.EMLINK, text, path)
    return descriptor


def _is_link(path: Path | str) -> OSError:
    return OSError(errno.ELOOP, "it is a symbolic link, which is not followed here", str(path))


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
        found = out.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise _is_link(out)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder; name a file", str(out))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, WHY_NOT, str(out))
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
