"""Files that commands make from a run for their user: a report, an export, judged episodes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bench.runs.about import LINK, RunDirectoryError
from bench.runs.reader import OWN_FILES
from manifests.common.files import output_file

_OF_EVERY_RUN = ("run.json", "calls.jsonl", "episodes.jsonl")


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
    """Raises `RunDirectoryError` if `out` is the run or a file of any run, or if a link in the run
    directory, which may be someone else's, leads to it.
    """
    whole, place = run_dir.resolve(), out.resolve()
    for part in (out, *out.parents):
        if part.is_symlink() and part.parent.resolve().is_relative_to(whole):
            raise RunDirectoryError(f"{part}: {LINK}")
    if place in (whole, *(whole / name for name in OWN_FILES)):
        raise RunDirectoryError(f"{out} is a file of the run itself; name another place")
    beside = (place.with_name(name) for name in _OF_EVERY_RUN if name != place.name)
    if place.name in OWN_FILES and any(map(os.path.lexists, beside)):
        raise RunDirectoryError(f"{out} is a file of another run; name another place")
