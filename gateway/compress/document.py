"""Shortens a document: a JSON value pruned by path, with the question in view. It stays JSON.

What the question names stays, with the path to it. Of the rest the first items of arrays and the
first fields of objects stay, as many as fit. What is left out is counted where it was: an array
ends with a text like `"… 95 more"`, an object with a field `"…"`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.compress.budget import Budget
from gateway.compress.columns import named_columns
from gateway.compress.question import Question
from gateway.compress.written import Written, json_text, read

MORE = "…"

WALKED = 200_000
"""How many values of a document are compared with the question."""

WHOLE = 40
"""A document of more bytes for each token or character of the budget can't fit as a whole."""

DEPTH = 48
"""Deeper values are left out."""

NAMED = 400
"""The most values that a question names in a document."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """How much stays of what the question does not name."""

    items: int
    fields: int
    chars: int
    depth: int


_STEPS = (
    *(_Limits(0, 3, 24, 1), _Limits(1, 4, 32, 2), _Limits(1, 8, 48, 3), _Limits(2, 12, 80, 4)),
    *(_Limits(3, 24, 120, 6), _Limits(5, 40, 200, 8), _Limits(8, 80, 400, 12)),
    *(_Limits(15, 200, 800, 24), _Limits(40, 999, 2_000, DEPTH), _Limits(120, 999, 8_000, DEPTH)),
)

Path = tuple[str | int, ...]


def shorten_document(data: bytes, budget: Budget, question: Question | None) -> str:
    """JSON within the budget, with numbers as they are written. Raises `ValueError` for what is not
    JSON.
    """
    if len(data) <= WHOLE * budget.limit and budget.fits(text := data.decode()):
        return text
    try:
        value = read(data)
    except RecursionError:
        return _least(None, budget)
    named = _named(value, question) if question is not None else []
    best: str | None = None
    for limits in _STEPS:
        text = json_text(_pruned(value, limits, _tree(named)))
        if not budget.fits(text):
            break
        best = text
    while best is None and named:  # the question names too much
        named = named[: len(named) // 2]
        text = json_text(_pruned(value, _STEPS[0], _tree(named)))
        best = text if budget.fits(text) else None
    return best if best is not None else _least(value, budget)


def _least(value: Any, budget: Budget) -> str:
    """What fits in any case: how much there is."""
    kind = "fields" if isinstance(value, dict) else "items"
    count = len(value) if isinstance(value, dict | list) else 1
    text = json_text({MORE: f"{count} {kind}"})
    return text if budget.fits(text) else json_text(MORE)


def _named(value: Any, question: Question) -> list[Path]:
    """The paths to what the question names: fields by name, values that stand in it."""
    fields: dict[str, list[Path]] = {}
    values: list[Path] = []
    for count, (path, item) in enumerate(_walk(value)):
        if count == WALKED:
            break
        if path and isinstance(path[-1], str):
            fields.setdefault(path[-1], []).append(path)
        if isinstance(item, str) and 1 < len(item) < 80 and item.lower() in question.text:
            values.append(path)
    names = named_columns(question.text, [*fields], {})
    surest = max((one.sureness for one in names), default=0.0)
    sure = [one for one in names if one.sureness >= min(0.6, surest)]
    by_field = [path for one in sure for path in fields[one.column]]
    if values:  # of the fields that are named, first those beside a value that is named
        around = [path[:-1] for path in values[:20]]
        beside = [p for p in by_field if any(p[: len(place)] == place for place in around)]
        by_field = [*beside, *values] if beside else (by_field or around)
    return [*dict.fromkeys(by_field)][:NAMED]


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


def _pruned(value: Any, limits: _Limits, named: Tree | None, depth: int = 0) -> Any:
    """`named` is the tree below this value, None where the question names nothing."""
    if depth > DEPTH:
        return MORE
    if isinstance(value, dict):
        return _pruned_object(value, limits, named, depth)
    if isinstance(value, list):
        return _pruned_array(value, limits, named, depth)
    is_long = isinstance(value, str) and not isinstance(value, Written)
    if is_long and len(value) > (limits.chars if named is None else max(limits.chars, 200)):
        return _cut(value, limits.chars if named is None else max(limits.chars, 200))
    return value


def _pruned_object(
    value: Mapping[str, Any], limits: _Limits, named: Tree | None, depth: int
) -> Any:
    tree = named or {}
    most = limits.fields if depth < limits.depth else 0
    kept: dict[str, Any] = {}
    free = 0
    for name, item in value.items():
        if name in tree:
            kept[name] = _pruned(item, limits, tree[name], depth + 1)
        elif free < most:
            free += 1
            kept[name] = _pruned(item, limits, None, depth + 1)
    if len(kept) < len(value):
        kept[MORE] = f"{len(value) - len(kept)} more"
    return kept


def _pruned_array(value: Sequence[Any], limits: _Limits, named: Tree | None, depth: int) -> Any:
    tree = named or {}
    most = limits.items if depth < limits.depth else 0
    kept = [
        _pruned(item, limits, tree.get(at), depth + 1)
        for at, item in enumerate(value)
        if at in tree or at < most
    ]
    left = len(value) - len(kept)
    return [*kept, f"{MORE} {left} more"] if left else kept


def _cut(text: str, most: int) -> str:
    """The start of a text up to a word's end."""
    head = text[:most]
    border = head.rfind(" ", most // 2)
    return (head[:border] if border > 0 else head) + MORE
