"""Transcripts as JSON Lines: one episode per line, with each request to a model as it was sent."""

from pathlib import Path
from typing import Any

from bench.exports.target import write_lines
from bench.record import EpisodeRecord
from bench.runs.reader import ExportError, Run
from bench.runs.transcripts import Transcripts


def write(run: Run, out: Path, *, force: bool = False) -> int:
    """Write the transcripts of `run` to the file `out`, and return the number of episodes. Raises
    `ExportError` for a run without any, `RunDirectoryError` and `OSError`.
    """
    transcripts = Transcripts(run.path)
    if not transcripts:
        raise ExportError(f"{run.path} has no transcripts: it asked no model, or kept none")

    def line_of(_: Run, record: EpisodeRecord) -> dict[str, Any]:
        return {
            "episode": record.episode,
            "id": record.id,
            "question": record.question,
            "execution_result": record.execution_result,
            "requests": transcripts.of(record),
            "left_out": transcripts.left_out(record),
        }

    return write_lines(run, out, line_of, force=force)
