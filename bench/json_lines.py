"""Reads JSON Lines; it defines what a line is, for every such file.

A line ends at its line feed. Blank lines are counted and skipped. A byte order mark before a line
is not part of it. A last line without a line feed may have been written only partly: whether it
counts is decided by the reader of the file. One line is in memory at a time, and no line longer
than `LINE_BYTES`.
"""

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from manifests.common.problem import first_problem
from manifests.common.regular_file import open_regular

LINE_BYTES = 64 * 2**20
"""The longest line that is read; a run's lines are less than a quarter of it."""

_T = TypeVar("_T")


class JsonLinesError(Exception):
    """The file can't be read; the text names it, the line, and the reason."""


class IncompleteLineError(Exception):
    """The last line of a file is incomplete, as a kill leaves it; all lines before it were given.
    The text names the file and the line, whose number is `number`.
    """

    def __init__(self, line: "Line") -> None:
        super().__init__(str(line.error("the last line is incomplete, and is left out")))
        self.number = line.number


class Line(NamedTuple):
    """A line that is not blank, without its line feed. `number` counts from 1, `offset` is where it
    begins in the file, `is_ended` says whether a line feed follows.
    """

    file: Path
    number: int
    offset: int
    text: bytes
    is_ended: bool

    def error(self, reason: str) -> JsonLinesError:
        return JsonLinesError(f"{self.file}:{self.number}: {reason}")


def lines(file: Path) -> Iterator[Line]:
    """All lines, including a last one without a line feed. Raises `JsonLinesError`."""
    number = offset = 0
    try:
        with open_regular(file) as opened:
            while text := opened.readline(LINE_BYTES):
                number += 1
                is_ended = text.endswith(b"\n")
                line = Line(file, number, offset, _bare(text), is_ended)
                if len(text) == LINE_BYTES and not is_ended:
                    raise line.error(f"a line is over {LINE_BYTES} bytes")
                if line.text.strip():
                    yield line
                offset += len(text)
    except OSError as error:
        raise JsonLinesError(f"{file}: {error.strerror}") from error


def line_at(file: Path, offset: int) -> bytes:
    """The text of the line that begins at `offset`. Raises `OSError`."""
    with open_regular(file) as opened:
        opened.seek(offset)
        return _bare(opened.readline(LINE_BYTES))


def ended_lines(file: Path) -> Iterator[Line]:
    """The lines of a file that a run appends to, without an incomplete last one. Raises
    `JsonLinesError`.
    """
    return (line for line in lines(file) if line.is_ended)


def records(file: Path, kind: TypeAdapter[_T]) -> Iterator[tuple[_T, Line]]:
    """The records in the complete lines of a file (`ended_lines`). Raises `JsonLinesError`."""
    for line in ended_lines(file):
        try:
            record = kind.validate_json(line.text)
        except ValidationError as error:
            raise line.error(f"not a record: {first_problem(error)}") from error
        yield record, line


def values(file: Path, loads: Callable[[bytes], _T]) -> Iterator[tuple[_T, Line]]:
    """The values that `loads` reads from the lines of a file from any source. Its last line may
    lack its line feed; if it is incomplete, raises `IncompleteLineError` after all others. Raises
    `JsonLinesError`.

    `loads` raises `ValueError` for invalid JSON, `RecursionError` for JSON that is nested too deep.
    """
    for line in lines(file):
        try:
            value = loads(line.text)
        except (ValueError, RecursionError) as error:
            if line.number > 1 and not line.is_ended:
                raise IncompleteLineError(line) from error
            raise line.error(f"not JSON: {error}") from error
        yield value, line


def _bare(text: bytes) -> bytes:
    return text.removeprefix(BOM_UTF8).removesuffix(b"\n")
