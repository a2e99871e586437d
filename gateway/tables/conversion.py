"""Tables for people and their programs: CSV, JSON Lines, Arrow and pandas."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    import pandas
    import pyarrow

Rows = Sequence[Mapping[str, Any]]


class NoTableError(TypeError):
    """The answer is no table: it is a document, an error or a shortened text."""


class PartialTableWarning(UserWarning):
    """A converted table lacks rows of the answer; the text says how to get all."""


def to_csv(rows: Rows, columns: Sequence[str], *, with_head: bool = True) -> str:
    """The rows with a header, as RFC 4180 has it: lines end with CR LF, a null cell is empty, and
    a nested value is written as JSON.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if with_head:
        writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return text.getvalue()


def to_json_lines(rows: Iterable[object]) -> str:
    """A JSON value for each row, each with a line's end."""
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows).decode()


def to_arrow(rows: Rows, columns: Sequence[str], *, reads_texts: bool = False) -> "pyarrow.Table":
    """The rows as an Arrow table. A column whose cells have no common type is a column of JSON
    texts. With `reads_texts`, texts that are dates or decimal numbers become these. Raises
    `ImportError` without pyarrow.
    """
    arrow = _needed("pyarrow", "parquet")
    arrays = []
    for name in columns:
        cells = [row.get(name) for row in rows]
        cells = _read_cells(cells) if reads_texts else cells
        try:
            arrays.append(arrow.array(cells))
        except (arrow.ArrowException, OverflowError):
            texts = [None if cell is None else orjson.dumps(cell).decode() for cell in cells]
            arrays.append(arrow.array(texts, arrow.string()))
    return arrow.table(arrays, names=[*columns])


def to_arrow_stream(rows: Rows, columns: Sequence[str]) -> bytes:
    """The rows as Arrow's IPC streaming format. Raises `ImportError` without pyarrow."""
    arrow = _needed("pyarrow", "parquet")
    table, sink = to_arrow(rows, columns), arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def to_pandas(rows: Rows, columns: Sequence[str]) -> "pandas.DataFrame":
    """The rows as a data frame; texts that are dates or decimal numbers become these. Raises
    `ImportError` without pandas.
    """
    pandas_ = _needed("pandas", "akshare")
    read = {name: _read_cells([row.get(name) for row in rows]) for name in columns}
    frame: pandas.DataFrame = pandas_.DataFrame(read, columns=[*columns])
    for name in columns:
        if any(isinstance(cell, datetime | date) for cell in read[name][:READ_OF_COLUMN]):
            frame[name] = pandas_.to_datetime(frame[name], utc=_has_zone(read[name]))
    return frame


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:?\d{2})?"
)
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")

READ_OF_COLUMN: Final = 1_000


def _read_cells(cells: list[Any]) -> list[Any]:
    """The cells of a column as dates, times or numbers, if all that are texts are such. A column of
    whole numbers that are texts holds codes, and stays as it is.
    """
    texts = {type(cell) for cell in cells if cell is not None}
    if texts != {str}:
        return cells
    forms: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
        (_DATE, date.fromisoformat), (_TIME, datetime.fromisoformat), (_DECIMAL, float),
    )  # fmt: skip
    for form, read in forms:
        if all(cell is None or form.fullmatch(cell) for cell in cells):
            if read is float and not any("." in cell for cell in cells if cell is not None):
                return cells
            try:
                return [None if cell is None else read(cell) for cell in cells]
            except ValueError:
                return cells
    return cells


def _has_zone(cells: Iterable[Any]) -> bool:
    return any(isinstance(cell, datetime) and cell.tzinfo is not None for cell in cells)


def _cell(cell: object) -> object:
    if isinstance(cell, bool | dict | list):
        return orjson.dumps(cell).decode()
    return cell


def _needed(package: str, extra: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        text = f"this needs {package}: pip install {package}, or 'finport[{extra}]'"
        raise ImportError(text, name=package) from None
