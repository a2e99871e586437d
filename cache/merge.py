"""Making a snapshot out of others and of journals: one file, written aside and put in place whole.

Of two rows of one call the one of higher rank stands (`RowHead.rank`), so the result does not
depend on the order of the sources.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

import orjson

from cache.frame import FrameError
from cache.row import RowHead
from cache.snapshot import (
    END,
    INDEX,
    JOURNAL,
    LENGTH,
    MAGIC,
    TRAILER,
    Snapshot,
    SnapshotError,
    Summary,
    frames,
    id_of,
)


class _Pick(NamedTuple):
    """Where the row of a call stands that goes into the new file."""

    head: RowHead
    file: BinaryIO
    offset: int
    length: int


def merge(sources: Sequence[Path], out: Path) -> Summary:
    """Write the snapshot `out` of all rows in `sources`, which are snapshots or journals.

    Raises `SnapshotError`: where `out` exists, where a source is damaged, and where the disk does
    not take it.
    """
    if out.exists():
        raise SnapshotError(f"{out} exists, and a snapshot never changes; name a new file")
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    picks: dict[bytes, _Pick] = {}
    conflicts: set[bytes] = set()
    with ExitStack() as parts:
        try:
            for source in sources:
                for pick in _picks(source, parts):
                    _choose(picks, conflicts, pick)
            summary = _write(part, picks, len(conflicts))
            os.link(part, out)  # fails where another process was faster
            _sync_folder(out.parent)
        except FileExistsError:
            raise SnapshotError(f"{out} exists by now; name a new file") from None
        except OSError as error:
            raise SnapshotError(f"{out}: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)
    return summary


def journal_end(file: BinaryIO, size: int, name: str) -> int:
    """Where the last whole row of a journal ends; what a kill left behind it is no row.

    Raises `SnapshotError` where a damaged row has whole ones behind it.
    """
    end, damaged = len(JOURNAL), None
    try:
        for offset, frame in frames(file, end, size, name):
            try:
                RowHead.of(frame)
            except FrameError as error:
                damaged = damaged or f"{name}: the row at byte {offset}: {error}"
                continue
            if damaged is not None:
                raise SnapshotError(damaged)
            end = offset + len(frame)
    except SnapshotError:
        if damaged is not None:
            raise
    return end


def _picks(source: Path, parts: ExitStack) -> Iterator[_Pick]:
    try:
        file = parts.enter_context(source.open("rb"))
    except OSError as error:
        raise SnapshotError(f"{source}: {error.strerror}") from error
    name, size = str(source), os.fstat(file.fileno()).st_size
    if os.pread(file.fileno(), len(JOURNAL), 0) == JOURNAL:
        start, end = len(JOURNAL), journal_end(file, size, name)
    else:
        with Snapshot(source) as snapshot:
            start, end = len(MAGIC), snapshot.rows_end
    for offset, frame in frames(file, start, end, name):
        try:
            yield _Pick(RowHead.of(frame), file, offset, len(frame))
        except FrameError as error:
            raise SnapshotError(f"{name}: the row at byte {offset}: {error}") from None


def _choose(picks: dict[bytes, _Pick], conflicts: set[bytes], pick: _Pick) -> None:
    rival = picks.get(pick.head.key)
    if rival is not None and rival.head.digest != pick.head.digest:
        conflicts.add(pick.head.key)
    if rival is None or rival.head.rank < pick.head.rank:
        picks[pick.head.key] = pick


def _write(path: Path, picks: dict[bytes, _Pick], conflicts: int) -> Summary:
    ordered = sorted(picks.values(), key=lambda pick: (pick.head.tool, pick.head.key))
    summary = _summary([pick.head for pick in ordered], conflicts)
    starts: dict[str, int] = {}
    index: list[tuple[bytes, bytes, int, int]] = []
    with path.open("xb") as file:
        at = file.write(MAGIC)
        for head, source, offset, length in ordered:
            starts.setdefault(head.tool, at)
            at += file.write(LENGTH.pack(length) + os.pread(source.fileno(), length, offset))
            index.append((head.key, head.digest, at - length, length))
        rest = b"".join(INDEX.pack(*entry) for entry in sorted(index))
        footer = orjson.dumps({**asdict(summary), "starts": starts})
        hashed = blake2b(rest + footer, digest_size=16).digest()
        file.write(rest + footer + TRAILER.pack(at, at + len(rest), hashed, END))
        file.flush()
        os.fchmod(file.fileno(), 0o444)
        os.fsync(file.fileno())
    return summary


def _summary(heads: Sequence[RowHead], conflicts: int) -> Summary:
    times = [head.recorded_at for head in heads]
    return Summary(
        id=id_of(head.digest for head in sorted(heads, key=lambda head: head.key)),
        rows=len(heads),
        statuses=dict(sorted(Counter(head.status for head in heads).items())),
        upstreams=dict(sorted(Counter(head.upstream for head in heads).items())),
        tools=dict(sorted(Counter(head.tool for head in heads).items())),
        recorded_from=min(times, default=None),
        recorded_to=max(times, default=None),
        conflicts=conflicts,
    )


def _sync_folder(folder: Path) -> None:
    """So that the name of a new file, too, outlives a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
