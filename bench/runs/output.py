"""Files that commands make from a run for their user: a report, an export, judged episodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bench.runs.about import LINK, RunDirectoryError
from bench.runs.reader import OWN_FILES
from cache.files import output_file


@contextmanager
def made_from(run_dir: Path, out: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file made from the run in `run_dir`, which gets the name `out` when the context ends
    without an exception. With `force` it replaces a file of that name.

    Raises as `check_outside`, and `OSError`.
    """
    check_outside(run_dir, out)
    with output_file(out, force=force) as file:
        yield file


def check_outside(run_dir: Path, out: Path) -> None:
    """Raises `RunDirectoryError` if `out` is the run or a file of it, or if a link in the run
    directory, which may be someone else's, leads to it.
    """
    whole = run_dir.resolve()
    for part in (out, *out.parents):
        if part.is_symlink() and part.parent.resolve().is_relative_to(whole):
            raise RunDirectoryError(f"{part}: {LINK}")
    if out.resolve() in (whole, *(whole / name for name in OWN_FILES)):
        raise RunDirectoryError(f"{out} is a file of the run itself; name another place")
