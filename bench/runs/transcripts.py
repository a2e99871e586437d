"""The transcripts of a run, read from `transcripts.jsonl` in its directory."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from bench.json_lines import JsonLinesError, Line, line_at, records
from bench.models.transcript import Exchange, TranscriptLine
from bench.record import EpisodeRecord
from bench.runs.about import RunDirectoryError, check_own
from bench.runs.resume import TRANSCRIPTS

__all__ = ["Exchange", "Transcripts"]

_LINE: TypeAdapter[TranscriptLine] = TypeAdapter(TranscriptLine)


def agents_lines(run_dir: Path) -> Iterator[TranscriptLine]:
    """The lines of a run's transcripts that are of its agent. Raises `RunDirectoryError`."""
    return (line for line, _ in _lines(run_dir / TRANSCRIPTS) if line.by == "agent")


class Transcripts:
    """The transcripts of the run in a directory, as its file was when this was made; false if it
    has none. Making it reads the file once, and holds the places of its lines.
    """

    def __init__(self, run_dir: Path) -> None:
        """Raises `RunDirectoryError` for a file that can't be read."""
        self._file = run_dir / TRANSCRIPTS
        self._places: dict[tuple[str, float], list[int]] = {}
        self._left_out: dict[tuple[str, float], int] = {}
        for line, at in _lines(self._file):
            name = line.episode, line.began
            self._places.setdefault(name, []).append(at.offset)
            if line.left_out:
                self._left_out[name] = self._left_out.get(name, 0) + line.left_out

    def __bool__(self) -> bool:
        return bool(self._places)

    def left_out(self, record: EpisodeRecord) -> int:
        """How many further requests of an episode are not in its transcript."""
        return self._left_out.get((record.episode, record.started_at), 0)

    def of(self, record: EpisodeRecord) -> list[Exchange]:
        """The requests of the agent of an episode, by step, then those of its judge. An agent's
        part of an episode that was played again replaces the earlier one, as does a judge's.

        Raises `RunDirectoryError` for lines that no run wrote.
        """
        agents: list[Exchange] = []
        judges: list[Exchange] = []
        for place in self._places.get((record.episode, record.started_at), ()):
            try:
                line = _LINE.validate_json(line_at(self._file, place))
                found = line.exchanges()
            except OSError as error:
                raise RunDirectoryError(f"{self._file}: {error.strerror}") from error
            except (ValidationError, ValueError) as error:
                raise RunDirectoryError(f"{self._file}: {record.episode}: {error}") from error
            if line.by == "judge":
                judges = found
                continue
            first = min((one.step for one in found), default=0)
            agents = [one for one in agents if one.step < first] + found
        return [*agents, *judges]


def _lines(file: Path) -> Iterator[tuple[TranscriptLine, Line]]:
    """All lines; none if there is no file. Raises `RunDirectoryError`."""
    check_own(file)
    if not file.exists():
        return
    try:
        yield from records(file, _LINE)
    except JsonLinesError as error:
        raise RunDirectoryError(str(error)) from error
