"""FinToolBench's traces for its public evaluator, one episode a line.

The evaluator takes ids for unique and keeps the last of two lines with one id. So from the second
repeat on an id is the episode's name, `{id}.{repeat}`.
"""

from pathlib import Path
from typing import Any

from bench.exports.target import write_lines
from bench.record import EpisodeRecord
from bench.runs.reader import Run
from bench.suites.fintoolbench.traces import to_public


def write(run: Run, out: Path, *, force: bool = False) -> int:
    """The episodes of `run`, as lines of the file `out`; how many they are.

    Raises `ExportError`, `RunDirectoryError` and `OSError`.
    """
    return write_lines(run, out, public, force=force)


def public(_run: Run, episode: EpisodeRecord) -> dict[str, Any]:
    """The public trace of an episode."""
    line = to_public(episode)
    return {**line, "id": episode.episode} if episode.repeat else line
