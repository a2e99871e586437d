"""Tables for people and their programs: CSV, JSON Lines, Arrow and pandas."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def to_arrow(rows: Rows, columns: Sequence[str]) -> "pyarrow.Table":
    """The rows as an Arrow table. A column whose cells have no common type is a column of JSON
    texts. Raises `ImportError` without pyarrow.
    """
    arrow = _needed("pyarrow", "parquet")
    arrays = []
    for name in columns:
        cells = [row.get(name) for row in rows]
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
    """The rows as a data frame. Raises `ImportError` without pandas."""
    frame: pandas.DataFrame = _needed("pandas", "akshare").DataFrame(rows, columns=[*columns])
    return frame


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
