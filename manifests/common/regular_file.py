"""Opens and reads regular files only, and never waits for one.

Opening a pipe waits until its other end is opened, and a device may never end.
"""

import errno
import os
import stat
from codecs import BOM_UTF8
from pathlib import Path
from typing import BinaryIO

WHY_NOT = "it is not a regular file"


def open_regular(path: Path) -> BinaryIO:
    """Open a file of any origin to read it. Raises `OSError`, also if it is not a regular file."""
    return open(path, "rb", opener=regular)


def read_text(path: Path, most: int | None = None) -> bytes:
    """The UTF-8 text in a file of any origin, without a byte order mark before it. Raises `OSError`
    as `open_regular`, also if it has over `most` bytes.
    """
    with open_regular(path) as file:
        text = file.read(-1 if most is None else most + 1)
    if most is not None and len(text) > most:
        raise OSError(errno.EFBIG, f"it is over {most} bytes", path)
    return text.removeprefix(BOM_UTF8)


def regular(path: str, flags: int, mode: int = 0o666) -> int:
    """The `opener` of `open` for a file of any origin; a file that it makes has this `mode`. Raises
    as `open_regular`.
    """
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EISDIR):  # a socket, or a pipe that nobody reads
            raise OSError(errno.EINVAL, WHY_NOT, path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, WHY_NOT, path)
    return descriptor
