"""The only reader of run directories: gives what was run, and its records one after another."""

import logging
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import AfterValidator, TypeAdapter, ValidationError

from bench.json_lines import JsonLinesError, Line, line_at, records
from bench.record import LAST_SECOND, MOST, EpisodeRecord
from bench.runs.about import INTERRUPTED, RunDirectoryError, RunInfo, check_own
from bench.runs.digest import run_digest
from bench.runs.resume import ABANDONED, CHECKPOINTS, TRANSCRIPTS, UNJUDGED, changes
from gateway import CallRecord
from manifests.common.problem import first_problem
from manifests.common.regular_file import open_regular

log = logging.getLogger("finport")

OWN_FILES = (
    *("calls.jsonl", "episodes.jsonl", "run.json", "metrics.json"),
    *(ABANDONED, CHECKPOINTS, UNJUDGED, TRANSCRIPTS),
)
"""The files of a run directory. No file made from the run may replace them."""


class ExportError(Exception):
    """An export can't be made; the text says why."""


def _plausible(call: CallRecord) -> CallRecord:
    numbers = (call.age_s, call.elapsed_ms, call.attempts, call.bytes, call.rows, call.step)
    if not 0 <= call.at <= LAST_SECOND or not all(abs(n or 0) <= MOST for n in numbers):
        raise ValueError("a number in it is none that a call can have")
    return call


_CALL: TypeAdapter[CallRecord] = TypeAdapter(Annotated[CallRecord, AfterValidator(_plausible)])
_EPISODE: TypeAdapter[EpisodeRecord] = TypeAdapter(EpisodeRecord)
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class Run:
    """A run directory. `about` is what its `run.json` says.

    Records come in the order of their file, without an incomplete last one. Reading them raises
    `RunDirectoryError`.
    """

    path: Path
    about: RunInfo

    @classmethod
    def open(cls, path: Path) -> "Run":
        """Raises `RunDirectoryError`, also if a file of the run is a link or no regular file."""
        for name in OWN_FILES:
            check_own(path / name)
        return cls(path, RunInfo.read(path))

    def changed(self, digest: str | None = None) -> str | None:
        """A sentence if the files are not those that the run left, else None. `digest` is that of
        the files, if it is known.

        Of a run that was interrupted, what it has written since its last digests is not compared.
        """
        recorded = self.about.content.get("digest")
        if self.about.ended == INTERRUPTED:
            try:
                found = "; ".join(changes(self.path, self.about))
            except OSError as error:
                found = f"{error.filename}: {error.strerror}"
            said = "the files are not those that the run left"
            return f"{self.path}: {said}: {found}" if found else None
        if recorded is None:
            return None
        try:
            found = f"theirs is {digest or run_digest(self.path)}"
        except RunDirectoryError as error:
            found = f"they can't be read: {error}"
        if found.endswith(f" {recorded}"):
            return None
        said = f"run.json has digest {recorded}, {found}"
        return f"{self.path}: the files are not those that the run left: {said}"

    def calls(self) -> Iterator[tuple[CallRecord, Line]]:
        """Calls, each with its line."""
        return calls_in(self.path / "calls.jsonl")

    def episodes(self) -> Generator[tuple[EpisodeRecord, Line]]:
        """Episodes, each with its line, at whose offset `episode_at` reads it again.

        No digest covers all lines of an interrupted run, so each of its episodes counts once, and
        the number of repeated records is logged.
        """
        file, seen, doubled = self.path / "episodes.jsonl", set[str](), 0
        is_whole = self.about.ended != INTERRUPTED
        for record, line in _records(file, _EPISODE):
            if not is_whole and record.episode in seen:
                doubled += 1
                continue
            if not is_whole:
                seen.add(record.episode)
            yield record, line
        if doubled:
            text = "%s: %d records of episodes that are there already don't count"
            log.warning(text, file, doubled)

    def is_cut(self, name: str) -> bool:
        """Whether the last line of a file of records is incomplete, as a kill leaves it."""
        try:
            with open_regular(self.path / name) as file:
                file.seek(-1, os.SEEK_END)
                return file.read() != b"\n"
        except OSError:  # it is empty, or its reader will tell
            return False

    def episode_at(self, place: int) -> EpisodeRecord:
        """The episode at a place. Raises `RunDirectoryError`, also if the file has changed."""
        return episode_at(self.path / "episodes.jsonl", place)

    def records(self) -> Iterator[EpisodeRecord | CallRecord]:
        """All calls, then all episodes."""
        yield from (call for call, _ in self.calls())
        yield from (episode for episode, _ in self.episodes())

    def trace_id(self, episode: EpisodeRecord) -> str:
        """32 hex digits that identify an episode among all runs; the same at each call."""
        names = [self.about.content.get(name) for name in ("digest", "started_at")]
        text = orjson.dumps([*names, episode.episode, episode.started_at])
        return blake2b(text, digest_size=16).hexdigest()


def calls_in(trace: Path) -> Iterator[tuple[CallRecord, Line]]:
    """The calls of a trace, each with its line. Raises `RunDirectoryError`."""
    return _records(trace, _CALL)


def episode_at(file: Path, place: int) -> EpisodeRecord:
    """The episode at a place of a file. Raises `RunDirectoryError`."""
    try:
        return _EPISODE.validate_json(line_at(file, place))
    except OSError as error:
        raise RunDirectoryError(f"{file}: {error.strerror}") from error
    except ValidationError as error:
        text = f"{file}: it was changed while it was read: {first_problem(error)}"
        raise RunDirectoryError(text) from error


def _records(file: Path, kind: TypeAdapter[_Record]) -> Iterator[tuple[_Record, Line]]:
    try:
        yield from records(file, kind)
    except JsonLinesError as error:
        raise RunDirectoryError(str(error)) from error


def text_of(output: str | dict[str, Any]) -> str:
    """The output of a call as text; a failed call's output is JSON."""
    return output if isinstance(output, str) else json_text(output)


def json_text(value: object) -> str:
    return orjson.dumps(value).decode()
