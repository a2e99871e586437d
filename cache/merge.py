"""Merges snapshots and journals into one new snapshot, which is written atomically.

Of two rows of one call, the snapshot gets the row of higher rank (`RowHead.rank`), so the result
does not depend on the order of the sources.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

import orjson

from cache.blocks import Damage, Torn, block, blocks
from cache.frame import FrameError, TornFrameError
from cache.row import RowHead
from cache.snapshot import (
    END,
    INDEX,
    JOURNAL,
    MAGIC,
    NEVER_CHANGES,
    TRAILER,
    Snapshot,
    SnapshotError,
    Summary,
    summary_of,
)
from manifests.common.files import new_file, taken
from manifests.common.regular_file import open_regular


class _Pick(NamedTuple):
    """A row that was chosen for the new file, and where it is now."""

    head: RowHead
    file: BinaryIO
    offset: int
    length: int


def merge(
    sources: Sequence[Path],
    out: Path,
    *,
    salvage: bool = False,
    without: Collection[str] = (),
    told: list[str] | None = None,
) -> Summary:
    """Write the snapshot `out` from all rows in `sources`, which are snapshots or journals.

    Rows of the tools `without` are counted and left out. With `salvage`, so are rows that can't be
    read; `told` gets a text for each of these. Raises `SnapshotError` if `out` exists, a source is
    damaged, no row is left, or the disk does not take the file.
    """
    if os.path.lexists(out):
        raise SnapshotError(f"{out}: {taken(out, NEVER_CHANGES).strerror}")
    picks: dict[bytes, _Pick] = {}
    conflicts: set[bytes] = set()
    damaged = [] if told is None else told
    withheld = 0
    with ExitStack() as files:
        for source in sources:
            for pick in _picks(source, files, damaged):
                if pick.head.tool in without:
                    withheld += 1
                else:
                    _choose(picks, conflicts, pick)
        if damaged and not salvage:
            raise SnapshotError(damaged[0])
        if not picks:
            raise SnapshotError(f"{', '.join(map(str, sources))}: no row, no snapshot")
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with new_file(out, 0o444, remedy=NEVER_CHANGES) as file:
                return _write(file, picks, len(conflicts), len(damaged), withheld)
        except OSError as error:
            raise SnapshotError(f"{out}: {error.strerror}") from error


def journal_rows(
    file: BinaryIO, name: str, damaged: list[str]
) -> Iterator[tuple[RowHead, int, int]]:
    """Every whole row of a journal, with its offset and length, until the journal ends or is torn.

    The remains of a cut-off write at the end are ignored. `damaged` gets a text for each other row
    that can't be read, and for a place after which nothing can be read.
    """
    last = None
    size = os.fstat(file.fileno()).st_size
    start = len(os.pread(file.fileno(), 512, 0).partition(b"\n")[0]) + 1
    try:
        for offset, frame in blocks(file, start, size):
            if last is not None:
                damaged.append(last)
            last = None
            try:
                head = RowHead.of(frame)
            except FrameError as error:
                text = f"{name}: the row at byte {offset}: {error}"
                if isinstance(error, TornFrameError):
                    last = text
                else:
                    damaged.append(text)
                continue
            yield head, offset, len(frame)
    except Torn:
        pass
    except Damage as error:
        damaged.append(f"{name}: {error}")


def _picks(source: Path, files: ExitStack, damaged: list[str]) -> Iterator[_Pick]:
    try:
        file = files.enter_context(open_regular(source))
    except OSError as error:
        raise SnapshotError(f"{source}: {error.strerror}") from error
    if os.pread(file.fileno(), len(JOURNAL), 0) == JOURNAL:
        for head, offset, length in journal_rows(file, str(source), damaged):
            yield _Pick(head, file, offset, length)
        return
    with Snapshot(source) as snapshot:
        end = snapshot.rows_end
    try:
        for offset, frame in blocks(file, len(MAGIC), end):
            try:
                yield _Pick(RowHead.of(frame), file, offset, len(frame))
            except FrameError as error:
                damaged.append(f"{source}: the row at byte {offset}: {error}")
    except (Torn, Damage) as error:
        damaged.append(f"{source}: {error or 'a row is torn'}")


def _choose(picks: dict[bytes, _Pick], conflicts: set[bytes], pick: _Pick) -> None:
    rival = picks.get(pick.head.key)
    if rival is not None and rival.head.digest != pick.head.digest:
        conflicts.add(pick.head.key)
    if rival is None or rival.head.rank < pick.head.rank:
        picks[pick.head.key] = pick


def _write(
    file: BinaryIO, picks: dict[bytes, _Pick], conflicts: int, damaged: int, withheld: int
) -> Summary:
    ordered = sorted(picks.values(), key=lambda pick: (pick.head.tool, pick.head.key))
    summary = summary_of([pick.head for pick in ordered], conflicts, damaged, withheld)
    starts: dict[str, int] = {}
    index: list[tuple[bytes, bytes, int, int]] = []
    at = file.write(MAGIC)
    for head, source, offset, length in ordered:
        starts.setdefault(head.tool, at)
        at += file.write(block(os.pread(source.fileno(), length, offset)))
        index.append((head.key, head.digest, at - length, length))
    rest = b"".join(INDEX.pack(*entry) for entry in sorted(index))
    footer = orjson.dumps({**asdict(summary), "starts": starts})
    hashed = blake2b(rest + footer, digest_size=16).digest()
    file.write(rest + footer + TRAILER.pack(at, at + len(rest), hashed, END))
    return summary
