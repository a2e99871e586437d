"""Shortens a document: a JSON value pruned by path, with the question in view.

What the question names stays, with the path to it. Of an array of objects the rows stay that the
question asks for, as if it were a table. Of the rest the first items of arrays and the first fields
of objects stay, as many as fit. What is left out is counted where it was: an object has a field
`"…"`, or `"name…"` for its array `name`; an array in an array ends with a text like `"… 95 more"`.

The shortened document is written as JSON, or as TOON where that takes fewer tokens.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.compress.budget import Budget
from gateway.compress.cells import day
from gateway.compress.choice import Choice
from gateway.compress.columns import named_columns, sure
from gateway.compress.cut import MORE, cut, spaced
from gateway.compress.decoded import Table
from gateway.compress.question import Question
from gateway.compress.text import shorten_text
from gateway.compress.toon import toon
from gateway.compress.words import words_of
from gateway.compress.written import Written, json_text, read

WALKED = 200_000
"""How many values of a document are compared with the question."""

DEPTH = 48
"""Deeper values are left out."""

NAMED = 400
"""The most values that a question names in a document."""

ROWS = 50
"""The most rows of an array of objects that a question asks for."""

TABLES = 50
"""The most arrays of objects that are read as tables."""

ASKED_CHARS = 400
"""How much of a long text stays that the question names."""


@dataclass(frozen=True, slots=True)
class ShortenedDocument:
    """`form` is `json` or `toon`. It is `whole` if nothing is left out."""

    text: str
    form: str
    whole: bool = False


@dataclass(frozen=True, slots=True)
class _Limits:
    """How much stays of what the question does not name."""

    items: int
    fields: int
    chars: int
    depth: int


_STEPS = (
    *(_Limits(0, 0, 24, 1), _Limits(0, 3, 24, 1), _Limits(1, 4, 32, 2), _Limits(1, 8, 48, 3)),
    *(_Limits(2, 12, 80, 4), _Limits(3, 24, 120, 6), _Limits(5, 40, 200, 8)),
    *(_Limits(8, 80, 400, 12), _Limits(15, 200, 800, 24), _Limits(40, 999, 2_000, DEPTH)),
    _Limits(120, 999, 8_000, DEPTH),
)
_ALL = _Limits(2**31, 2**31, 2**31, DEPTH)

Path = tuple[str | int, ...]


def shorten_document(data: bytes, budget: Budget, question: Question | None) -> ShortenedDocument:
    """The document within the budget, with numbers as they are written. Raises `ValueError` for
    what is not JSON.
    """
    if len(data) <= budget.most_bytes and budget.fits(text := data.decode()):
        return ShortenedDocument(text, "json", whole=True)
    try:
        value = read(data)
    except RecursionError:
        return ShortenedDocument(_least(None, budget), "json")
    pruning = _Pruning(value, budget, question)
    return (pruning.whole() if len(data) <= 2 * budget.most_bytes else None) or pruning.best()


class _Pruning:
    """Finds the fullest document that fits into a budget."""

    def __init__(self, value: Any, budget: Budget, question: Question | None) -> None:
        self._value = value
        self._budget = budget
        self._question = question

    def whole(self) -> ShortenedDocument | None:
        """The document with nothing left out, if it fits in a form that is shorter than JSON."""
        if self._pruned(self._value, _ALL, None) != self._value:
            return None
        text = self._written(self._value, "toon")
        return None if text is None else ShortenedDocument(text, "toon", whole=True)

    def best(self) -> ShortenedDocument:
        named = _named(self._value, self._question) if self._question is not None else []
        best: ShortenedDocument | None = None
        while best is None and named:  # as much as fits of what the question names
            best = self._at(_STEPS[0], named)
            named = named if best is not None else named[: len(named) // 2]
        for limits in _STEPS[1:]:
            more = self._at(limits, named)
            if more is None:
                break
            best = more
        return best or ShortenedDocument(_least(self._value, self._budget), "json")

    def _at(self, limits: _Limits, named: Sequence[Path]) -> ShortenedDocument | None:
        """The document within these limits in the form that takes fewer tokens, if it fits."""
        pruned = self._pruned(self._value, limits, _tree(named))
        forms = [
            (text, form) for form in _FORMS if (text := self._written(pruned, form)) is not None
        ]
        if not forms:
            return None
        return ShortenedDocument(*min(forms, key=lambda one: self._budget.size(one[0])))

    def _written(self, value: Any, form: str) -> str | None:
        text = _FORMS[form](value)
        is_short = len(text) <= self._budget.most_bytes
        return text if is_short and self._budget.fits(text) else None

    def _pruned(self, value: Any, limits: _Limits, named: "Tree | None", depth: int = 0) -> Any:
        """`named` is the tree below this value, None where the question names nothing."""
        if depth > DEPTH:
            return MORE
        if isinstance(value, dict):
            return self._object(value, limits, named, depth)
        if isinstance(value, list):
            kept, left = self._items(value, limits, named, depth)
            return [*kept, f"{MORE} {left} more"] if left else kept
        if isinstance(value, Written) or not isinstance(value, str):
            return value
        return self._text(value, limits.chars, is_named=named is not None)

    def _object(
        self, value: Mapping[str, Any], limits: _Limits, named: "Tree | None", depth: int
    ) -> Any:
        tree = named or {}
        most = limits.fields if depth < limits.depth else 0
        kept: dict[str, Any] = {}
        shown = 0
        for name, item in value.items():
            if name not in tree:
                if most == 0:
                    continue
                most -= 1
            shown += 1
            below = tree.get(name)
            note = f"{name}{MORE}"
            if isinstance(item, list) and depth < DEPTH and note not in value:
                kept[name], left = self._items(item, limits, below, depth + 1)
                if left:
                    kept[note] = f"{left} more"
            else:
                kept[name] = self._pruned(item, limits, below, depth + 1)
        if shown < len(value):
            kept[MORE] = f"{len(value) - shown} more"
        return kept

    def _items(
        self, value: Sequence[Any], limits: _Limits, named: "Tree | None", depth: int
    ) -> tuple[list[Any], int]:
        """The items that stay, and how many do not."""
        tree = named or {}
        most = limits.items if depth + 1 < limits.depth else 0
        kept = [
            self._pruned(item, limits, tree.get(at), depth + 1)
            for at, item in enumerate(value)
            if at in tree or at < most
        ]
        return kept, len(value) - len(kept)

    def _text(self, text: str, most: int, *, is_named: bool) -> str:
        most = max(most, ASKED_CHARS) if is_named else most
        if is_named and len(text) > most and self._question is not None:
            return shorten_text(text, Budget(most, "chars"), self._question.text)
        return cut(text, most)


_FORMS: Mapping[str, Callable[[Any], str]] = {"json": json_text, "toon": toon}


def _least(value: Any, budget: Budget) -> str:
    """What fits in any case: how much there is."""
    kind = "fields" if isinstance(value, dict) else "items"
    count = len(value) if isinstance(value, dict | list) else 1
    text = json_text({MORE: f"{count} {kind}"})
    return text if budget.fits(text) else json_text(MORE)


def _named(value: Any, question: Question) -> list[Path]:
    """The paths to what the question names: rows of arrays of objects, fields by name, and values
    and keys that stand in it, dates too.
    """
    fields: dict[str, list[Path]] = {}
    places: list[Path] = []
    rows: list[Path] = []
    in_table: Path | None = None
    tables = 0
    for count, (path, item) in enumerate(_walk(value)):
        if count == WALKED:
            break
        if in_table is not None and _is_cell(path, item, in_table):
            continue
        name = path[-1] if path else None
        if isinstance(name, str):
            fields.setdefault(name, []).append(path)
            if _is_named(name, question):
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


def _is_named(key: str, question: Question) -> bool:
    """Whether the question has this key of an object: a day, or a code with digits or capitals."""
    if question.spans and (of := day(key)):
        return any(span.start.isoformat() <= of <= span.end.isoformat() for span in question.spans)
    is_code = key.isupper() and len(key) > 1 and not key.isdigit()
    return is_code and key.lower() in words_of(question.text)


def _rows(path: Path, items: Sequence[Any], question: Question) -> list[Path]:
    """The paths to the cells of an array of objects that the question asks for: of the rows that it
    names, or of evenly spaced ones if it names columns only.
    """
    rows = [item for item in items if isinstance(item, dict)]
    if len(rows) < max(len(items), 2):
        return []
    table = Table([*dict.fromkeys(name for row in rows[:ROWS] for name in row)], rows)
    choice = Choice.of(table, {}, question)
    columns = choice.columns[: choice.asked]
    places = [*choice.first, *choice.rows[:ROWS]]
    if not places and choice.names_columns:
        places = spaced(len(rows), ROWS)
    return [(*path, at, name) for at in places for name in columns if name in rows[at]]


def _walk(value: Any) -> Iterator[tuple[Path, Any]]:
    """Every value with its path, in their order."""
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, item = waiting.pop()
        yield path, item
        if len(path) >= DEPTH:
            continue
        if isinstance(item, dict):
            waiting += [((*path, name), part) for name, part in reversed(item.items())]
        elif isinstance(item, list):
            waiting += [((*path, at), item[at]) for at in range(len(item) - 1, -1, -1)]


Tree = dict[str | int, Any]
"""The named paths as a tree; an empty one is the end of a path."""


def _tree(paths: Sequence[Path]) -> Tree:
    tree: Tree = {}
    for path in paths:
        at = tree
        for part in path:
            at = at.setdefault(part, {})
    return tree
