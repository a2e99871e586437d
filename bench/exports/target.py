"""Writes exports aside and puts them in place complete or not at all.

An existing file or folder of the name is refused, or replaced at the end with `force`; until then
it stays complete. No file of a run is replaced, and a folder only if every file in it is from an
earlier export. A killed export of a folder leaves a `.part` behind, which the next one to the same
place replaces.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from bench.record import EpisodeRecord
from bench.runs.output import made_from
from bench.runs.reader import ExportError, Run
from manifests.common.files import FORCE, exchange_folders, sync_folder, taken


def write_lines(
    run: Run, out: Path, line_of: Callable[[Run, EpisodeRecord], dict[str, Any]], *, force: bool
) -> int:
    """Write `line_of` of each episode as a line of the file `out`, and return the number of lines.
    Raises `RunDirectoryError` and `OSError`.
    """
    written = 0
    with made_from(run.path, out, force=force) as file:
        for episode, _ in run.episodes():
            file.write(orjson.dumps(line_of(run, episode), option=orjson.OPT_APPEND_NEWLINE))
            written += 1
    return written


@contextmanager
def new_folder(
    out: Path, is_exported: Callable[[Path], bool], *, force: bool, of_folders: bool = False
) -> Iterator[Path]:
    """A folder to write files into, or folders; it gets the name `out` when the context ends
    without an exception. `is_exported` says whether a file, or a folder, could be from an earlier
    export. Raises `ExportError` if `out` holds another one, and `OSError`.
    """
    out = out.resolve()
    if _is_taken(out, is_exported, of_folders) and not force:
        raise taken(out, FORCE)
    part = out.with_name(f"{out.name}.part")
    if _is_taken(part, is_exported, of_folders):
        shutil.rmtree(part)
    part.mkdir(parents=True, exist_ok=True)
    try:
        yield part
        _put_in_place(part, out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    sync_folder(out.parent)


def begins(file: Path, text: bytes) -> bool:
    """Whether a file begins with this text, as far as a killed export wrote it."""
    with file.open("rb") as opened:
        return text.startswith(opened.read(len(text)))


def _is_taken(folder: Path, is_exported: Callable[[Path], bool], of_folders: bool) -> bool:
    """Whether a folder holds files. Raises `ExportError` if one of them is not of an export."""
    if not os.path.lexists(folder):
        return False
    if folder.is_symlink() or not folder.is_dir():
        raise ExportError(f"{folder} is a file; name a folder")
    found = False
    with os.scandir(folder) as entries:
        for entry in entries:
            found = True
            is_kind = entry.is_dir if of_folders else entry.is_file
            if not is_kind(follow_symlinks=False) or not is_exported(Path(entry.path)):
                text = f"{folder} holds {entry.name!r}, which is of no export; name another folder"
                raise ExportError(text)
    return found


def _put_in_place(part: Path, out: Path) -> None:
    """Replace the folder `out`. A folder can't replace one that holds files, so the two exchange
    names and `out` exists at any time. On a system that can't do this, a kill may leave the old
    content under its temporary name.
    """
    for folder, _, names in os.walk(part):
        for name in names:
            with Path(folder, name).open("rb") as written:
                os.fsync(written.fileno())
    try:
        part.replace(out)
    except OSError:
        if not out.is_dir():
            raise
        _exchange(part, out)
        shutil.rmtree(part)


def _exchange(part: Path, out: Path) -> None:
    with suppress(OSError):
        exchange_folders(part, out)
        return
    aside = Path(tempfile.mkdtemp(".old", f"{out.name}.", out.parent))
    out.replace(aside)
    try:
        part.replace(out)
    except OSError:
        aside.replace(out)
        raise
    aside.replace(part)
