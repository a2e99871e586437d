"""The Python sources of a wheel, read from the zip without unpacking it.

A wheel is a file of others. Nothing in it is run or written to disk under a name from it, and what
is read of it has bounds, whatever its headers claim.
"""

import lzma
import stat
import zipfile
import zlib
from pathlib import Path

MAX_WHEEL_BYTES = 64 * 2**20
MAX_ENTRIES = 10_000
MAX_FILE_BYTES = 2**20
MAX_TOTAL_BYTES = 16 * 2**20
"""Bounds of a wheel, of its number of files, and of its sources once they are unpacked. AkShare
1.19.5 has 1.2 MiB, 409 files, of which the longest source has 245 KiB, and 3.4 MiB in all.
"""

_ENCRYPTED = 0x1
_DAMAGE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError)


class WheelError(Exception):
    """A file that can't be read as a wheel, or exceeds a bound; the text says which."""


def read_sources(wheel: Path, package: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files `package/**/*.py` of a wheel, by their names in it, and why others were not read:
    a file exceeds a bound of its own, is a link or is damaged. Raises `WheelError` for the rest.
    """
    try:
        if wheel.stat().st_size > MAX_WHEEL_BYTES:
            raise WheelError(f"{wheel.name}: larger than {MAX_WHEEL_BYTES >> 20} MiB")
        with zipfile.ZipFile(wheel) as archive:
            return _sources(archive, wheel.name, package)
    except OSError as error:
        raise WheelError(f"{wheel.name}: {error.strerror or error}") from error
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise WheelError(f"{wheel.name}: not a wheel: {error}") from error


def _sources(
    archive: zipfile.ZipFile, wheel: str, package: str
) -> tuple[dict[str, bytes], dict[str, str]]:
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise WheelError(f"{wheel}: {len(entries)} files, more than {MAX_ENTRIES}")
    files: dict[str, bytes] = {}
    unread: dict[str, str] = {}
    total = 0
    for entry in entries:
        name = entry.filename
        if not (name.startswith(f"{package}/") and name.endswith(".py")):
            continue
        content, why = _content(archive, entry)
        total += len(content)
        if total > MAX_TOTAL_BYTES:
            raise WheelError(f"{wheel}: more than {MAX_TOTAL_BYTES >> 20} MiB of sources")
        if name in files or name in unread:
            files.pop(name, None)
            why = "it is in the wheel twice"
        if why:
            unread[name] = why
        else:
            files[name] = content
    return files, unread


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> tuple[bytes, str]:
    """What was read of a file, and why it does not count, if it does not."""
    if stat.S_ISLNK(entry.external_attr >> 16):
        return b"", "it is a symbolic link"
    if entry.flag_bits & _ENCRYPTED:
        return b"", "it is encrypted"
    try:
        with archive.open(entry) as file:
            content = file.read(MAX_FILE_BYTES + 1)  # the size in the header may be wrong
    except _DAMAGE as error:
        return b"", f"it is damaged: {error}"
    long = len(content) > MAX_FILE_BYTES
    return content, f"it is longer than {MAX_FILE_BYTES >> 10} KiB" if long else ""
