"""A run directory as exports read it: what was run, and its records one after the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from bench.record import EpisodeRecord
from bench.runs.about import RunInfo
from bench.runs.directory import read_calls, read_episodes
from bench.runs.resume import ABANDONED
from gateway import CallRecord

OWN_FILES = ("calls.jsonl", "episodes.jsonl", "run.json", "metrics.json", ABANDONED)
"""What a run directory is made of, and nothing made of the run may take the place of."""


class ExportError(Exception):
    """An export can't be made; the text says why."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run directory. `about` is what its `run.json` says."""

    path: Path
    about: RunInfo

    @classmethod
    def open(cls, path: Path) -> "Run":
        """Raises `RunDirectoryError`, as reading its records may."""
        return cls(path, RunInfo.read(path))

    def calls(self) -> Iterator[tuple[CallRecord, int]]:
        """Calls in the order of the file, each with its length there in bytes. A torn last line is
        left out.
        """
        return read_calls(self.path)

    def episodes(self) -> Iterator[tuple[EpisodeRecord, int]]:
        """Episodes, as `calls`."""
        return read_episodes(self.path)

    def trace_id(self, episode: EpisodeRecord) -> str:
        """32 hex digits that name an episode among those of all runs; always the same ones."""
        names = [self.about.content.get(name) for name in ("digest", "started_at")]
        text = orjson.dumps([*names, episode.episode, episode.started_at])
        return blake2b(text, digest_size=16).hexdigest()


def text_of(output: str | dict[str, Any]) -> str:
    """The output of a call as text; that of a failed one is JSON."""
    return output if isinstance(output, str) else json_text(output)


def json_text(value: object) -> str:
    return orjson.dumps(value).decode()
