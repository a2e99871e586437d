"""Finds what a question names in a document, as paths to it."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from gateway.compress.budget import check_time
from gateway.compress.cells import day
from gateway.compress.choice import Choice
from gateway.compress.columns import named_columns, sure
from gateway.compress.decoded import Table, in_order, spaced
from gateway.compress.question import Question
from gateway.compress.words import words_of

WALKED = 200_000
"""How many values of a document are compared with the question."""

DEPTH = 48
"""Deeper values have no paths, and are left out."""

NAMED = 400
"""The most values that a question names in a document."""

ROWS = 50
"""The most rows of an array of objects that a question asks for."""

TABLES = 50
"""The most arrays of objects that are read as tables."""

Path = tuple[str | int, ...]

Tree = dict[str | int, Any]
"""The named paths as a tree; an empty one is the end of a path."""


def named_paths(value: Any, question: Question) -> list[Path]:
    """The paths to what the question names: rows of arrays of objects, fields by name, and values
    and keys that stand in it, dates too.
    """
    fields: dict[str, list[Path]] = {}
    places: list[Path] = []
    rows: list[Path] = []
    in_table: Path | None = None
    tables = 0
    words = {*words_of(question.text)}
    for count, (path, item) in enumerate(_walk(value)):
        if count == WALKED:
            break
        check_time()
        if in_table is not None and _is_cell(path, item, in_table):
            continue
        name = path[-1] if path else None
        if isinstance(name, str):
            fields.setdefault(name, []).append(path)
            if _is_named(name, question, words):
                places.append(path)
        if isinstance(item, str) and 1 < len(item) < 80 and item.lower() in question.text:
            places.append(path[:-1])
        elif isinstance(item, list) and item and isinstance(item[0], dict) and tables < TABLES:
            tables += 1
            if found := _rows(path, item, question):
                rows += found
                in_table = path
    by_field = [
        path for one in sure(named_columns(question, [*fields], {})) for path in fields[one.column]
    ]
    if places:  # of the fields that are named, first those within a place that is named
        within = [p for p in by_field if any(p[: len(place)] == place for place in places[:20])]
        by_field = [*within, *places] if within else (by_field or places)
    return [*dict.fromkeys([*rows, *by_field])][:NAMED]


def _is_cell(path: Path, item: Any, table: Path) -> bool:
    is_within = len(path) == len(table) + 2 and path[: len(table)] == table
    return is_within and not isinstance(item, dict | list)


def _is_named(key: str, question: Question, words: Collection[str]) -> bool:
    """Whether the question has this key of an object: a day, or a code with digits or capitals.
    `words` are those of the question.
    """
    if question.spans and (of := day(key)):
        return any(span.start.isoformat() <= of <= span.end.isoformat() for span in question.spans)
    is_code = key.isupper() and len(key) > 1 and not key.isdigit()
    return is_code and key.lower() in words


def _rows(path: Path, items: Sequence[Any], question: Question) -> list[Path]:
    """The paths to the cells of an array of objects that the question asks for: of the rows that it
    names, or of evenly spaced ones if it names columns only.
    """
    rows = [item for item in items if isinstance(item, dict)]
    if len(rows) < max(len(items), 2):
        return []
    table = Table([*dict.fromkeys(name for row in rows[:ROWS] for name in row)], rows)
    choice = Choice.of(table, {}, question)
    names = in_order(choice.columns[: choice.asked])
    places = [*choice.first, *choice.rows[:ROWS]]
    if not places and choice.names_columns:
        places = spaced(len(rows), ROWS)
    return [*islice(((*path, at, name) for at in places for name in names(rows[at])), NAMED)]


def _walk(value: Any) -> Iterator[tuple[Path, Any]]:
    """Every value with its path, in their order."""
    yield (), value
    waiting = [_parts((), value)]
    while waiting:
        found = next(waiting[-1], None)
        if found is None:
            waiting.pop()
            continue
        yield found
        if len(found[0]) < DEPTH:
            waiting.append(_parts(*found))


def _parts(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """The parts of a value with their paths."""
    if isinstance(value, dict):
        yield from (((*path, name), part) for name, part in value.items())
    elif isinstance(value, list):
        yield from (((*path, at), part) for at, part in enumerate(value))


def tree_of(paths: Sequence[Path]) -> Tree:
    tree: Tree = {}
    for path in paths:
        at = tree
        for part in path:
            at = at.setdefault(part, {})
    return tree
